"""Declares the arrays of a state once; saving, loading, checking and sizes follow from the declaration.

A holder of state (a learner, a scaler, a mixture ...) declares its arrays by their names in the state:

    LAYOUT = Layout(
        weights=Array("m", "D", within=1e200, at="W"),
        covariance=Symmetric("D", within=1e200, at="Q"),
        tally=Array(3, within=NOT_NEGATIVE, places={ROWS: WHOLE}, at="counters"),
    )

Dimensions are numbers or names; ``at`` is the holder's attribute if it differs from the array's name. Then

    LAYOUT.to_arrays(self)                  copies, triangles packed: what ``to_arrays`` returns
    LAYOUT.read(arrays, m=2, D=5)           checks all arrays: {attribute: array}, what ``load_arrays`` sets
    LAYOUT.held_bytes(self)                 bytes of the arrays a holder has
    LAYOUT.bytes(m=2, D=5)                  bytes they would have, before anything is built

A name without a given size is free: any size, but the same in all arrays (triangles need a given or earlier one).
``LAYOUT.without("stored")`` leaves out arrays that do not always exist. All arrays are float64 and C-contiguous. A
number outside the ``Range`` of its array is refused; without a range, NaN and infinity are. A ``Holder`` saves and
loads its layout's arrays and its counts, and checks conditions between them. ``tests/core/state/hostile.py`` breaks
every array in every way.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header

LARGEST = float(np.finfo(np.float64).max)
ROWS_MAX = 2**53 - 1  # largest number of rows: float64 can still count one more
_SUM_ERROR = 1e-6


class Range(NamedTuple):
    """The numbers that an array, or one place of it, may have, including both ends; by default all finite ones."""

    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = False  # integers only
    undefined: bool = False  # NaN is allowed, too

    def holds(self, values: Floats) -> bool:
        """Whether all values are in the range."""
        held = (values >= self.low) & (values <= self.high)  # NaN compares false
        if self.whole:
            held &= values == np.floor(values)
        if self.undefined:
            held |= np.isnan(values)
        return bool(held.all())


FINITE = Range()
NOT_NEGATIVE = Range(0.0)
POSITIVE = Range(math.ulp(0.0))
WHOLE = Range(0.0, float(ROWS_MAX), whole=True)

Counts = Mapping[str, int]
"""Counts of a state by name, or the largest value of each."""
Selection = tuple[Any, ...]
"""An index into an array in the form of the state."""


class Array:
    """One array of a state; ``shape`` has sizes, or names of sizes.

    All its numbers are ``within`` a range; a number b is short for Range(-b, b). ``places`` adds ranges for places
    along ``axis`` (0 or -1), single ones or several (a tuple); ``ordered`` lists pairs of places along it whose first
    number is never larger than the second. ``at`` is the holder's attribute, by default the array's name in the state.
    """

    def __init__(
        self,
        *shape: int | str,
        within: Range | float = FINITE,
        places: Mapping[Any, Range] | None = None,
        axis: int = -1,
        ordered: Sequence[tuple[int, int]] = (),
        at: str = "",
    ) -> None:
        self.shape, self.at = shape, at
        self._within = within if isinstance(within, Range) else Range(-within, within)
        self._axis, self._ordered = axis, tuple(ordered)
        several = {at if isinstance(at, tuple) else (at,): held for at, held in (places or {}).items()}
        self._places = {place: held for at, held in several.items() for place in at}

    def stored(self, sizes: Mapping[str, int]) -> tuple[int | str, ...]:
        """The shape in a state; names without a size remain."""
        return tuple(sizes.get(side, side) if isinstance(side, str) else side for side in self.shape)

    def pack(self, array: Floats) -> Floats:
        """A copy in the form of the state."""
        return array.copy()

    def unpack(self, packed: Floats) -> Floats:
        """A copy in the form of the holder."""
        return np.array(packed, order="C")

    def ranges(self, packed: Floats) -> list[tuple[Selection, Range]]:
        """The parts of the array, each with its range."""
        del packed
        return [((...,), self._within), *((self._place(place), held) for place, held in self._places.items())]

    def pairs(self) -> list[tuple[Selection, Selection]]:
        """Pairs of places; the first is not larger than the second."""
        return [(self._place(low), self._place(high)) for low, high in self._ordered]

    def _place(self, place: int) -> Selection:
        return (place,) if self._axis == 0 else (..., place)

    def fits(self, packed: Floats) -> bool:
        """Whether the numbers of an array of the right shape are valid."""
        return all(held.holds(packed[at]) for at, held in self.ranges(packed)) and not any(
            (packed[low] > packed[high]).any() for low, high in self.pairs()
        )


class Shares(Array):
    """Nonnegative numbers that sum to 1 along the last axis."""

    def __init__(self, *shape: int | str, at: str = "") -> None:
        super().__init__(*shape, within=NOT_NEGATIVE, at=at)

    def fits(self, packed: Floats) -> bool:
        """As for any array; also, the sums are 1 up to round-off."""
        return super().fits(packed) and bool((np.abs(packed.sum(axis=-1) - 1.0) <= _SUM_ERROR).all())


class Triangle(Array):
    """Matrices (..., D, D) whose upper triangle is kept, row by row; the rest is zero when read.

    ``shape``: the sizes before the last two, then D; ``diagonal``: the range of the diagonal.
    """

    def __init__(
        self, *shape: int | str, within: Range | float = FINITE, diagonal: Range | None = None, at: str = ""
    ) -> None:
        super().__init__(*shape, shape[-1], within=within, at=at)
        self._diagonal = diagonal

    def stored(self, sizes: Mapping[str, int]) -> tuple[int | str, ...]:
        """The leading sizes, then D (D + 1) / 2."""
        *leading, _, D = super().stored(sizes)
        assert isinstance(D, int), "a triangle needs the size of its matrix"
        return (*leading, D * (D + 1) // 2)

    def pack(self, array: Floats) -> Floats:
        """The triangles, as copies."""
        upper = np.triu(np.ones(array.shape[-2:], dtype=bool))
        packed = np.empty((*array.shape[:-2], np.count_nonzero(upper)))
        for at in np.ndindex(packed.shape[:-1]):  # at once, the indices would take more memory than the matrices
            packed[at] = array[at][upper]
        return packed

    def unpack(self, packed: Floats) -> Floats:
        """The matrices."""
        D = _side(packed)
        upper, matrices = np.triu(np.ones((D, D), dtype=bool)), np.zeros((*packed.shape[:-1], D, D))
        for at in np.ndindex(packed.shape[:-1]):
            self._fill(matrices[at], upper, packed[at])
        return matrices

    def _fill(self, matrix: Floats, upper: NDArray[np.bool_], packed: Floats) -> None:
        matrix[upper] = packed

    def ranges(self, packed: Floats) -> list[tuple[Selection, Range]]:
        """The ranges of all numbers and of the diagonal."""
        pivots = np.cumsum([0, *range(_side(packed), 1, -1)])
        diagonal = [((..., pivots), self._diagonal)] if self._diagonal else []
        return [*super().ranges(packed), *diagonal]


class Symmetric(Triangle):
    """Symmetric matrices (..., D, D); only the upper triangle is used."""

    def _fill(self, matrix: Floats, upper: NDArray[np.bool_], packed: Floats) -> None:
        matrix[upper] = matrix.T[upper] = packed


def _side(packed: Floats) -> int:
    """D of D (D + 1) / 2 numbers."""
    return (math.isqrt(8 * packed.shape[-1] + 1) - 1) // 2


class Layout:
    """The arrays of a state by name; see above."""

    def __init__(self, **arrays: Array) -> None:
        self.arrays = arrays
        self._attributes = {name: array.at or name for name, array in self.arrays.items()}

    def without(self, *names: str) -> "Layout":
        """The layout of a state that lacks some arrays."""
        return Layout(**{name: array for name, array in self.arrays.items() if name not in names})

    def to_arrays(self, holder: object) -> dict[str, NDArray[Any]]:
        """Copies of a holder's arrays in the form of the state."""
        return {name: array.pack(getattr(holder, self._attributes[name])) for name, array in self.arrays.items()}

    def read(self, arrays: Mapping[str, NDArray[Any]], **sizes: int) -> dict[str, Floats]:
        """The checked arrays of a state with these sizes, as copies in the form of the holder, by attribute.

        ``ValueError`` if names, types, shapes or numbers differ from the declaration.
        """
        if set(arrays) != set(self.arrays):
            raise ValueError(f"the state must hold exactly the arrays {sorted(self.arrays)}")
        for name, declared in self.arrays.items():
            _check_shape(name, arrays[name], declared.stored(sizes), sizes)
            if not declared.fits(arrays[name]):
                raise ValueError(f"{name} holds a value that no state can have")
        return {self._attributes[name]: declared.unpack(arrays[name]) for name, declared in self.arrays.items()}

    def extend(self, holder: object, other: object, places: NDArray[np.int64], side: str = "D") -> None:
        """Copy the arrays of a holder that is smaller along one side, the last side of every array that has it.

        ``places``: where the other's numbers go along the side; the rest stays. All other sides are equally long.
        """
        for name, declared in self.arrays.items():
            attribute = self._attributes[name]
            own, smaller = getattr(holder, attribute), getattr(other, attribute)
            if side not in declared.shape:
                setattr(holder, attribute, smaller.copy())
            elif declared.shape.count(side) == 1:
                own[..., places] = smaller
            else:
                own[..., places[:, None], places] = smaller

    def held_bytes(self, holder: object) -> int:
        """Bytes of the arrays that a holder has."""
        return sum(int(getattr(holder, attribute).nbytes) for attribute in self._attributes.values())

    def bytes(self, **sizes: int) -> int:
        """Bytes of arrays with these sizes, all of which are required."""
        shapes = (array.shape for array in self.arrays.values())
        return 8 * sum(math.prod(sizes[side] if isinstance(side, str) else side for side in shape) for shape in shapes)


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int | str, ...], sizes: dict[str, int]) -> None:
    """Refuse another type or shape; a free size is fixed from then on, in ``sizes``."""
    wrong = array.dtype != np.float64 or array.ndim != len(shape)
    if wrong or any(size != sizes.setdefault(side, size) if isinstance(side, str) else size != side
                    for side, size in zip(shape, array.shape, strict=True)):  # fmt: skip
        raise ValueError(f"{name} must be float64 of shape {shape}")


