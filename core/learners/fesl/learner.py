"""The base learner of FESL-c and FESL-s, which differ in what core.switching makes of it; kernels.py has the equations.

When a switch is complete, G of a classifier starts again at zero. That of a regression goes on: steps as long as at
the start would undo what was learned.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Prediction, Spec, Weights
from core.learners.fesl.kernels import (
    ROWS,
    WEIGHT_MAX,
    learn_classes,
    learn_numbers,
    predict_classes,
    predict_numbers,
)
from core.learners.linear import LinearLearner
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Layout

_NONE = np.empty(0)


class GradientDescent(LinearLearner):
    """The learner behind ``fesl_c`` and ``fesl_s``.

    State, for D = d plus one where there is a bias column (the last one):
        W (m, D)    weights; one row for regression and up to two classes, else one per class
        counters (3,)  see ROWS, GRADIENTS, SQUARES
    """

    layout: ClassVar = Layout(
        {
            "weights": Array("columns", "D", within=WEIGHT_MAX, at="W"),
            "tally": Array(3, within=NOT_NEGATIVE, places={ROWS: WHOLE}, at="counters"),
        }
    )

    object_bytes: ClassVar = 500
    first_two: ClassVar = (-0.5, 0.5)
    """W is the difference of two classes' columns."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.rate = float(spec.params["learning_rate"])
        self.paper = spec.params["variant"] == "paper"
        self.counters = np.zeros(3)

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """5 D per column and 2 D, and some twenty per class."""
        columns, D = cls.sizes(spec, classes).values()
        return 5.0 * D * columns + 2.0 * D + 20.0 * max(classes, 1)

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        value, P = self._empty(X.shape[0])
        if self.regression:
            predict_numbers(X, self.W, value)
            return Prediction(value)
        if self.classes:
            predict_classes(X, self.W, P, value)
        return Prediction(value, P)

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``. Takes no discounts."""
        del discounts
        given = _NONE if weights is None else weights
        value, P = self._empty(X.shape[0])
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        if self.regression:
            learn_numbers(X, numbers, given, self.W, self.counters, self.rate, self.paper, value)
            return Prediction(value)
        learn_classes(X, numbers, given, self.W, self.counters, self.rate, self.paper, P, value)
        return Prediction(value, P)

    def _empty(self, n: int) -> tuple[NDArray[Any], Floats]:
        """Room for the values and probabilities of n rows; without a class the value is -1."""
        if self.regression:
            return np.empty(n), np.empty((n, 0))
        return np.full(n, -1, dtype=np.int64), np.empty((n, self.classes))

    def start_at(self, weights: Weights) -> None:
        """Take over a linear model in the terms of ``weights``; see ``core.contract.Transferable``."""
        w = np.hstack([weights.coefficients, weights.bias[:, None]])[:, : self.W.shape[1]]
        if not self.regression and self.classes < 3:
            w = w[1:] - w[:1] if self.classes == 2 else -2 * w
        if w.shape == self.W.shape:
            self.W = np.ascontiguousarray(np.clip(w, -WEIGHT_MAX, WEIGHT_MAX))

    def restart(self) -> None:
        """Steps of a classifier are as long again as at the start; the weights stay. With numbers they stay short."""
        if self.paper or not self.regression:
            self.counters = np.zeros(3)

    def info(self) -> Header:
        """Rows since the step was (re)started."""
        return {"rows": int(self.counters[ROWS])}
