"""What a regression says, held near the labels it has seen (core.numerics.label_range).

One range serves whatever makes the prediction: one learner, or the experts after a change of features. What they learn
is not held.
"""

import numpy as np

from core.contract import Floats
from core.numerics.label_range import HIGH, LOW, ROWS, absorb_rows, hold_rows
from core.state.holder import Holder
from core.state.layout import WHOLE, Array, Layout

LAYOUT = Layout({"span": Array(3, places={ROWS: WHOLE}, ordered=[(LOW, HIGH)])})


class LabelRange(Holder):
    """The range of the labels so far, a state machine over the rows of a regression.

    State:
        span (3,)    least and largest label, and the number of labels
    """

    layout = LAYOUT

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

    def absorb(self, values: Floats, truth: Floats) -> Floats:
        """A-priori predictions (n,), each held in place by the labels before its own; then these are known."""
        absorb_rows(values, truth, self.span)
        return values
