"""The answers of a regression: predictions held near the labels so far (core.features.label_range), and intervals.

There is one range, whether a single learner predicts or the experts after a change of features. Only predictions are
held, not what is learned. A tracked row, whose label comes late, is scored by what was returned to the client, and the
baseline by what it predicted at that moment.
"""

from typing import Any

import numpy as np
from msgspec.structs import replace
from numba import njit
from numpy.typing import NDArray

from core.config import Config
from core.contract import NUMBERS_IN, TABLE, VECTOR, Floats, Header, Label, Prediction, direct
from core.features.label_range import HIGH, LOW, ROWS, SPAN_ROWS, held, hold_rows, widen
from core.features.labels import LabelSet
from core.metrics import RegressionMetrics
from core.metrics.intervals import NONE_TRACKED, Intervals, absorb_residuals, returned_bounds
from core.metrics.regression import (
    AS_IT_IS,
    AS_NOW,
    COUNTED_ERRORS,
    DONE,
    NOTHING,
    UNSCORED,
    absorb_rows,
    squared_error,
    squared_errors,
)
from core.model.rows import BlockRows, Returned, Scored
from core.state.layout import WHOLE, Array, Holder, Layout

_NO_SHARES = np.empty(0)
_INTERVALS = f"i8, {TABLE}, {TABLE}, {TABLE}, {VECTOR}, {VECTOR}, {VECTOR}, f8"


@njit(f"void({VECTOR}, {NUMBERS_IN}, {VECTOR}, {VECTOR})", cache=True, nogil=True)
def _hold(values: Floats, y: Floats, span: Floats, losses: Floats) -> None:
    """Clip predictions (n,), each by the range of earlier labels, then widen it by the label (n,); write errors."""
    for i in range(y.shape[0]):
        if span[ROWS] >= SPAN_ROWS:
            values[i] = held(values[i], span[LOW], span[HIGH], span[ROWS])
        widen(span, y[i], span[ROWS])
        span[ROWS] += 1.0
        losses[i] = squared_error(values[i], y[i])


@direct(f"i8({VECTOR}, {NUMBERS_IN}, {VECTOR}, {VECTOR}, {COUNTED_ERRORS}, {_INTERVALS})")
def _absorb(
    values: Floats, y: Floats, span: Floats, losses: Floats, scalars: Floats, series: Floats, errors: Floats,
    ring: Floats, history: Floats, fading: float, rows: int, alphas: Floats, weights: Floats, levels: Floats,
    ordered: Floats, residuals: Floats, bits: Floats, faded: float,
) -> int:  # fmt: skip
    """``_hold``, the metrics and, if those are ``DONE``, the intervals in one call; returns the metrics' result."""
    _hold(values, y, span, losses)
    done = absorb_rows(values, y, AS_IT_IS, scalars, series, errors, ring, history, fading)
    if done == DONE:
        known = rows, alphas, weights, levels, ordered, residuals, bits
        absorb_residuals(values, y, NONE_TRACKED, _NO_SHARES, *known, faded)
    return int(done)


