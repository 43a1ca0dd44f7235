"""The contract between the learners and everything that runs them.

A learner is a deterministic state machine over encoded rows. It sees no clock and no ambient randomness, and
does no I/O; its random draws are functions of (seed, absolute row number, purpose). The conformance suite
(tests/core/learners/test_conformance.py) tries to break these rules; tests/test_style.py checks the imports:

- ``predict`` changes nothing.
- ``learn`` returns for every row the prediction made with the state *before* that row (a-priori), then learns it.
- Learning a block gives the same predictions and state as learning its rows one at a time: bit for bit if the algorithm
  promises it (``Algorithm.row_exact``), else up to round-off, e.g. with matrix products over many columns. The same
  calls always give the same bits; where a learner cuts a block depends on absolute row numbers only.
- ``to_arrays`` followed by ``load_arrays`` on a fresh learner of the same spec restores the state bit for bit.
- The same rows in the same order give the same bits.
- No finite input makes a state non-finite; inputs are never mutated.
- Learners do not import each other.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

Task = Literal["classification", "regression"]
Label = str | int | bool
"""A class label as a value. 0, False and "" are ordinary labels, and 0 is not False."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROWS_IN, NUMBERS_IN, CLASSES_IN = (f"Array({kind}, 'C', readonly=True)" for kind in ("f8, 2", "f8, 1", "i8, 1"))
"""Numba's types of arrays that a kernel only reads: rows (n, d), and a number or a class per row (n,)."""
CUBE, TABLE, VECTOR, CLASSES = "f8[:,:,::1]", "f8[:,::1]", "f8[::1]", "i8[::1]"
"""Numba's types of arrays that a kernel may write."""
Buffer = bytes | bytearray | memoryview
"""Bytes that are only read."""
Header = dict[str, Any]
"""JSON-able scalars that go with a state's arrays."""
_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])
_Columns = TypeVar("_Columns", bound=Struct)

LEVELS: Final = (0.5, 0.8, 0.9, 0.95, 0.99)
"""The levels of adaptive intervals: the share of labels that an interval should cover."""
LEVEL_MAX: Final = LEVELS[-1]  # the largest level that a client can ask for
IntervalBounds = tuple[tuple[float, float] | None, ...]
"""Intervals of all ``LEVELS``, low and high, as returned with a prediction; None: there were too few residuals."""


def direct(signature: Any, **options: Any) -> Callable[[_Kernel], _Kernel]:
    """Compile a kernel of one signature, callable from Python without Numba's search for the signature.

    This saves a third of the cost of a call, and skips most type checks: arrays must have exactly the declared types,
    but only the number of axes and the item size are checked. Calls between kernels are not affected.
    """
    from numba import njit  # noqa: PLC0415  large, and not for every process that imports this module

    def compiled(kernel: _Kernel) -> _Kernel:
        dispatcher: Any = njit(signature, cache=True, nogil=True, **options)(kernel)
        found: _Kernel = dispatcher.get_overload(*dispatcher.signatures)
        return found

    return compiled


class Prediction(Struct, gc=False):
    """A-priori predictions for n rows."""

    value: NDArray[Any]  # (n,) numbers, or indices of classes, int64, -1 where none has been seen yet
    probabilities: Floats | None = None  # (n, K) of the K classes seen, rows sum to one; None if there are none
    std: Floats | None = None  # (n,) predictive standard deviations of a regression
    experts: NDArray[Any] | None = None  # (n, A) what experts or members predict, if tracked rows keep it


def joined(parts: Sequence[_Columns]) -> _Columns:
    """Join the predictions (or other arrays by row) of at least one consecutive block."""
    if len(parts) == 1:
        return parts[0]
    pairs: Any = zip(*map(astuple, parts), strict=True)
    return type(parts[0])(*(None if one[0] is None else np.concatenate(one) for one in pairs))


def unlike(name: str, taken: Container[Any]) -> str:
    """A name of ours, with apostrophes appended until it differs from all names that clients have chosen."""
    while name in taken:
        name += "'"
    return name


def chunks(first: int, size: int, rows: int) -> list[slice]:
    """Cut rows into chunks that end at absolute row numbers divisible by their size."""
    begins = range(size - first % size, rows, size)
    return [slice(begin, min(end, rows)) for begin, end in zip((0, *begins), (*begins, rows), strict=True)]


def in_chunks(learn: Callable[..., Prediction], parts: Sequence[slice], *given: Any) -> Prediction:
    """Predict, or predict and learn, rows chunk by chunk; ``given``: the rows' arrays, each (n, ...) or None."""
    if len(parts) == 1:
        return learn(*given)
    return joined([learn(*(None if one is None else one[part] for one in given)) for part in parts])


