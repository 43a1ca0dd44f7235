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

import numpy as np
from numba import njit

from core.contract import Floats, Header
from core.metrics.prequential import (
    FADING,
    READ_FLOATS,
    STRIDE_FIRST,
    WINDOW,
    PrequentialMetrics,
    add_point,
    layout,
    number,
)
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Range

ERROR_MAX = 1e150
"""Errors beyond count as this much; its square is the largest squared error, 1e300."""

# Columns of the scalars, one array so that a call passes few.
_ROWS, _MSE, _MAE, _MEAN, _VAR, _B_MSE, _B_MAE, _LAST = 0, 1, 2, 3, 4, 5, 6, 7
# Fading: weights, sums of e^2 and |e|; mean of the truth and sum of its squared deviations; the baseline's own three.
_F_ROWS, _F_SE, _F_AE, _F_MEAN, _F_DEV, _FB_ROWS, _FB_SE, _FB_AE = 8, 9, 10, 11, 12, 13, 14, 15
_STRIDE = 16
_SCALARS = 18
# Columns of the ring: error, clipped truth, the baseline's error (NaN in the first row).
_RING = 3


@njit("f8(f8)", cache=True)
def _clip(x: float) -> float:
    return min(max(x, -ERROR_MAX), ERROR_MAX)


@njit("void(f8[:,::1], i8, f8[::1])", cache=True)
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


@njit(f"b1({READ_FLOATS}, {READ_FLOATS}, f8[::1], f8[:,::1], f8[:,::1])", cache=True)
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
            _window_means(ring, int(min(n, float(WINDOW))), means)
            add_point(s, history, means[0], s[_MSE], means[1], means[2])
    return True


class RegressionMetrics(PrequentialMetrics):
    """The prequential metrics of a regression, a state machine over its scored rows."""

    LAYOUT = layout(
        Array(
            _SCALARS,
            places={
                **dict.fromkeys((_MSE, _MAE, _VAR, _B_MSE, _B_MAE), NOT_NEGATIVE),
                **dict.fromkeys((_F_ROWS, _F_SE, _F_AE, _F_DEV, _FB_ROWS, _FB_SE, _FB_AE), NOT_NEGATIVE),
                _ROWS: WHOLE,
            },
        ),
        ring=Array(
            "ring",
            _RING,
            within=Range(-ERROR_MAX, ERROR_MAX, undefined=True),
            places=dict.fromkeys((0, 1), Range(-ERROR_MAX, ERROR_MAX)),
        ),
    )
    POINT = ("mse", "overall", "mae", "last_value")

    def __init__(self) -> None:
        scalars = np.zeros(_SCALARS)
        scalars[_STRIDE] = STRIDE_FIRST
        super().__init__(scalars, _RING)

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
        ring, history = self._room(self.rows + n)
        if not _absorb(predicted, truth, self._scalars, ring, history):
            raise ValueError("a number is not finite")
        self._ring, self._history = ring, history
        self.rows += n

    def headline(self) -> float | None:
        """The overall mean squared error, None before the first row."""
        return float(self._scalars[_MSE]) if self.rows else None

    def best_baseline(self) -> float | None:
        """The overall mean squared error of ``last_value``, None before the second row."""
        return float(self._scalars[_B_MSE]) if self.rows > 1 else None

    def _spans(self) -> tuple[Header, Header, Header]:
        s, ring = self._scalars, self._ring[: min(self.rows, WINDOW)]
        window = np.empty(4)
        _window_means(self._ring, len(ring), window)
        weight, b_weight = s[_F_ROWS] or math.nan, s[_FB_ROWS] or math.nan
        mse, mae = (s[_MSE], s[_MAE]) if self.rows else (math.nan, math.nan)
        b_mse, b_mae = (s[_B_MSE], s[_B_MAE]) if self.rows > 1 else (math.nan, math.nan)
        fading = scores(s[_F_SE] / weight, s[_F_AE] / weight, s[_F_DEV] / weight)
        return (
            {**scores(mse, mae, s[_VAR]), **_baseline(b_mse, b_mae)},
            {**scores(window[0], window[1], variance(ring[:, 1])), **_baseline(window[2], window[3])},
            {**fading, **_baseline(s[_FB_SE] / b_weight, s[_FB_AE] / b_weight)},
        )


def variance(truth: Floats) -> float:
    """Variance of n numbers (n,), clipped like an error; about the first one, so that equal numbers have exactly 0."""
    levels = np.clip(truth, -ERROR_MAX, ERROR_MAX)
    return float((levels - levels[0]).var()) if len(levels) else math.nan


def scores(mse: float, mae: float, var: float) -> dict[str, float | None]:
    """The three scores of one span of rows; NaN means there are none. r2 is None where it has no finite value."""
    ratio = float(mse) / float(var) if var > 0 else math.nan
    return {"mse": number(mse), "mae": number(mae), "r2": number(1.0 - ratio)}


def _baseline(mse: float, mae: float) -> Header:
    return {"baselines": {"last_value": {"mse": number(mse), "mae": number(mae)}}}
