"""The feature space of a model that takes named sparse rows: any name may occur, and rows are projected when read.

A row is a set of names with their values; an absent name is 0, and new names may occur at any time. A raw row is psi
(d,), the row's random projection (projection.py), computed only here: the log, the model and the learner only see psi.
Rows are given by name (``row``) or as lists of names and of JSON values or texts (``lists``). The same rules apply:
names of 1 to 200 printable characters, none twice in a row, at most 100 000; values finite and of a number type.
A row without any name is the zero row.

Like tables (parsing.py), rows are read vectorised; if a name or value is unusual, they are read again one by one,
which names the problems.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from core.contract import Floats
from core.features.feature import NAME_MAX, Feature, digest
from core.features.parsing import Unfit, number, vectorised
from core.problems import PROBLEMS_MAX, Invalid, Problem, refuse

if TYPE_CHECKING:
    from core.features.projection import Projection

ProjectionKind = Literal["sign", "gaussian"]
NAMES_MAX = 100_000  # most names in one row
WORK_MAX: dict[ProjectionKind, float] = {"sign": 2e9, "gaussian": 1e8}
"""Most names times d in one request: about half a second, and one and a half."""
_NAME = f"1 to {NAME_MAX} printable characters"
_VALUE = "a finite number; a name left out is 0"
Place = Callable[[int, int, str], str]
"""Names a name or a value for errors, by its row, its position there, and "names" or "values"."""


class SparseSchema:
    """The space of all names; equal seeds, dimensions and kinds have equal ids.

    It has no declared features, no names and no names of columns; projected rows have d = ``dimension`` columns.
    """

    features: Final[tuple[Feature, ...]] = ()
    names: Final[tuple[str, ...]] = ()
    columns: Final[tuple[str, ...]] = ()
    plain: Final = True
    exact: Final[tuple[int, ...]] = ()

    def __init__(self, seed: int, dimension: int, kind: ProjectionKind) -> None:
        self.width: Final = dimension
        self.raw_width: Final = dimension
        self.ranges: Final[Floats] = np.full((2, dimension), np.nan)
        self.drift_ranges: Final[Floats] = self.ranges
        self.seed: Final = seed
        self.kind: Final = kind
        self.id: Final = digest(["sparse", seed, dimension, kind])

    @cached_property
    def projection(self) -> "Projection":
        """M."""
        from core.features.projection import Projection  # noqa: PLC0415  loads kernels, which few processes need

        return Projection(self.seed, self.width, self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseSchema) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def row(self, values: Mapping[str, object], missing_allowed: bool = False, field: str = "features") -> Floats:
        """One row given by names, as psi (1, d); ``missing_allowed`` is ignored: an absent name is 0.

        Invalid names and values (null is one) are refused by name, the first 20 of them.
        """
        del missing_allowed
        if not isinstance(values, Mapping):
            raise Invalid.of(field, "is not an object of names and values")
        names = [*values]
        rows = _Rows([names], [[*values.values()]], lambda _row, at, _part: f"{field}.{names[at]}")
        return self._projected(rows, field)

    def lists(
        self,
        names: Sequence[Sequence[str]],
        values: Sequence[Sequence[object]],
        field: str = "rows",
        texts: bool = False,
        place: Place | None = None,
    ) -> Floats:
        """Rows, each a list of names and one of values, as psi (n, d); ``texts``: values are texts of numbers.

        ``Invalid`` for lists of different lengths, a name twice in a row, and invalid names or values, e.g.
        ``rows[3].names[1]``; the first 20 of them.
        """
        pairs = zip(names, values, strict=True)
        uneven = [(i, len(row), len(own)) for i, (row, own) in enumerate(pairs) if len(row) != len(own)]
        refuse([Problem(f"{field}[{i}].values", f"has {n} items for {m} names", m) for i, m, n in uneven])
        own_place: Place = lambda row, at, part: f"{field}[{row}].{part}[{at}]"  # noqa: E731
        return self._projected(_Rows(names, values, place or own_place, texts), field)

    def _projected(self, rows: "_Rows", field: str) -> Floats:
        """The psi (n, d) of rows; refuses too large and invalid ones."""
        counts = [len(row) for row in rows.names]
        for row, count in enumerate(counts, 1):
            if count > NAMES_MAX:
                raise Invalid.of(field, f"row {row} has too many names", f"<= {NAMES_MAX} names in a row")
        if sum(counts) * self.width > WORK_MAX[self.kind]:
            most = int(WORK_MAX[self.kind] / self.width)
            raise Invalid.of(field, "has too many names for compressed_dim", f"<= {most} in one request")
        names = list(chain.from_iterable(rows.names))
        values = list(chain.from_iterable(rows.values))
        numbers = vectorised(values, rows.texts, missing_allowed=False) if _sound(rows, names) else None
        if numbers is None:
            numbers = _one_by_one(rows)
        starts = np.array([*accumulate(counts, initial=0)], dtype=np.int64)
        return self.projection.project(names, numbers, starts)


class _Rows(NamedTuple):
    """Rows as received: for each a list of names and one of values, equally long."""

    names: Sequence[Sequence[Any]]
    values: Sequence[Sequence[Any]]
    place: Place
    texts: bool = False


def check_names(names: Sequence[str], field: str) -> None:
    """Refuse a list with invalid or repeated names; lists the first 20, e.g. ``names[3]``."""
    rows = _Rows([names], [[0] * len(names)], lambda _row, at, _part: f"{field}[{at}]")
    if not _sound(rows, names):
        _one_by_one(rows)


def _sound(rows: _Rows, names: Sequence[Any]) -> bool:
    """Whether all names are valid, and none occurs twice in its row."""
    if any(len({*row, ""}) != len(row) + 1 for row in rows.names):
        return False
    try:
        return "".join(names).isprintable() and max(map(len, names), default=0) <= NAME_MAX
    except TypeError:  # a name is not a text
        return False


def _one_by_one(rows: _Rows) -> Floats:
    """Read all values (m,) one by one; refuses the first invalid names and values, in their order."""
    numbers: list[float] = []
    problems: list[Problem] = []
    for row, (names, values) in enumerate(zip(rows.names, rows.values, strict=True)):
        first: dict[str, int] = {}
        for at, (name, value) in enumerate(zip(names, values, strict=True)):
            if not (isinstance(name, str) and 1 <= len(name) <= NAME_MAX and name.isprintable()):
                problems.append(Problem(rows.place(row, at, "names"), "is not a feature name", _NAME))
            elif first.setdefault(name, at) != at:
                where = rows.place(row, first[name], "names")
                problems.append(Problem(rows.place(row, at, "names"), f"is the same name as {where}"))
            try:
                numbers.append(number(value, rows.texts))
            except Unfit as unfit:
                problems.append(Problem(rows.place(row, at, "values"), unfit.problem, _VALUE))
        if len(problems) >= PROBLEMS_MAX:
            break
    refuse(problems)
    return np.array(numbers, dtype=np.float64)
