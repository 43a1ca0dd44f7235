r"""Online gradient descent on a linear model: the base learner of ``fesl_c`` and ``fesl_s``.

Per row, with scores s_k = w_k'x (a bias column is the last of x), and t_k = 1 for the row's class, else 0:

    classification   p = softmax(s)             loss -ln p_y               g_k = (p_k - t_k) x
    regression       s                          loss (s - y)^2             g   = 2 (s - y) x
    G <- G + |g|^2                              over all outputs, this row included
    w <- w - r Y g / sqrt(G)                    scalar AdaGrad; r: the learning rate; Y = 1 for classes, for numbers
                                                the root mean square of the labels so far, this row's included

A row of weight c has the loss and the gradient c times.

Two classes have one column w = w_1 - w_0, which makes softmax the paper's logistic loss ln(1 + exp(-y w'x)), y = +-1;
at the third class it becomes [-w/2, w/2, 0], the same probabilities. Y makes the weights of a regression follow the
unit of its labels, which AdaGrad, moving a weight by at most r per row, does not. A step does not depend on the common
scale of the inputs, but on their relative ones: inputs should be standardised (parameter ``scaling``).

When a switch is complete, G of a classifier starts again at zero. That of a regression goes on: steps as long as at
the start would undo what was learned.

Reported probabilities are p (1 - K e) + e with e = 1e-6, so that no class is ever ruled out.

**Any finite input.** Rows larger than 1e50 are scaled down as a whole; residuals are held within 1e90, weights within
1e100, predictions within 1e300.

Source: Hou, Zhang, Zhou: Learning With Feature Evolvable Streams, IEEE TKDE 33(6), 2021: (1), Algorithm 1, line 5;
AdaGrad: Duchi, Hazan, Singer, JMLR 12, 2011, in its scalar form.

Deviations from the paper
- Scalar AdaGrad instead of the step 1/(c sqrt t), whose c the paper picks per data set from {1, 10, 50, 100, 150}; that
  step is ``variant: "paper"`` with the learning rate 1/c.
- Weights start at zero, not at random; there is no projection (the limits above aside).
- More than two classes and the bias column are not in the paper.
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
