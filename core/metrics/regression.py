"""Prequential metrics of a regression: each a-priori prediction against the number that came.

    mse         mean of e^2, e = prediction - truth
    mae         mean of |e|
    r2          1 - mse/var, var the mean squared deviation of the truth from its mean; None where var is 0
    bias        mean of e: above 0 where predictions are too high
    median_ae   median of |e|: exact in the window, else from bounded counts, within 3.2 % (error_sketch)

The baseline ``last_value`` says the latest number known at the moment of the prediction; it is scored where there was
one, hence not at the first row. The model's own figures are of all rows. What it is compared by is of the baseline's
rows alone (``paired``): the first row is predicted by a model that has learned nothing, and where labels are far from 0
its error would outweigh those of thousands of rows.

The running means are recursions (m += (x - m)/n), never sums. Errors are clipped to +-1e150, and for the variance so is
the truth: squares then stay at or below 4e300, and no finite input makes anything overflow. In ``fading`` a mean is
(sum of weighted values)/(sum of weights), and the variance follows the same weights.
"""

import math
from collections.abc import Mapping

import numpy as np
from numba import njit

from core.contract import Floats, Header
from core.metrics.error_sketch import OCTAVES, PER_OCTAVE, ZERO, bin_of, covering, median
from core.metrics.prequential import (
    DIGITS,
    FADING,
    READ_FLOATS,
    STRIDE_FIRST,
    WINDOW,
    Named,
    PrequentialMetrics,
    add_point,
    layout,
    number,
)
from core.metrics.quality import Quality, error_ratio
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Range

ERROR_MAX = 1e150
"""Errors beyond count as this much; its square is the largest squared error, 1e300."""
NOTHING = math.nan
"""What a baseline was told to have said: nothing, no number was known."""
AS_NOW = math.inf
"""What a baseline was told to have said: nothing is known, it is taken to say what it says now."""
AS_IT_IS = np.empty(0)
"""What a baseline was told to have said: for all rows what it says now."""

# Columns of the scalars, one array so that a call passes few.
_ROWS, _MSE, _MAE, _MEAN, _VAR, _B_MSE, _B_MAE, _LAST = 0, 1, 2, 3, 4, 5, 6, 7
# Fading: weights, sums of e^2 and |e|; mean of the truth and sum of its squared deviations; the baseline's own three.
_F_ROWS, _F_SE, _F_AE, _F_MEAN, _F_DEV, _FB_ROWS, _FB_SE, _FB_AE = 8, 9, 10, 11, 12, 13, 14, 15
# Rows of the baseline; mean of e over its rows, and the same fading; weight of the newest row in the fading counts,
# which are divided by it every 1000 rows; first octave of the counts.
_B_ROWS, _BIAS_ROWS, _BIAS, _F_BIAS_ROWS, _F_BIAS, _WEIGHT, _OCTAVE = 16, 17, 18, 19, 20, 21, 22
# The model on the baseline's rows: means of e^2 and |e|, fading sums of the same.
_P_MSE, _P_MAE, _FP_SE, _FP_AE = 23, 24, 25, 26
_STRIDE = 27
_SCALARS = 29
# Means of a window: of all rows, of the baseline, of the model on the baseline's rows.
_W_MSE, _W_MAE, _WB_MSE, _WB_MAE, _WP_MSE, _WP_MAE, _MEANS = 0, 1, 2, 3, 4, 5, 6
# Columns of the ring: error, clipped truth, the baseline's error (NaN where it said nothing).
_RING = 3
# What the kernel answers.
_DONE, _NOT_FINITE, _NO_ROOM = 0, 1, 2


@njit("f8(f8)", cache=True)
def _clip(x: float) -> float:
    return min(max(x, -ERROR_MAX), ERROR_MAX)