def counts(header: Header, **most: int) -> tuple[int, ...]:
    """The integers of a header that has nothing else, in the requested order: each from 0 to its largest value.

    ``ValueError`` for wrong names or types, or a number out of range.
    """
    if set(header) != set(most):
        raise ValueError(f"the header must hold exactly {sorted(most)}")
    for name, bound in most.items():
        if type(header[name]) is not int or not 0 <= header[name] <= bound:
            raise ValueError(f"{name} must be an integer from 0 to {bound}")
    return tuple(header[name] for name in most)


class Holder:
    """A holder of arrays and counts, both as attributes."""

    layout: ClassVar[Layout]
    object_bytes: ClassVar[int] = 0  # memory of the objects around them
    counts: Mapping[str, int] = {}  # the largest value of each count

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""
        return self.layout.held_bytes(self) + self.object_bytes

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state: copies of its arrays, and the counts as header."""
        return self.layout.to_arrays(self), {name: getattr(self, name) for name in self.counts}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; a ``ValueError`` leaves the holder unchanged."""
        found = dict(zip(self.counts, counts(header, **self.counts), strict=True))
        held = self.layout.read(arrays, **self._sizes(found))
        self._check(held, found)
        for name, value in (*held.items(), *found.items()):
            setattr(self, name, value)
        self._loaded()

    def _loaded(self) -> None:
        """Compute attributes that follow from the state just loaded; by default there are none."""

    def _sizes(self, _found: Counts) -> Counts:
        """The sizes of the layout for these counts; by default all are free."""
        return {}

    def _check(self, _held: Mapping[str, Floats], _found: Counts) -> None:
        """Raise ValueError for inconsistent arrays, by attribute; by default none are."""
