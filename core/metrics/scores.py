"""What the prequential metrics of both tasks share: the window, the fading, the history and the marks.

Every row is scored three ways: over all rows (``overall``), over the last 1000 (``window``), and with a weight
that fades by 0.999 a row (``fading``). The arrays below grow with the rows until they reach their bound, by
doubling from 16, so that an idle model is small; how large they are depends on the number of rows alone.

The *history* is a bounded curve for charts: one point every ``stride`` rows, beginning with every tenth. When 512
points are there, every second one goes and the stride doubles. The *marks* say at which row something happened.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header

WINDOW: Final = 1000
"""Rows in the window."""
FADING: Final = 0.999
"""Weight that a row keeps with each row after it."""
POINTS_MAX: Final = 512
"""Points in the history."""
STRIDE_FIRST: Final = 10
"""Rows between the points of a young history."""
MARKS_MAX: Final = 100
"""Marks kept, the newest."""
_CAPACITY_FIRST: Final = 16

_F2 = numba.types.Array(numba.float64, 2, "C")


def capacity(count: int, bound: int) -> int:
    """Rows an array has room for when it must hold ``count`` of at most ``bound``: 16, 32, ... bound."""
    room = _CAPACITY_FIRST
    while room < min(count, bound):
        room *= 2
    return min(room, bound)


def grown(array: Floats, count: int, bound: int) -> Floats:
    """The array, or a larger copy with zeros appended, with room for ``count`` of at most ``bound`` rows."""
    if len(array) >= min(count, bound):
        return array
    larger = np.zeros((capacity(count, bound), array.shape[1]))
    larger[: len(array)] = array
    return larger


@numba.njit(numba.int64(_F2, numba.int64), cache=True)
def thin(history: Floats, points: int) -> int:
    """Keep the points at even multiples of the stride (the 2nd, 4th ...); returns how many are left."""
    for kept in range(points // 2):
        history[kept] = history[2 * kept + 1]
    return points // 2


def points_expected(rows: int) -> tuple[int, int]:
    """The stride and the number of points that a history has after so many rows."""
    stride = STRIDE_FIRST
    while rows // stride >= POINTS_MAX:
        stride *= 2
    return stride, rows // stride


def number(value: float) -> float | None:
    """A metric as JSON takes it: a finite float, or None where it is undefined."""
    return float(value) if math.isfinite(value) else None


class Marks:
    """The newest 100 things that happened to a model, by row."""

    def __init__(self) -> None:
        self._marks: deque[dict[str, Any]] = deque(maxlen=MARKS_MAX)

    def add(self, row: int, kind: str, **extra: Any) -> None:
        """Remember that something happened after ``row`` rows; ``extra`` is JSON-able and small."""
        self._marks.append({"row": row, "kind": kind, **extra})

    def to_list(self) -> list[dict[str, Any]]:
        """The marks, oldest first."""
        return [dict(mark) for mark in self._marks]

    @classmethod
    def from_header(cls, header: Header) -> "Marks":
        """The marks of a state's header.

        Raises:
            ValueError: not a list of marks.
        """
        marks, listed = cls(), header.get("marks")
        if not isinstance(listed, list) or len(listed) > MARKS_MAX:
            raise ValueError("marks: no such state")
        if not all(isinstance(mark, dict) and {"row", "kind"} <= mark.keys() for mark in listed):
            raise ValueError("marks: one has no row or no kind")
        marks._marks.extend(dict(mark) for mark in listed)
        return marks


def checked(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, int] | tuple[int]) -> Floats:
    """A copy of one array of a state.

    Raises:
        ValueError: it is absent, no float64, or of another shape.
    """
    array = arrays.get(name)
    if array is None or array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"{name}: no such state")
    return np.array(array, order="C")


def require_integers(array: Floats, name: str, low: float, high: float) -> None:
    """Check that an array holds whole numbers in [low, high].

    Raises:
        ValueError: it does not.
    """
    if not ((array >= low) & (array <= high) & (array == np.floor(array))).all():
        raise ValueError(f"{name}: a number that cannot be")
