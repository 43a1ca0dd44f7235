"""The base learner of FESL-c and FESL-s, which differ in how core.switching uses it; kernels.py has the equations.

After a completed switch, G of a classifier restarts at zero. G of a regression continues: steps as long as at the start
would undo what it has learned.
"""

from typing import ClassVar

import numpy as np

from core.contract import Floats, Header, Ints, Spec, Weights
from core.learners.fesl.kernels import GRADIENTS, HIGH, LOW, ROWS, SQUARES, WEIGHT_MAX, learn_rows
from core.learners.linear import LinearLearner
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Layout


class GradientDescent(LinearLearner):
    """The learner behind ``fesl_c`` and ``fesl_s``.

    State, for D = d plus one if there is a bias column (the last one):
        W (m, D)    weights; one row for regression and up to two classes, else one per class
        counters (5,)  see ROWS, GRADIENTS, SQUARES, LOW, HIGH
    """

    layout: ClassVar = Layout(
        weights=Array("columns", "D", within=WEIGHT_MAX, at="W"),
        tally=Array(
            5,
            places={ROWS: WHOLE, GRADIENTS: NOT_NEGATIVE, SQUARES: NOT_NEGATIVE},
            ordered=[(LOW, HIGH)],
            at="counters",
        ),
    )

    object_bytes: ClassVar = 500
    first_two: ClassVar = (-0.5, 0.5)
    """W is the difference of two classes' columns."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.rate = float(spec.params["learning_rate"])
        self.paper = spec.params["variant"] == "paper"
        self.counters = np.zeros(5)

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """5 D per column, 2 D in all, and about twenty per class."""
        columns, D = cls.sizes(spec, classes).values()
        return 5.0 * D * columns + 2.0 * D + 20.0 * max(classes, 1)

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """See ``RowLearner``. Takes no discounts."""
        del discounts
        learn_rows(X, y, weights, self.W, self.counters, self.rate, self.paper, value, out)

    def start_at(self, weights: Weights, steps_of: "GradientDescent") -> None:
        """Start from a linear model in the form of ``weights``; see ``core.contract.Transferable``."""
        self.counters = steps_of.counters.copy()
        w = np.hstack([weights.coefficients, weights.bias[:, None]])[:, : self.W.shape[1]]
        if not self.regression and self.classes < 3:
            w = w[1:] - w[:1] if self.classes == 2 else -2 * w
        if w.shape == self.W.shape:
            self.W = np.ascontiguousarray(np.clip(w, -WEIGHT_MAX, WEIGHT_MAX))

    def restart(self) -> None:
        """Make a classifier's steps as long as at the start; the weights stay. In regression the steps stay short."""
        if self.paper or not self.regression:
            self.counters = np.zeros(5)

    def info(self) -> Header:
        """Rows since the step was (re)started."""
        return {"rows": int(self.counters[ROWS])}