@njit(f"UniTuple(i8, 2)({READ_FLOATS}, {READ_FLOATS})", cache=True)
def _octaves(predicted: Floats, truth: Floats) -> tuple[int, int]:
    """The lowest and the highest octave of the errors of some rows."""
    low, high = OCTAVES - 1, 0
    for i in range(truth.shape[0]):
        place = bin_of(predicted[i] - truth[i])
        if place != ZERO:
            low, high = min(low, place // PER_OCTAVE), max(high, place // PER_OCTAVE)
    return low, high


@njit("i8(f8[:,::1], i8, f8[::1])", cache=True)
def _window_means(ring: Floats, width: int, out: Floats) -> int:
    """The means over the first rows of the ring, into out (_MEANS,); how many of the rows the baseline has."""
    out[:] = 0.0
    scored = 0
    for i in range(width):
        square, size = ring[i, 0] * ring[i, 0], abs(ring[i, 0])
        out[_W_MSE] += square
        out[_W_MAE] += size
        if not np.isnan(ring[i, 2]):
            scored += 1
            out[_WB_MSE] += ring[i, 2] * ring[i, 2]
            out[_WB_MAE] += abs(ring[i, 2])
            out[_WP_MSE] += square
            out[_WP_MAE] += size
    out[:_WB_MSE] /= width or np.nan
    out[_WB_MSE:] /= scored or np.nan
    return scored


@njit(cache=True)
def _count(error: float, s: Floats, errors: Floats) -> None:
    """The mean of the errors, and their bins."""
    s[_BIAS_ROWS] += 1.0
    s[_BIAS] += (error - s[_BIAS]) / s[_BIAS_ROWS]
    s[_F_BIAS_ROWS] = FADING * s[_F_BIAS_ROWS] + 1.0
    s[_F_BIAS] = FADING * s[_F_BIAS] + error
    s[_WEIGHT] /= FADING
    place = bin_of(error)
    at = 0 if place == ZERO else 1 + place - int(s[_OCTAVE]) * PER_OCTAVE
    errors[0, at] += 1.0
    errors[1, at] += s[_WEIGHT]
    if s[_ROWS] % WINDOW == 0.0:
        for k in range(errors.shape[1]):
            errors[1, k] /= s[_WEIGHT]
        s[_WEIGHT] = 1.0


@njit(f"i8({READ_FLOATS}, {READ_FLOATS}, {READ_FLOATS}, f8[::1], f8[:,::1], f8[:,::1], f8[:,::1])", cache=True)
def _absorb(
    predicted: Floats, truth: Floats, told: Floats, s: Floats, errors: Floats, ring: Floats, history: Floats
) -> int:
    """Score the rows one by one; with nothing changed where a number is not finite, or an error has no bin yet."""
    for i in range(truth.shape[0]):
        if not (np.isfinite(truth[i]) and np.isfinite(predicted[i])):
            return _NOT_FINITE
    first = int(s[_OCTAVE]) * PER_OCTAVE
    for i in range(truth.shape[0]):
        place = bin_of(predicted[i] - truth[i])
        if place != ZERO and not first <= place < first + errors.shape[1] - 1:
            return _NO_ROOM
    means = np.empty(_MEANS)
    for i in range(truth.shape[0]):
        error, level = _clip(predicted[i] - truth[i]), _clip(truth[i])
        last = s[_LAST] if s[_ROWS] > 0.0 else np.nan
        if told.shape[0] and told[i] != np.inf:
            last = told[i]
        baseline = np.nan if np.isnan(last) else _clip(last - truth[i])
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
        _count(error, s, errors)

        if not np.isnan(baseline):
            s[_B_ROWS] += 1.0
            s[_B_MSE] += (baseline * baseline - s[_B_MSE]) / s[_B_ROWS]
            s[_B_MAE] += (abs(baseline) - s[_B_MAE]) / s[_B_ROWS]
            s[_FB_ROWS] = FADING * s[_FB_ROWS] + 1.0
            s[_FB_SE] = FADING * s[_FB_SE] + baseline * baseline
            s[_FB_AE] = FADING * s[_FB_AE] + abs(baseline)
            s[_P_MSE] += (error * error - s[_P_MSE]) / s[_B_ROWS]
            s[_P_MAE] += (abs(error) - s[_P_MAE]) / s[_B_ROWS]
            s[_FP_SE] = FADING * s[_FP_SE] + error * error
            s[_FP_AE] = FADING * s[_FP_AE] + abs(error)
        s[_LAST] = truth[i]

        if n % s[_STRIDE] == 0.0:
            _window_means(ring, int(min(n, float(WINDOW))), means)
            paired = s[_P_MSE] if s[_B_ROWS] > 0.0 else np.nan
            point = np.array([means[_W_MSE], s[_MSE], means[_W_MAE], means[_WB_MSE], means[_WP_MSE], paired])
            add_point(s, history, point)
    return _DONE


class RegressionMetrics(PrequentialMetrics):
    """The prequential metrics of a regression, a state machine over its scored rows."""

    LAYOUT = layout(
        Array(
            _SCALARS,
            places={
                **dict.fromkeys((_MSE, _MAE, _VAR, _B_MSE, _B_MAE), NOT_NEGATIVE),
                **dict.fromkeys((_F_ROWS, _F_SE, _F_AE, _F_DEV, _FB_ROWS, _FB_SE, _FB_AE), NOT_NEGATIVE),
                **dict.fromkeys((_P_MSE, _P_MAE, _FP_SE, _FP_AE), NOT_NEGATIVE),
                **dict.fromkeys((_ROWS, _B_ROWS, _BIAS_ROWS), WHOLE),
                _F_BIAS_ROWS: NOT_NEGATIVE,
                _WEIGHT: Range(1.0, 3.0),
                _OCTAVE: Range(0.0, OCTAVES, whole=True),
            },
        ),
        ring=Array(
            "ring",
            _RING,
            within=Range(-ERROR_MAX, ERROR_MAX, undefined=True),
            places=dict.fromkeys((0, 1), Range(-ERROR_MAX, ERROR_MAX)),
        ),
        metrics=6,
        undefined=(4, 5, 6),
        errors=Array(2, "bins", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
    )
    POINT = ("mse", "overall", "mae", "last_value", "paired", "paired_overall")

    def __init__(self) -> None:
        scalars = np.zeros(_SCALARS)
        scalars[_STRIDE], scalars[_WEIGHT] = STRIDE_FIRST, 1.0
        super().__init__(scalars, _RING)
        self._errors = np.zeros((2, 1))

    def absorb(self, predicted: Floats, truth: Floats, told: Floats = AS_IT_IS) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Args:
            predicted: float64 (n,), the a-priori predictions, all finite.
            truth: float64 (n,), the numbers that came, all finite.
            told: float64 (n,), what ``last_value`` said when the prediction was made: a number, ``NOTHING`` or
                ``AS_NOW``; or (0,): as now for all rows.

        Raises:
            ValueError: other lengths, or a number that is not finite; nothing changed.
        """
        n = len(truth)
        if len(predicted) != n or len(told) not in {0, n}:
            raise ValueError("predictions and truth do not go together")
        ring, history = self._room(self.rows + n)
        state = self._scalars, self._errors, ring, history
        if (done := _absorb(predicted, truth, told, *state)) == _NO_ROOM:
            self._hold(*_octaves(predicted, truth))
            done = _absorb(predicted, truth, told, self._scalars, self._errors, ring, history)
        if done != _DONE:
            raise ValueError("a number is not finite")
        self._ring, self._history = ring, history
        self.rows += n

    def _hold(self, low: int, high: int) -> None:
        """Bins for errors of these octaves, beside those that there are."""
        self._errors, first = covering(self._errors, int(self._scalars[_OCTAVE]), low, high)
        self._scalars[_OCTAVE] = first

    def baselines(self) -> tuple[float | None]:
        """What ``last_value`` says now, None before the first row."""
        return (float(self._scalars[_LAST]) if self.rows else None,)

    def headline(self) -> float | None:
        """The overall mean squared error, None before the first row."""
        return float(self._scalars[_MSE]) if self.rows else None

    def best_baseline(self) -> float | None:
        """The overall mean squared error of ``last_value``, None where it was not scored yet."""
        return float(self._scalars[_B_MSE]) if self._scalars[_B_ROWS] else None

    def paired_score(self) -> float | None:
        """The model's mean squared error on the rows that ``best_baseline`` is of; None where there are none."""
        return float(self._scalars[_P_MSE]) if self._scalars[_B_ROWS] else None

    def report(self, names: Named | None = None) -> Header:
        """Everything, as ``GET /models/{name}/metrics`` answers it; undefined numbers are None; no class has a name."""
        del names
        spans = {"overall": self._overall(), "window": self._window(), "fading": self._fading()}
        paired = {name: span.pop("paired") for name, span in spans.items()}
        return self._report(**spans) | {"paired": paired}

    def quality(self, costs: Floats | None = None) -> Quality:
        """How well the model has done in the window; there are no classes."""
        del costs
        means = np.empty(_MEANS)
        _window_means(self._ring, min(self.rows, WINDOW), means)
        mse, _, baseline, _, paired, _ = means.tolist()
        return Quality(mse, baseline, error_ratio(paired, baseline), math.nan, 0)

    def _overall(self) -> Header:
        s = self._scalars
        mse, mae, bias = s[[_MSE, _MAE, _BIAS]] if self.rows else (math.nan,) * 3
        beside = s[[_B_MSE, _B_MAE, _P_MSE, _P_MAE]] if s[_B_ROWS] else np.full(4, math.nan)
        location = _location(bias, median(self._errors[0], int(s[_OCTAVE])))
        return {**scores(mse, mae, s[_VAR]), **location, **_beside(int(s[_B_ROWS]), beside)}

    def _window(self) -> Header:
        ring, means = self._ring[: min(self.rows, WINDOW)], np.empty(_MEANS)
        scored = _window_means(self._ring, len(ring), means)
        middle = (ring[:, 0].mean(), float(np.median(np.abs(ring[:, 0])))) if len(ring) else (math.nan,) * 2
        own = scores(means[_W_MSE], means[_W_MAE], variance(ring[:, 1]))
        return {**own, **_location(*middle), **_beside(scored, means[_WB_MSE:])}

    def _fading(self) -> Header:
        s = self._scalars
        weight, b_weight, bias = s[_F_ROWS] or math.nan, s[_FB_ROWS] or math.nan, s[_F_BIAS_ROWS] or math.nan
        return {
            **scores(s[_F_SE] / weight, s[_F_AE] / weight, s[_F_DEV] / weight),
            **_location(s[_F_BIAS] / bias, median(self._errors[1], int(s[_OCTAVE]))),
            **_beside(round(float(s[_FB_ROWS]), DIGITS), s[[_FB_SE, _FB_AE, _FP_SE, _FP_AE]] / b_weight),
        }

    @staticmethod
    def _check(found: Mapping[str, Floats], rows: int) -> None:
        """Counts within the rows; bins of whole octaves."""
        s, errors = found["_scalars"], found["_errors"]
        if (s[[_B_ROWS, _BIAS_ROWS]] > rows).any():
            raise ValueError("scalars: more rows than there are")
        octaves, odd = divmod(errors.shape[1] - 1, PER_OCTAVE)
        if odd or s[_OCTAVE] + octaves > OCTAVES or errors[0].sum() != s[_BIAS_ROWS]:
            raise ValueError("errors: not the counts of so many rows")


def variance(truth: Floats) -> float:
    """Variance of n numbers (n,), clipped like an error; about the first one, so that equal numbers have exactly 0."""
    levels = np.clip(truth, -ERROR_MAX, ERROR_MAX)
    return float((levels - levels[0]).var()) if len(levels) else math.nan


def scores(mse: float, mae: float, var: float) -> dict[str, float | None]:
    """The three scores of one span of rows; NaN means there are none. r2 is None where it has no finite value."""
    ratio = float(mse) / float(var) if var > 0 else math.nan
    return {"mse": number(mse), "mae": number(mae), "r2": number(1.0 - ratio)}


def _location(bias: float, median_ae: float) -> dict[str, float | None]:
    """Where the errors of one span of rows lie; NaN means there are none."""
    return {"bias": number(bias), "median_ae": number(median_ae)}


def _beside(rows: float, means: Floats) -> Header:
    """The baseline and the model on its rows; means (4,): mse and mae of both, NaN where there are no rows."""
    b_mse, b_mae, mse, mae = map(number, means.tolist())
    paired = {"rows": rows, "mse": mse, "mae": mae}
    return {"paired": paired, "baselines": {"last_value": {"mse": b_mse, "mae": b_mae}}}
