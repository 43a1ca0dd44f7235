"""Prequential metrics of a regression: each a-priori prediction against the number that came.

    mse    mean of e^2, e = prediction - truth
    mae    mean of |e|
    r2     1 - mse/var, var the mean squared deviation of the truth from its mean; None where var is 0

The baseline ``last_value`` predicts the truth of the row before; it is scored from the second row on. The running
means are recursions (m += (x - m)/n), never sums. Errors are clipped to +-1e150, and for the variance so is the truth:
squares then stay at or below 4e300, and no finite input makes anything overflow. In ``fading`` a mean is (sum of
weighted values)/(sum of weights), and the variance follows the same weights.
"""

import math
from collections.abc import Mapping
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header
from core.metrics.scores import (
    FADING,
    POINTS_MAX,
    STRIDE_FIRST,
    WINDOW,
    Marks,
    capacity,
    checked,
    grown,
    number,
    points_expected,
    require_integers,
    thin,
)

ERROR_MAX = 1e150
"""Errors beyond count as this much; its square is the largest squared error, 1e300."""
LOSS_MAX = 1e300

# Columns of the scalars, one array so that a call passes few.
_ROWS, _MSE, _MAE, _MEAN, _VAR, _B_MSE, _B_MAE, _LAST = 0, 1, 2, 3, 4, 5, 6, 7
# Fading: weights, sums of e^2 and |e|; mean of the truth and sum of its squared deviations; the baseline's own three.
_F_ROWS, _F_SE, _F_AE, _F_MEAN, _F_DEV, _FB_ROWS, _FB_SE, _FB_AE = 8, 9, 10, 11, 12, 13, 14, 15
_STRIDE, _POINTS = 16, 17
_SCALARS = 18
# Columns of the ring: error, clipped truth, the baseline's error (NaN in the first row).
_RING = 3
# Columns of the history: row, window mse, overall mse, window mae, window mse of last_value.
_HISTORY = 5

_F1 = numba.types.Array(numba.float64, 1, "C")
_F2 = numba.types.Array(numba.float64, 2, "C")
_F1_READ = numba.types.Array(numba.float64, 1, "C", readonly=True)


@numba.njit(numba.float64(numba.float64), cache=True)
def _clip(x: float) -> float:
    return min(max(x, -ERROR_MAX), ERROR_MAX)


@numba.njit(numba.void(_F2, numba.int64, _F1), cache=True)
def _window_means(ring: Floats, width: int, out: Floats) -> None:
    """mse, mae, and the same of the baseline over the first rows of the ring, into out (4,)."""
    out[:] = 0.0
    scored = 0
    for i in range(width):
        out[0] += ring[i, 0] * ring[i, 0]
        out[1] += abs(ring[i, 0])
        if not np.isnan(ring[i, 2]):
            scored += 1
            out[2] += ring[i, 2] * ring[i, 2]
            out[3] += abs(ring[i, 2])
    out[:2] /= width or np.nan
    out[2:] /= scored or np.nan


