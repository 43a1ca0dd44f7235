"""What the prequential metrics of both tasks share: the window, the fading, the history, the marks and the state.

Every row is scored three ways: over all rows (``overall``), over the last 1000 (``window``), and with a weight
that fades by 0.999 a row (``fading``). The arrays below grow with the rows until they reach their bound, by
doubling from 16, so that an idle model is small; how large they are depends on the number of rows alone.

    scalars  running sums; the row count first, the stride and the number of points of the history last
    ring     what the window needs of each of the last 1000 rows
    history  a bounded curve for charts: one point every ``stride`` rows, beginning with every tenth. When 512 points
             are there, every second one goes and the stride doubles
    marks    at which row something happened
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Header
from core.metrics.marks import Marks
from core.metrics.quality import Quality
from core.state.layout import FINITE, Array, Layout, Range

WINDOW: Final = 1000
"""Rows in the window."""
FADING: Final = 0.999
"""Weight that a row keeps with each row after it."""
POINTS_MAX: Final = 512
"""Points in the history."""
STRIDE_FIRST: Final = 10
"""Rows between the points of a young history."""
DIGITS: Final = 3
"""Decimals of sums of fading weights, as they are told."""
UNDEFINED: Final = Range(undefined=True)
_CAPACITY_FIRST: Final = 16

READ_FLOATS: Final = "Array(f8, 1, 'C', readonly=True)"
READ_INTS: Final = "Array(i8, 1, 'C', readonly=True)"


@njit("void(f8[::1], f8[:,::1], f8[::1])", cache=True)
def add_point(s: Floats, history: Floats, metrics: Floats) -> None:
    """One more point of some metrics; a full history keeps its 2nd, 4th ... point and doubles the stride."""
    point = int(s[-1])
    history[point, 0] = s[0]
    history[point, 1:] = metrics
    s[-1] += 1.0
    if s[-1] == POINTS_MAX:
        for kept in range(POINTS_MAX // 2):
            history[kept] = history[2 * kept + 1]
        s[-1] = POINTS_MAX // 2
        s[-2] *= 2.0


class Named(Protocol):
    """The labels of classes, and the keys that they have in JSON objects, in the order of their indices."""

    @property
    def labels(self) -> Sequence[Any]:
        """The labels."""

    @property
    def keys(self) -> Sequence[str]:
        """The keys."""


class PrequentialMetrics(ABC):
    """Metrics as a state machine over scored rows.

    Attributes:
        rows: rows scored.
        LAYOUT: the arrays of a state, of which "scalars", "ring" and "history" are common to both tasks.
        POINT: names of the metrics in a point of the history.
    """

    LAYOUT: ClassVar[Layout]
    POINT: ClassVar[tuple[str, ...]]

    def __init__(self, scalars: Floats, ring_columns: int) -> None:
        self.rows = 0
        self._scalars = scalars
        self._ring = np.zeros((capacity(0, WINDOW), ring_columns))
        self._history = np.zeros((capacity(0, POINTS_MAX), 1 + len(self.POINT)))
        self._marks = Marks()

    def mark(self, row: int, kind: str, **extra: Any) -> None:
        """Remember that something (a drift, a switch, a reset) happened after ``row`` rows; ``extra`` is JSON-able."""
        self._marks.add({"row": row, "kind": kind, **extra})

    def hand_marks(self, other: "PrequentialMetrics") -> None:
        """Give the marks to the metrics that go on for the model; these begin with none."""
        other._marks, self._marks = self._marks, Marks()  # noqa: SLF001 - of the same class

    @abstractmethod
    def headline(self) -> float | None:
        """The one number that a list of models shows, None before the first row."""

    @abstractmethod
    def best_baseline(self) -> float | None:
        """The same number of the best baseline, None where none has been scored yet."""

    @abstractmethod
    def report(self, names: Named | None = None) -> Header:
        """Everything, as ``GET /models/{name}/metrics`` answers it; undefined numbers are None.

        Args:
            names: of all classes that are known; None: their indices.
        """

    @abstractmethod
    def quality(self, costs: Floats | None = None) -> Quality:
        """How well the model has done in the window.

        Args:
            costs: (K,) of missing each class; None: they are alike, or there are no classes.
        """

    @abstractmethod
    def baselines(self) -> tuple[Any, ...]:
        """What the baselines say now."""

    def _report(self, overall: Header, window: Header, fading: Header) -> Header:
        """Everything, from the scores of the three spans, each with its ``baselines``."""
        baselines = overall.pop("baselines")
        marks = self._marks.to_header()
        return {
            "rows": self.rows,
            "overall": overall,
            "window": {"size": WINDOW, "rows": min(self.rows, WINDOW), **window},
            "fading": {"factor": FADING, **fading},
            "baselines": baselines,
            "unscored": overall.get("unscored", 0),
            "history": self._points(),
            "history_every": int(self._scalars[-2]),
            **marks,
        }

    def _points(self) -> list[Header]:
        """The history, undefined numbers as None."""
        points = self._history[: int(self._scalars[-1])]
        scores = points.astype(object)
        scores[~np.isfinite(points)] = None
        scores[:, 0] = points[:, 0].astype(np.int64)
        names = ("row", *self.POINT)
        return [dict(zip(names, point, strict=True)) for point in scores.tolist()]

    def _room(self, rows: int) -> tuple[Floats, Floats]:
        """The ring and the history, larger where so many rows need it."""
        ring, history = self._ring, self._history
        if len(ring) < min(rows, WINDOW):
            ring = grown(ring, capacity(rows, WINDOW))
        if len(history) < min(rows // STRIDE_FIRST, POINTS_MAX):
            history = grown(history, capacity(rows // STRIDE_FIRST, POINTS_MAX))
        return ring, history

    @property
    def nbytes(self) -> int:
        """Bytes of memory the arrays hold."""
        return self.LAYOUT.held_bytes(self)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The whole state: copies of its arrays, and the marks as header."""
        return self.LAYOUT.to_arrays(self), self._marks.to_header()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: shapes or values that no such state can have; the state is unchanged.
        """
        found = self.LAYOUT.read(arrays)
        rows = int(found["_scalars"][0])
        for name, count, bound in (("ring", rows, WINDOW), ("history", rows // STRIDE_FIRST, POINTS_MAX)):
            if len(found[f"_{name}"]) != capacity(count, bound):
                raise ValueError(f"{name}: of another length than so many rows make")
        if tuple(found["_scalars"][-2:]) != _points_expected(rows):
            raise ValueError("scalars: the history has another length")
        self._check(found, rows)
        self.__dict__.update(found, rows=rows, _marks=Marks.from_header(header))

    @staticmethod
    def _check(found: Mapping[str, Floats], rows: int) -> None:
        """Refuse arrays, by their attributes, that do not go together; here all that fit the layout do."""
        del found, rows


def layout(scalars: Array, ring: Array, metrics: int, undefined: Collection[int], **more: Array) -> Layout:
    """The layout of a task's state.

    Args:
        scalars: the running sums.
        ring: what the window needs of each row.
        metrics: how many there are in a point of the history.
        undefined: the columns of the history that may be NaN.
        more: further arrays.
    """
    columns = {column: FINITE for column in range(1 + metrics) if column not in undefined}
    history = Array("points", 1 + metrics, within=UNDEFINED, places=columns)
    arrays = {"scalars": scalars, **more, "ring": ring, "history": history}
    for name, array in arrays.items():
        array.at = f"_{name}"
    return Layout(arrays)


def capacity(count: int, bound: int) -> int:
    """Rows an array has room for when it must hold ``count`` of at most ``bound``: 16, 32, ... bound."""
    room = _CAPACITY_FIRST
    while room < min(count, bound):
        room *= 2
    return min(room, bound)


def grown(array: Floats, rows: int) -> Floats:
    """The array (n, columns) with zeros behind it, (rows, columns)."""
    larger = np.zeros((rows, array.shape[1]))
    larger[: len(array)] = array
    return larger


def _points_expected(rows: int) -> tuple[int, int]:
    """The stride and the number of points that a history has after so many rows."""
    stride = STRIDE_FIRST
    while rows // stride >= POINTS_MAX:
        stride *= 2
    return stride, rows // stride


def number(value: float) -> float | None:
    """A metric as JSON takes it: a finite float, or None where it is undefined."""
    return float(value) if math.isfinite(value) else None
