"""Predictions of a regression, held near the labels it has seen (core.features.label_range).

One range serves whatever makes the prediction: one learner, or the experts after a change of features. What they learn
is not held.
"""

import numpy as np
from numba import njit

from core.contract import Floats
from core.features.label_range import HIGH, LOW, ROWS, SPAN_ROWS, held, hold_rows, widen
from core.metrics.class_kernels import FACTS
from core.metrics.regression import squared_error
from core.model.class_answers import Scored
from core.state.layout import WHOLE, Array, Holder, Layout

_NO_FACTS = np.empty((FACTS, 0))


@njit("void(f8[::1], Array(f8, 1, 'C', readonly=True), f8[::1], f8[::1])", cache=True, nogil=True)
def _absorb(values: Floats, y: Floats, span: Floats, losses: Floats) -> None:
    """Predictions (n,), each held by the labels before its own (n,), which the range then knows; their errors (n,)."""
    for i in range(y.shape[0]):
        if span[ROWS] >= SPAN_ROWS:
            values[i] = held(values[i], span[LOW], span[HIGH])
        widen(span, y[i], span[ROWS])
        span[ROWS] += 1.0
        losses[i] = squared_error(values[i], y[i])


class LabelRange(Holder):
    """The range of the labels so far, a state machine over the rows of a regression.

    State:
        span (3,)    least and largest label, and the number of labels
    """

    layout = Layout({"span": Array(3, places={ROWS: WHOLE}, ordered=[(LOW, HIGH)])})

    def __init__(self) -> None:
        self.span = np.zeros(3)

    @property
    def rows(self) -> int:
        """How many labels there were."""
        return int(self.span[ROWS])

    def hold(self, values: Floats) -> Floats:
        """Predictions (n,), held in place."""
        hold_rows(values, self.span)
        return values

    def absorb(self, values: Floats, truth: Floats) -> Scored:
        """A-priori predictions (n,), each held in place by the labels before its own, beside the labels (n,)."""
        losses = np.empty(len(truth))
        _absorb(values, truth, self.span, losses)
        return Scored(values, truth, _NO_FACTS, losses, losses)
