"""Prequential metrics of a regression: each a-priori prediction compared with the true number.

    mse         mean of e^2, e = prediction - truth
    mae         mean of |e|
    r2          1 - mse/var, var the mean squared deviation of the truth from its mean; None if var is 0
    bias        mean of e: above 0 if predictions are too high
    median_ae   median of |e|: exact in the window, else from bounded counts, within 3.2 % (error_sketch)

The baseline ``last_value`` predicts the latest number known at the moment of the prediction; it is scored if there
was one, hence not at the first row. The model's own scores cover all rows that it predicted; an observer's other rows,
for which nothing was served, are *unscored*: they count as rows, and as last values. The model is compared only on the
baseline's rows (``paired``): the first row is predicted by a model that has learned nothing, and if labels are far
from 0 its error would outweigh those of thousands of rows. So there are three series of errors: the model's, the
baseline's, and the model's on the baseline's rows.

The running means are recursions (m += (x - m)/n), never sums. Errors are clipped to +-1e150, and for the variance so is
the truth: squares then stay at or below 4e300, and no finite input makes anything overflow. In ``fading`` a mean is
(sum of weighted values)/(sum of weights), and the variance follows the same weights.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numba import njit

from core.contract import NUMBERS_IN, TABLE, VECTOR, Floats, Header
from core.metrics.error_sketch import OCTAVES, PER_OCTAVE, ZERO, bin_of, covering, median
from core.metrics.prequential import (
    DIGITS,
    RESCALED,
    ROWS,
    STRIDE,
    PrequentialMetrics,
    Quality,
    add_point,
    error_ratio,
    history_of,
    number,
)
from core.numerics.rows import within
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Layout, Range

ERROR_MAX = 1e150  # larger errors count as this; its square is the largest squared error, 1e300
LOSS_MAX = 1e300
NOTHING = math.nan  # the baseline predicted nothing: no number was known
AS_NOW = math.inf  # the prediction of the baseline is not known: its current one is used instead
UNSCORED = -math.inf  # in place of the baseline's prediction: the row was not predicted
AS_IT_IS = np.empty(0)  # the baseline's predictions: the current one, for all rows

# Scalars; the row count is the first one, the stride and the number of points the last ones. Of the truth: the latest,
# mean and variance, and fading its mean and sum of squared deviations. Of the counts of errors (error_sketch): the
# weight of the newest row in the fading ones, which are divided by it every 1000 rows; their first octave.
LAST, LEVEL, VAR, F_LEVEL, F_DEV, WEIGHT, OCTAVE = 1, 2, 3, 4, 5, 6, 7
SCALARS = 10
# Series of errors, and columns of each: its rows, means of e^2, |e| and e, and fading sums of 1, e^2, |e| and e.
MODEL, BASELINE, PAIRED = 0, 1, 2
SERIES_ROWS, SQUARE, SIZE, ERROR = range(4)
SERIES_FADING, SERIES_COLUMNS = 4, 8
# Columns of the ring: error, clipped truth, the baseline's error; NaN if nothing was predicted.
RING = 3
COUNTED_ERRORS = f"{VECTOR}, {TABLE}, {TABLE}, {TABLE}, {TABLE}, f8"
"""Numba's types of ``ErrorArrays`` and of the fading factor."""
# What the kernel returns.
DONE, _NOT_FINITE, _NO_ROOM = 0, 1, 2
ErrorArrays = tuple[Floats, Floats, Floats, Floats, Floats]
"""The arrays of a state, from the scalars to the history."""


@njit(cache=True)
def squared_error(predicted: float, truth: float) -> float:
    """The squared error of a prediction as in answers: capped, so that every number is finite."""
    error = predicted - truth
    return min(error * error, LOSS_MAX)


@njit(f"f8[::1]({NUMBERS_IN}, {NUMBERS_IN})", cache=True)
def squared_errors(predicted: Floats, truth: Floats) -> Floats:
    """Squared errors (n,) of n predictions."""
    losses = np.empty(truth.shape[0])
    for i in range(truth.shape[0]):
        losses[i] = squared_error(predicted[i], truth[i])
    return losses


@njit(cache=True)
def _add_to(sums: Floats, error: float) -> None:
    sums[SERIES_ROWS] += 1.0
    sums[SQUARE] += error * error
    sums[SIZE] += abs(error)