class Weights(NamedTuple):
    """A linear model in its own terms, of m outputs: 1 for regression, else the number of classes seen."""

    coefficients: Floats  # (m, d)
    bias: Floats  # (m,), zeros if the learner has no bias column


@dataclass(frozen=True, slots=True)
class Spec:
    """The arguments that a learner is built from."""

    task: Task
    dimension: int  # encoded input columns d >= 1, without the learner's own bias column
    params: Mapping[str, Any]  # complete and checked
    seed: int = 0  # of every draw the learner makes
    ranges: tuple[tuple[float, float] | None, ...] = ()
    """The declared (minimum, maximum) of every encoded column, None if it has none; () if no column has one."""
    lagged: int = 0  # how many of the last columns are lag columns (core.features.lags)


ALARM_COLUMNS_MAX = 10  # most columns that one alarm names


class Alarm(NamedTuple):
    """One firing of a drift test."""

    kind: str  # which test: "class_mean" or "error_rate"
    row: int  # the row that completed the window, as an index within the block just learned
    cls: int  # class index; 0 for regression, which has one class
    columns: tuple[int, ...]  # encoded columns that moved, largest change first, at most ALARM_COLUMNS_MAX (class_mean)
    before: tuple[float, ...]  # their means in the past window; for error_rate the one error rate
    after: tuple[float, ...]  # the same in the recent window
    epsilon: float  # the difference at which the test fires (class_mean: in ranges of the column)
    n_before: int  # rows in the past window
    n_after: int


WEIGHT_MIN, WEIGHT_MAX = 1e-6, 1e3
"""Least and largest weight of a row: within these bounds, sums and updates stay well inside float64."""


class Learner(Protocol):
    """One model's learning state. Classes are known by index, in the order in which they first appeared."""

    def add_class(self) -> None:
        """Make room for one more class (classification only), called just before its first row is learned."""

    def predict(self, X: Floats) -> Prediction:
        """Predict n rows X (n, d), C-contiguous float64, all finite. Changes nothing."""

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Predict, then learn n rows in order; returns each row's prediction from before the row was learned.

        Args:
            X: (n, d) C-contiguous float64, all finite; never mutated. If rows are scaled and the learner tests them for
                drift (``own_tests``), (n, 2 d): the rows before scaling come behind them, for the means of its alarms.
            y: regression: float64 (n,). Classification: class indices int64 (n,), all below the number of classes.
            discounts: (n,) in (0, 1], only for learners whose algorithm has ``row_discounts``; None: the default.
            weights: (n,) within WEIGHT_MIN and WEIGHT_MAX, only for learners whose algorithm has ``row_weights``: how
                many times each row counts in learning. None gives the same bits as 1.
        """

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The whole state: named arrays (copies or read-only views) and a JSON-able header."""

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; for any other it raises ``ValueError`` and stays unchanged."""

    def weights(self) -> Weights | None:
        """The current linear model, or None if there is none."""

    def posterior(self, view: Any) -> Header:
        """What the learner holds, see ``core.learners.posterior.View``; numbers may be arrays. Changes nothing."""

    def info(self) -> Header:
        """The part of the state that people want to see, JSON-able and small."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds."""


@runtime_checkable
class Transferable(Protocol):
    """A linear learner whose model can be moved to another feature space."""

    def start_at(self, weights: Weights, steps_of: Any) -> None:
        """Start from a model in the form of ``weights``: one row per class seen, or one for regression.

        It takes over the step sizes of the learner ``steps_of``, which is of the same kind.
        """

    def restart(self) -> None:
        """Learn faster again after a completed switch, if that helps; the model stays."""


@runtime_checkable
class Extensible(Protocol):
    """A learner that can continue with additional columns."""

    def extend(self, other: Any, places: Ints) -> None:
        """Take over the state of a learner of the same kind and classes with fewer columns, those at ``places``.

        The result is as if the additional columns had been 0 in every row so far, apart from forgetting.
        """


@runtime_checkable
class Explaining(Protocol):
    """A learner that can explain a prediction by more than weights."""

    def explain(self, x: Floats) -> Header:
        """Explain the prediction of one row x (1, d), JSON-able and finite; classes by index. Changes nothing."""


@runtime_checkable
class Forgetful(Protocol):
    """A learner that can discount its past after a drift."""

    def forget(self) -> None:
        """Keep the model, but let the next rows outweigh the past."""