class NumberAnswers(Holder):
    """The answers of a regression, a state machine over its rows, with metrics and intervals; there are no classes.

    State:
        span (3,)    least and largest label, and the number of labels
    """

    layout = Layout(span=Array(3, places={ROWS: WHOLE}, ordered=[(LOW, HIGH)]))
    regression = True
    costs, reset_row = None, 0
    retired: tuple[Label, ...] = ()

    def __init__(self, config: Config, seen: LabelSet) -> None:
        self.span = np.zeros(3)
        self.metrics, self.intervals = RegressionMetrics(*config.metrics.spans), Intervals(*config.metrics.spans)
        self.seen = self.labels = seen

    def truth_of(self, labels: Any) -> tuple[NDArray[Any], bool]:
        """The labels of n rows, (n,), and True, because no class is new."""
        return np.ascontiguousarray(labels, dtype=np.float64), True

    def of(self, prediction: Prediction) -> Prediction:
        """A learner's prediction, held in place."""
        hold_rows(prediction.value, self.span)
        return prediction

    def named(self, values: NDArray[Any]) -> list[Any]:
        """Answers as numbers."""
        return values.tolist()  # type: ignore[no-any-return]

    def returned(self, prediction: Prediction, row: int) -> tuple[Any, ...]:
        """One row of ``of`` as a client receives it: number, no probabilities, the baseline's prediction, intervals,
        and after how many rows.
        """
        value = float(prediction.value[row])
        return value, None, self.metrics.baselines(), self.intervals.served(value), self.intervals.rows

    def last_labels(self, returned: Returned) -> Floats:
        """The last label (n,) when each row was predicted, 0 for none; NaN: the row was not tracked."""
        known = [() if one is None or one.baselines is None else one.baselines for one in returned]
        return np.array([(0.0 if one[0] is None else one[0]) if one else np.nan for one in known], np.float64)

    def absorb(
        self, prediction: Prediction | None, truth: NDArray[Any], rows: BlockRows, new: bool = False, fits: bool = True
    ) -> Scored:
        """Score rows, tracked ones by what was returned; the range and the intervals learn from them.

        See ``ClassAnswers.absorb``. Here ``truth`` are numbers, predictions are held in place, and ``new`` and ``fits``
        are ignored.
        """
        del new, fits
        metrics, intervals, n = self.metrics, self.intervals, len(truth)
        values, losses = np.zeros(n) if prediction is None else prediction.value, np.empty(n)
        scored = Scored(values, truth, _NO_SHARES, losses, losses)
        if rows.returned is None:
            of_metrics, of_intervals = metrics.arrays(n), intervals.arrays(n)
            done = _absorb(
                *(values, truth, self.span, losses, *of_metrics, metrics.fading),
                *(intervals.rows, *of_intervals, intervals.fading),
            )
            if done == DONE:
                metrics.counted(of_metrics, n)
                intervals.counted(of_intervals, n)
            else:
                metrics.absorb(values, truth)
                intervals.absorb(values, truth)
            return scored
        _hold(values, truth, self.span, losses)
        scored, baselines = self._by_returned(scored, rows.returned)
        metrics.absorb(scored.predicted, truth, baselines)
        bounds = returned_bounds([() if one is None else one.interval for one in rows.returned])
        since = [np.nan if one is None or one.scored is None else one.scored for one in rows.returned]
        known = baselines != UNSCORED
        intervals.absorb(scored.predicted[known], truth[known], bounds[known], np.array(since, np.float64)[known])
        return scored

    def by_returned(self, scored: Scored, returned: Returned) -> Scored:
        """Score rows by the predictions that were returned, whichever learner made them."""
        return self._by_returned(scored, returned)[0]

    def _by_returned(self, scored: Scored, returned: Returned) -> tuple[Scored, Floats]:
        """The rows scored by what was returned, and the baseline's predictions at that moment, (n,)."""
        predicted: Floats = scored.predicted.copy()
        baselines = np.full(len(returned), AS_NOW)
        for row, one in enumerate(returned):
            if one is None:
                continue
            if one.prediction is None:  # an observer without a served prediction
                predicted[row], baselines[row] = np.nan, UNSCORED
                continue
            predicted[row] = one.prediction
            if one.baselines is not None:
                (last,) = one.baselines
                baselines[row] = NOTHING if last is None else last
        return replace(scored, predicted=predicted, losses=squared_errors(predicted, scored.truth)), baselines

    def report(self) -> Header:
        """The metrics, and the coverage of the intervals."""
        found = self.metrics.report()
        for span, covered in zip(("overall", "window", "fading"), self.intervals.spans(), strict=True):
            found[span]["coverage"] = covered
        return found

    def parts(self) -> dict[str, Any]:
        """The parts that have a state, by their names in a saved state."""
        return {"metrics": self.metrics, "intervals": self.intervals, "label_range": self}

    def check(self) -> None:
        """``ValueError`` if the parts of a saved state are not those of one model."""
        rows = self.metrics.rows
        if self.span[ROWS] != rows or self.intervals.rows > rows:
            raise ValueError("the rows of the parts differ")
        if self.seen.labels:
            raise ValueError("a regression has no classes")