@njit("f8[:,::1](f8[:,::1], i8)", cache=True)
def window_means(ring: Floats, width: int) -> Floats:
    """Rows and means of e^2 and |e| of each series (3, 3) over the first rows of the ring; NaN without rows."""
    found = np.zeros((3, 3))
    for i in range(width):
        error, baseline = ring[i, 0], ring[i, 2]
        if np.isnan(error):
            continue
        _add_to(found[MODEL], error)
        if not np.isnan(baseline):
            _add_to(found[BASELINE], baseline)
            _add_to(found[PAIRED], error)
    for series in found:
        for at in range(SQUARE, series.shape[0]):
            series[at] /= series[SERIES_ROWS] or np.nan
    return found


@njit(cache=True)
def _follow(series: Floats, error: float, fading: float) -> None:
    """Add an error to a series."""
    series[SERIES_ROWS] += 1.0
    n = series[SERIES_ROWS]
    for at, value in ((SQUARE, error * error), (SIZE, abs(error)), (ERROR, error)):
        series[at] += (value - series[at]) / n
        series[SERIES_FADING + at] = fading * series[SERIES_FADING + at] + value
    series[SERIES_FADING] = fading * series[SERIES_FADING] + 1.0


@njit(cache=True)
def _count(error: float, n: float, s: Floats, errors: Floats, fading: float) -> None:
    """Count the n-th error in its bin."""
    s[WEIGHT] /= fading
    place = bin_of(error)
    at = 0 if place == ZERO else 1 + place - int(s[OCTAVE]) * PER_OCTAVE
    errors[0, at] += 1.0
    errors[1, at] += s[WEIGHT]
    if n % RESCALED == 0.0:
        for k in range(errors.shape[1]):
            errors[1, k] /= s[WEIGHT]
        s[WEIGHT] = 1.0


@njit(f"i8({NUMBERS_IN}, {NUMBERS_IN}, {NUMBERS_IN}, {COUNTED_ERRORS})", cache=True)
def absorb_rows(
    predicted: Floats, truth: Floats, baselines: Floats, s: Floats, series: Floats, errors: Floats, ring: Floats,
    history: Floats, fading: float,
) -> int:  # fmt: skip
    """Score rows one by one; returns DONE. Nothing changes if a number is not finite, or an error has no bin yet."""
    first = int(s[OCTAVE]) * PER_OCTAVE
    done, told = DONE, baselines.shape[0] > 0
    for i in range(truth.shape[0]):
        if not (np.isfinite(truth[i]) and (np.isfinite(predicted[i]) or (told and baselines[i] == -np.inf))):
            return _NOT_FINITE
        if told and baselines[i] == -np.inf:
            continue
        place = bin_of(predicted[i] - truth[i])
        if place != ZERO and not first <= place < first + errors.shape[1] - 1:
            done = _NO_ROOM
    if done == _NO_ROOM:
        return done
    model = series[MODEL]
    for i in range(truth.shape[0]):
        error, level, baseline = np.nan, within(truth[i], ERROR_MAX), np.nan
        if not (told and baselines[i] == -np.inf):
            error = within(predicted[i] - truth[i], ERROR_MAX)
            last = s[LAST] if s[ROWS] > 0.0 else np.nan
            if told and baselines[i] != np.inf:
                last = baselines[i]
            baseline = np.nan if np.isnan(last) else within(last - truth[i], ERROR_MAX)
            _follow(model, error, fading)
            before = level - s[LEVEL]
            s[LEVEL] += before / model[SERIES_ROWS]
            s[VAR] += (max(before * (level - s[LEVEL]), 0.0) - s[VAR]) / model[SERIES_ROWS]
            before = level - s[F_LEVEL]
            s[F_LEVEL] += before / model[SERIES_FADING]
            s[F_DEV] = fading * s[F_DEV] + max(before * (level - s[F_LEVEL]), 0.0)
            _count(error, model[SERIES_ROWS], s, errors, fading)
            if not np.isnan(baseline):
                _follow(series[BASELINE], baseline, fading)
                _follow(series[PAIRED], error, fading)
        at = int(s[ROWS]) % ring.shape[0]
        ring[at, 0], ring[at, 1], ring[at, 2] = error, level, baseline
        s[ROWS] += 1.0
        s[LAST] = truth[i]

        if s[ROWS] % s[STRIDE] == 0.0:
            means = window_means(ring, int(min(s[ROWS], float(ring.shape[0]))))
            paired = series[PAIRED, SQUARE] if series[PAIRED, SERIES_ROWS] > 0.0 else np.nan
            window, both = means[:, SQUARE], model[SQUARE] if model[SERIES_ROWS] > 0.0 else np.nan
            add_point(s, history, np.array([window[0], both, means[0, SIZE], window[1], window[2], paired]))
    return done