@numba.njit(numba.boolean(_F1_READ, _F1_READ, _F1, _F2, _F2), cache=True)
def _absorb(predicted: Floats, truth: Floats, s: Floats, ring: Floats, history: Floats) -> bool:
    """Score the rows one by one; False, with nothing changed, where a number is not finite."""
    for i in range(truth.shape[0]):
        if not (np.isfinite(truth[i]) and np.isfinite(predicted[i])):
            return False
    means = np.empty(4)
    for i in range(truth.shape[0]):
        error, level = _clip(predicted[i] - truth[i]), _clip(truth[i])
        baseline = _clip(s[_LAST] - truth[i]) if s[_ROWS] > 0.0 else np.nan
        at = int(s[_ROWS]) % WINDOW
        ring[at, 0], ring[at, 1], ring[at, 2] = error, level, baseline

        s[_ROWS] += 1.0
        n = s[_ROWS]
        s[_MSE] += (error * error - s[_MSE]) / n
        s[_MAE] += (abs(error) - s[_MAE]) / n
        before = level - s[_MEAN]
        s[_MEAN] += before / n
        s[_VAR] += (max(before * (level - s[_MEAN]), 0.0) - s[_VAR]) / n

        s[_F_ROWS] = FADING * s[_F_ROWS] + 1.0
        s[_F_SE] = FADING * s[_F_SE] + error * error
        s[_F_AE] = FADING * s[_F_AE] + abs(error)
        before = level - s[_F_MEAN]
        s[_F_MEAN] += before / s[_F_ROWS]
        s[_F_DEV] = FADING * s[_F_DEV] + max(before * (level - s[_F_MEAN]), 0.0)

        if n > 1.0:
            s[_B_MSE] += (baseline * baseline - s[_B_MSE]) / (n - 1.0)
            s[_B_MAE] += (abs(baseline) - s[_B_MAE]) / (n - 1.0)
            s[_FB_ROWS] = FADING * s[_FB_ROWS] + 1.0
            s[_FB_SE] = FADING * s[_FB_SE] + baseline * baseline
            s[_FB_AE] = FADING * s[_FB_AE] + abs(baseline)
        s[_LAST] = truth[i]

        if n % s[_STRIDE] == 0.0:
            point = int(s[_POINTS])
            _window_means(ring, int(min(n, float(WINDOW))), means)
            history[point, 0], history[point, 1], history[point, 2] = n, means[0], s[_MSE]
            history[point, 3], history[point, 4] = means[1], means[2]
            s[_POINTS] += 1.0
            if s[_POINTS] == POINTS_MAX:
                s[_POINTS] = thin(history, POINTS_MAX)
                s[_STRIDE] *= 2.0
    return True


