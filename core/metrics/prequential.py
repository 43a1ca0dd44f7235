"""What the prequential metrics of both tasks share: the three spans, the history, the marks and the state.

Every row is scored in three spans: all rows (``overall``), the last ones (``window``), and all rows with a weight that
fades by a factor per row (``fading``). A state has at least these arrays:

    scalars  running sums; the row count first, the stride and the number of points of the history last
    ring     what the window needs of each of its rows
    history  a bounded curve for charts: one point every ``stride`` rows, at first every tenth. At 512 points every
             second one is dropped and the stride doubles

Ring and history double from 16 rows up to their bound, so that an idle model is small; their lengths depend on the
number of rows alone. A ring that is not full yet has room for every row, so row n has its place at n modulo the
ring's length. The marks say at which row something happened.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, Header
from core.numerics.rows import capacity, grown, put
from core.state.layout import FINITE, Array, Counts, Holder, Range

RESCALED: Final = 1000
"""Rows after which fading counts are divided by the weight of the newest row, whatever the window is."""
POINTS_MAX: Final = 512  # points in the history
STRIDE_FIRST: Final = 10  # rows between the points of a young history
DIGITS: Final = 3  # decimals of reported sums of fading weights
MARKS_MAX: Final = 100  # marks kept
RECENT: Final = 24  # points of the history in a summary
FREQUENT: Final = "drift"
"""The kind of mark that may be frequent: others are dropped only if no mark of this kind can be."""
UNDEFINED: Final = Range(undefined=True)
ROWS, STRIDE, POINTS = 0, -2, -1  # places of the scalars


@njit("void(f8[::1], f8[:,::1], f8[::1])", cache=True)
def add_point(s: Floats, history: Floats, metrics: Floats) -> None:
    """Add a point of some metrics; a full history keeps its 2nd, 4th ... point and doubles the stride."""
    point = int(s[POINTS])
    history[point, 0] = s[ROWS]
    put(metrics, history[point, 1:])
    s[POINTS] += 1.0
    if s[POINTS] == POINTS_MAX:
        for kept in range(POINTS_MAX // 2):
            put(history[2 * kept + 1], history[kept])
        s[POINTS] = POINTS_MAX // 2
        s[STRIDE] *= 2.0


class Quality(NamedTuple):
    """How well a model did in its window, comparable between models, for monitoring; NaN where unknown.

    ``error_ratio`` divides the model's error by its best baseline's. The error is the share of wrong rows; with class
    costs the mean cost, with the best single label in hindsight as baseline; or the mse on the baseline's rows.
    """

    score: float  # accuracy, or mean squared error
    baseline: float  # the same of the best baseline, on the rows that it predicted
    error_ratio: float  # below 1 the model is of use
    calibration_error: float  # the expected calibration error (ece); NaN for a regression
    unscored: int  # rows without an answer, of all rows


def error_ratio(error: float, baseline: float) -> float:
    """The ratio of two errors, neither below 0; 1 if both are 0, NaN if one is unknown."""
    if math.isnan(error) or math.isnan(baseline):
        return math.nan
    if baseline > 0.0:
        return error / baseline
    return 1.0 if error <= 0.0 else math.inf


class Marks:
    """Events of a model with their rows; bounded, and thinned out evenly."""

    def __init__(self) -> None:
        self.kept: list[Header] = []  # each with a row and a kind at least
        self.thinned = 0  # how many were dropped

    def add(self, mark: Header) -> None:
        """Add a mark at the latest row. Beyond the bound, the one whose neighbours are closest together is dropped.

        The first and the latest always stay; if several are equal, the oldest is dropped.
        """
        self.kept.append(mark)
        if len(self.kept) > MARKS_MAX:
            inner = range(1, len(self.kept) - 1)
            least = [at for at in inner if self.kept[at]["kind"] == FREQUENT] or inner
            del self.kept[min(least, key=lambda at: self.kept[at + 1]["row"] - self.kept[at - 1]["row"])]
            self.thinned += 1

    def to_header(self) -> Header:
        """The marks as JSON-able scalars, keys in a fixed order: a model that was loaded answers the same bytes."""
        marks = [{"row": mark["row"], "kind": mark["kind"], **dict(sorted(mark.items()))} for mark in self.kept]
        return {"marks": marks, "marks_thinned": self.thinned}

    @classmethod
    def from_header(cls, header: Header) -> "Marks":
        """The marks of a ``to_header``; raises ``ValueError`` for another header."""
        marks, kept, thinned = cls(), header.get("marks"), header.get("marks_thinned")
        if not isinstance(kept, list) or type(thinned) is not int:
            raise ValueError("marks: a list and the number of dropped marks are needed")
        if not all(isinstance(mark, dict) and "kind" in mark and type(mark.get("row")) is int for mark in kept):
            raise ValueError("marks: one has no row, or no kind")
        if len(kept) > MARKS_MAX or thinned < 0 or (thinned and len(kept) < MARKS_MAX):
            raise ValueError("marks: their number is not possible")
        marks.kept, marks.thinned = [dict(mark) for mark in kept], thinned
        return marks


class PrequentialMetrics(Holder):
    """Metrics as a state machine over scored rows; each task adds ``absorb``, ``baselines`` and the reports.

    ``window`` is the number of rows in the window, ``fading`` the factor of a row's weight with each later row.
    """

    POINT: ClassVar[tuple[str, ...]]
    """Names of the metrics in a point of the history."""

    def __init__(self, scalars: int, ring_columns: int, window: int, fading: float) -> None:
        self.window, self.fading = window, fading
        self.scalars = np.zeros(scalars)
        self.scalars[STRIDE] = STRIDE_FIRST
        self.ring = np.zeros((capacity(0, window), ring_columns))
        self.history = np.zeros((capacity(0, POINTS_MAX), 1 + len(self.POINT)))
        self._marks = Marks()
        self.rows = 0

    def mark(self, row: int, kind: str, **extra: Any) -> None:
        """Remember that something (a drift, a switch, a reset) happened after ``row`` rows; ``extra`` is JSON-able."""
        self._marks.add({"row": row, "kind": kind, **extra})

    def rows_marked(self, *kinds: str) -> list[int]:
        """The rows of the marks of some kinds, oldest first."""
        return [mark["row"] for mark in self._marks.kept if mark["kind"] in kinds]

    def hand_marks(self, other: "PrequentialMetrics") -> None:
        """Move the marks to the metrics that replace these for the model; these keep none."""
        other._marks, self._marks = self._marks, Marks()  # noqa: SLF001 - of the same class

    def _report(self, overall: Header, window: Header, fading: Header) -> Header:
        """The answer of ``GET /models/{name}/metrics``, from the scores of the spans, each with its ``baselines``."""
        baselines = overall.pop("baselines")
        return {
            "rows": self.rows,
            "overall": overall,
            "window": {"size": self.window, "rows": min(self.rows, self.window), **window},
            "fading": {"factor": self.fading, **fading},
            "baselines": baselines,
            "unscored": overall.get("unscored", 0),
            "history": self._points(),
            "history_every": int(self.scalars[STRIDE]),
            **self._marks.to_header(),
        }

    def _points(self) -> list[Header]:
        """The history, undefined numbers as None."""
        points = self.history[: int(self.scalars[POINTS])]
        scores = points.astype(object)
        scores[~np.isfinite(points)] = None
        scores[:, 0] = points[:, 0].astype(np.int64)
        names = ("row", *self.POINT)
        return [dict(zip(names, point, strict=True)) for point in scores.tolist()]

    def recent(self) -> tuple[float, ...]:
        """The window's accuracy or mean squared error in the last points of the history, to four figures."""
        points = int(self.scalars[POINTS])
        known = self.history[max(0, points - RECENT) : points, 1].tolist()
        return tuple([float(f"{score:.4g}") for score in known if math.isfinite(score)])

    def room(self, more: int) -> tuple[Floats, Floats]:
        """The ring and the history with room for more rows."""
        ring, history, rows = self.ring, self.history, self.rows + more
        if len(ring) < min(rows, self.window):
            ring = grown(ring, rows, self.window)
        if len(history) < min(rows // STRIDE_FIRST, POINTS_MAX):
            history = grown(history, rows // STRIDE_FIRST, POINTS_MAX)
        return ring, history

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The whole state: copies of its arrays, and the marks as header."""
        return super().to_arrays()[0], self._marks.to_header()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``Holder``."""
        marks = Marks.from_header(header)
        super().load_arrays(arrays, {})
        self._marks, self.rows = marks, int(self.scalars[ROWS])

    def _check(self, held: Mapping[str, Floats], _found: Counts) -> None:
        """Refuse inconsistent arrays."""
        rows, stride = int(held["scalars"][ROWS]), STRIDE_FIRST
        lengths = capacity(rows, self.window), capacity(rows // STRIDE_FIRST, POINTS_MAX)
        if (len(held["ring"]), len(held["history"])) != lengths:
            raise ValueError("ring, history: their lengths do not match the number of rows")
        while rows // stride >= POINTS_MAX:
            stride *= 2
        if tuple(held["scalars"][[STRIDE, POINTS]]) != (stride, rows // stride):
            raise ValueError("scalars: they do not match the length of the history")

    def _check_weight(self, weight: float) -> None:
        """Refuse a weight of the newest row that is larger than this fading can make it."""
        if weight > self.fading**-RESCALED * (1.0 + 1e-9):
            raise ValueError("scalars: an impossible weight")


def history_of(metrics: tuple[str, ...]) -> Array:
    """The history of these metrics in a layout; any of them may be undefined."""
    return Array("points", 1 + len(metrics), within=UNDEFINED, places={0: FINITE})


def number(value: float) -> float | None:
    """A metric in JSON form: a finite float, or None if it is undefined."""
    return float(value) if math.isfinite(value) else None