class NumberSpan(NamedTuple):
    """One span of rows; NaN without rows."""

    means: Floats  # (3, at least 2) of e^2 and |e| of each series
    bias: float
    variance: float  # of the truth
    median: float  # of |e|
    rows: float  # of the baseline

    def report(self) -> Header:
        """The scores of the model and of the baseline."""
        mse, mae = self.means[MODEL, :2]
        location = {"bias": number(self.bias), "median_ae": number(self.median)}
        return {**scores(mse, mae, self.variance), **location, "baselines": {"last_value": self.errors(BASELINE)}}

    def errors(self, series: int) -> Header:
        """The two means of a series."""
        return {"mse": number(self.means[series, 0]), "mae": number(self.means[series, 1])}


class RegressionMetrics(PrequentialMetrics):
    """The prequential metrics of a regression, a state machine over its scored rows."""

    POINT = ("mse", "overall", "mae", "last_value", "paired", "paired_overall")
    layout = Layout(
        scalars=Array(
            SCALARS,
            places={
                ROWS: WHOLE,
                (LEVEL, F_LEVEL): Range(-ERROR_MAX, ERROR_MAX),
                (VAR, F_DEV): NOT_NEGATIVE,
                WEIGHT: Range(1.0),
                OCTAVE: Range(0.0, OCTAVES, whole=True),
            },
        ),
        series=Array(
            3,
            SERIES_COLUMNS,
            places={SERIES_ROWS: WHOLE, (SQUARE, SIZE, *range(SERIES_FADING, SERIES_FADING + ERROR)): NOT_NEGATIVE},
        ),
        errors=Array(2, "bins", within=NOT_NEGATIVE, places={0: WHOLE}, axis=0),
        ring=Array(
            "ring",
            RING,
            within=Range(-ERROR_MAX, ERROR_MAX, undefined=True),
            places={0: Range(-ERROR_MAX, ERROR_MAX, undefined=True), 1: Range(-ERROR_MAX, ERROR_MAX)},
        ),
        history=history_of(POINT),
    )

    def __init__(self, window: int, fading: float) -> None:
        super().__init__(SCALARS, RING, window, fading)
        self.scalars[WEIGHT] = 1.0
        self.series = np.zeros((3, SERIES_COLUMNS))
        self.errors = np.zeros((2, 1))

    def absorb(self, predicted: Floats, truth: Floats, baselines: Floats = AS_IT_IS) -> None:
        """Score n rows in order. A block leaves the same bits as its rows one at a time.

        Predictions and numbers are (n,). ``baselines``: (n,) what ``last_value`` predicted then, a number, ``NOTHING``,
        ``AS_NOW``, or ``UNSCORED`` for a row without a prediction; or (0,): what it predicts now, for all rows. Raises
        ``ValueError`` for other lengths, or a number that is not finite; nothing changes then.
        """
        n = len(truth)
        if len(predicted) != n or (len(baselines) and len(baselines) != n):
            raise ValueError("predictions and truth do not match")
        while (done := absorb_rows(predicted, truth, baselines, *(arrays := self.arrays(n)), self.fading)) == _NO_ROOM:
            with np.errstate(over="ignore"):
                sizes = np.abs(predicted - truth)
            sizes = sizes[~np.isnan(sizes)]
            self.errors, self.scalars[OCTAVE] = covering(self.errors, int(self.scalars[OCTAVE]), sizes)
        if done != DONE:
            raise ValueError("a number is not finite")
        self.counted(arrays, n)

    def arrays(self, more: int) -> ErrorArrays:
        """The arrays in which ``absorb_rows`` counts rows, with room for ``more`` rows."""
        return self.scalars, self.series, self.errors, *self.room(more)

    def counted(self, arrays: ErrorArrays, rows: int) -> None:
        """Continue with ``arrays``, in which this many more rows are counted."""
        _, _, _, self.ring, self.history = arrays
        self.rows += rows

    def baselines(self) -> tuple[float | None]:
        """What ``last_value`` predicts now, None before the first row."""
        return (float(self.scalars[LAST]) if self.rows else None,)

    def headline(self, _costs: Floats | None = None) -> Header:
        """The overall mean squared errors of the model, of ``last_value``, and of the model on the latter's rows."""
        errors = [mse if rows else None for rows, mse in self.series[:, : SQUARE + 1].tolist()]
        return dict(zip(("score", "baseline", "paired_score"), errors, strict=True))

    def report(self) -> Header:
        """The answer of ``GET /models/{name}/metrics``; undefined numbers are None."""
        spans = self._spans()
        found = self._report(**{name: span.report() for name, span in spans.items()})
        found["unscored"] = self._unscored
        return found | {"paired": {name: {"rows": span.rows, **span.errors(PAIRED)} for name, span in spans.items()}}

    def quality(self, _costs: Floats | None = None) -> Quality:
        """How well the model did in the window."""
        mse, baseline, paired = self._window_squares()
        return Quality(mse, baseline, error_ratio(paired, baseline), math.nan, self._unscored)

    def window_errors(self, _costs: Floats | None = None) -> tuple[float, float]:
        """The mean squared errors of the model and of ``last_value``, in the window's rows of the latter; NaN: none."""
        _, baseline, paired = self._window_squares()
        return paired, baseline

    def _window_squares(self) -> list[float]:
        found: list[float] = window_means(self.ring, min(self.rows, self.window))[:, SQUARE].tolist()
        return found

    @property
    def _unscored(self) -> int:
        return self.rows - int(self.series[MODEL, SERIES_ROWS])

    def _spans(self) -> dict[str, NumberSpan]:
        rows, weights, s = self.series[:, SERIES_ROWS], self.series[:, SERIES_FADING], self.scalars
        means = np.where(rows[:, None] > 0.0, self.series[:, SQUARE:SERIES_FADING], math.nan)
        middle = median(self.errors[0], int(s[OCTAVE]), means[MODEL, 1])
        overall = NumberSpan(means, means[MODEL, 2], s[VAR], middle, int(rows[BASELINE]))

        ring = self.ring[: min(self.rows, self.window)]
        errors, truth, _ = ring[~np.isnan(ring[:, 0])].T
        means = window_means(self.ring, len(ring))
        bias, middle = (errors.mean(), np.median(np.abs(errors))) if len(errors) else (math.nan, math.nan)
        window = NumberSpan(means[:, SQUARE:], bias, variance(truth), middle, int(means[BASELINE, SERIES_ROWS]))

        known, baseline = np.where(weights > 0.0, weights, math.nan), round(float(weights[BASELINE]), DIGITS)
        means = self.series[:, SERIES_FADING + SQUARE :] / known[:, None]
        middle = median(self.errors[1], int(s[OCTAVE]), means[MODEL, 1])
        fading = NumberSpan(means, means[MODEL, 2], s[F_DEV] / known[MODEL], middle, baseline)
        return {"overall": overall, "window": window, "fading": fading}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        """Counts within the rows; bins of whole octaves."""
        super()._check(held, found)
        s, series, errors = held["scalars"], held["series"], held["errors"]
        if series[MODEL, SERIES_ROWS] > s[ROWS] or (series[:, SERIES_ROWS] > series[MODEL, SERIES_ROWS]).any():
            raise ValueError("series: more rows than there are")
        self._check_weight(s[WEIGHT])
        octaves, odd = divmod(errors.shape[1] - 1, PER_OCTAVE)
        if odd or s[OCTAVE] + octaves > OCTAVES or errors[0].sum() != series[MODEL, SERIES_ROWS]:
            raise ValueError("errors: counts that do not match the rows")


def variance(truth: Floats) -> float:
    """Variance of n numbers (n,), clipped like errors; about the first, so that equal numbers have exactly 0."""
    levels = np.clip(truth, -ERROR_MAX, ERROR_MAX)
    return float((levels - levels[0]).var()) if len(levels) else math.nan


def scores(mse: float, mae: float, var: float) -> dict[str, float | None]:
    """The three scores of one span of rows; NaN means there are none. r2 is None if it has no finite value."""
    ratio = float(mse) / float(var) if var > 0 else math.nan
    return {"mse": number(mse), "mae": number(mae), "r2": number(1.0 - ratio)}