class RegressionMetrics:
    """The prequential metrics of a regression, a state machine over its scored rows."""

    def __init__(self) -> None:
        self.rows = 0
        self._scalars = np.zeros(_SCALARS)
        self._scalars[_STRIDE] = STRIDE_FIRST
        self._ring = np.zeros((capacity(0, WINDOW), _RING))
        self._history = np.zeros((capacity(0, POINTS_MAX), _HISTORY))
        self._marks = Marks()

    def absorb(self, predicted: Floats, truth: Floats) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: float64 (n,), the a-priori predictions, all finite.
            truth: float64 (n,), the numbers that came, all finite.

        Raises:
            ValueError: other lengths, or a number that is not finite; nothing changed.
        """
        n = len(truth)
        if len(predicted) != n:
            raise ValueError("predictions and truth do not go together")
        ring = grown(self._ring, self.rows + n, WINDOW)
        history = grown(self._history, (self.rows + n) // STRIDE_FIRST, POINTS_MAX)
        if not _absorb(predicted, truth, self._scalars, ring, history):
            raise ValueError("a number is not finite")
        self._ring, self._history = ring, history
        self.rows += n

    def mark(self, row: int, kind: str, **extra: Any) -> None:
        """Remember that something (a drift, a switch, a reset) happened after ``row`` rows."""
        self._marks.add(row, kind, **extra)

    def headline(self) -> float | None:
        """The overall mean squared error, None before the first row."""
        return float(self._scalars[_MSE]) if self.rows else None

    def report(self) -> Header:
        """Everything, as ``GET /models/{name}/metrics`` answers it; undefined numbers are None."""
        s, ring = self._scalars, self._ring[: min(self.rows, WINDOW)]
        window = np.empty(4)
        _window_means(self._ring, len(ring), window)
        weight, b_weight = s[_F_ROWS] or math.nan, s[_FB_ROWS] or math.nan
        mse, mae = (s[_MSE], s[_MAE]) if self.rows else (math.nan, math.nan)
        b_mse, b_mae = (s[_B_MSE], s[_B_MAE]) if self.rows > 1 else (math.nan, math.nan)
        fading = scores(s[_F_SE] / weight, s[_F_AE] / weight, s[_F_DEV] / weight)
        return {
            "rows": self.rows,
            "overall": scores(mse, mae, s[_VAR]),
            "window": {
                "size": WINDOW,
                "rows": len(ring),
                **scores(window[0], window[1], variance(ring[:, 1])),
                "baselines": _baseline(window[2], window[3]),
            },
            "fading": {"factor": FADING, **fading, "baselines": _baseline(s[_FB_SE] / b_weight, s[_FB_AE] / b_weight)},
            "baselines": _baseline(b_mse, b_mae),
            "history": self._points(),
            "marks": self._marks.to_list(),
        }

    def _points(self) -> list[dict[str, float | int | None]]:
        filled = self._history[: int(self._scalars[_POINTS])].tolist()
        return [
            {"row": int(row), "mse": mse, "overall": overall, "mae": mae, "last_value": last_value}
            for row, mse, overall, mae, last_value in filled
        ]

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The whole state: copies of its arrays, and the marks as header."""
        arrays = {"scalars": self._scalars, "ring": self._ring, "history": self._history}
        return {name: array.copy() for name, array in arrays.items()}, {"marks": self._marks.to_list()}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state that ``to_arrays`` gave.

        Raises:
            ValueError: shapes or values that no such state can have; the state is unchanged.
        """
        scalars = checked(arrays, "scalars", (_SCALARS,))
        require_integers(scalars[:1], "scalars", 0, 2**53)
        rows = int(scalars[_ROWS])
        ring = checked(arrays, "ring", (capacity(rows, WINDOW), _RING))
        history = checked(arrays, "history", (capacity(rows // STRIDE_FIRST, POINTS_MAX), _HISTORY))
        _check(scalars, ring[: min(rows, WINDOW)], history)
        self._marks = Marks.from_header(header)
        self.rows, self._scalars, self._ring, self._history = rows, scalars, ring, history

    @property
    def nbytes(self) -> int:
        """Bytes of memory the arrays hold."""
        return self._scalars.nbytes + self._ring.nbytes + self._history.nbytes


def variance(truth: Floats) -> float:
    """Variance of n numbers (n,), clipped like an error; about the first one, so that equal numbers have exactly 0."""
    levels = np.clip(truth, -ERROR_MAX, ERROR_MAX)
    return float((levels - levels[0]).var()) if len(levels) else math.nan


def scores(mse: float, mae: float, var: float) -> dict[str, float | None]:
    """The three scores of one span of rows; NaN means there are none. r2 is None where it has no finite value."""
    ratio = float(mse) / float(var) if var > 0 else math.nan
    return {"mse": number(mse), "mae": number(mae), "r2": number(1.0 - ratio)}


def squared_errors(predicted: Floats, truth: Floats) -> Floats:
    """Squared errors (n,) of n predictions, as answers give them: capped, so that every number is finite."""
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum((predicted - truth) ** 2, LOSS_MAX), dtype=np.float64)


def _baseline(mse: float, mae: float) -> dict[str, dict[str, float | None]]:
    return {"last_value": {"mse": number(mse), "mae": number(mae)}}


def _check(s: Floats, ring: Floats, history: Floats) -> None:
    """What the kernel takes on trust: finite, clipped, not negative, as many points as the rows make."""
    squares = s[[_MSE, _MAE, _VAR, _B_MSE, _B_MAE, _F_ROWS, _F_SE, _F_AE, _F_DEV, _FB_ROWS, _FB_SE, _FB_AE]]
    if not np.isfinite(s).all() or (squares < 0).any():
        raise ValueError("scalars: a number that cannot be")
    if (s[_STRIDE], s[_POINTS]) != points_expected(int(s[_ROWS])):
        raise ValueError("scalars: the history has another length")
    if not (np.abs(ring[:, :2]) <= ERROR_MAX).all() or (np.abs(ring[:, 2]) > ERROR_MAX).any():
        raise ValueError("ring: a number that cannot be")
    if not np.isfinite(history).all():
        raise ValueError("history: a number that cannot be")
