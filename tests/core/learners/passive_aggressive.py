r"""Passive-Aggressive: the smallest change of the weights that makes a row's loss zero.

Per row x, which ends with a constant column:

    classes    l = max(0, 1 - t w'x)              t = +-1 in every column (core.learners.linear)
    numbers    l = max(0, |y - w'x| - epsilon)    t = sign(y - w'x)
    w <- w + tau t x                              PA-I: tau = min(C, l / |x|^2)    PA-II: tau = l / (|x|^2 + 1 / (2 C))

Rows larger than 1e75 are scaled down as a whole, labels are clipped to +-1e90, weights to +-1e100.

Source: Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms, JMLR 7, 2006.
"""

from typing import ClassVar

import numpy as np

from core.contract import Floats, Header, Ints, Spec
from core.learners.algorithm import Algorithm
from core.learners.calibration import CALIBRATION, classify_rows, fresh_calibration
from core.learners.learner import NONE_GIVEN
from core.learners.linear import LinearLearner
from core.learners.parameters import SCALING
from core.problems import Param
from core.state.layout import WHOLE, Array, Layout

ROW_MAX, NUMBER_MAX, WEIGHT_MAX = 1e75, 1e90, 1e100


class PassiveAggressive(LinearLearner):
    """The learner behind ``passive_aggressive``."""

    layout: ClassVar = Layout(
        weights=Array("columns", "D", within=WEIGHT_MAX, at="W"),
        rows=Array(1, within=WHOLE),
        calibration=CALIBRATION,
    )

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.params = spec.params
        self.rows = np.zeros(1)
        self.calibration = fresh_calibration()

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """Write predictions, and learn rows that have labels y, all with the same weight."""
        del discounts, weights
        scores = np.empty((len(X), len(self.W)))
        for i, x in enumerate(map(_bounded_with_bias, X)):
            scores[i] = self.W @ x
            if len(y):
                self._step(x, scores[i], y[i])
        self.rows += len(y)
        if self.regression:
            out[0] = scores[:, 0]
        else:
            classify_rows(scores, y, NONE_GIVEN, self.calibration, value, out)

    def _step(self, x: Floats, scores: Floats, label: float) -> None:
        C = self.params["aggressiveness"]
        if self.regression:
            apart = np.clip(label, -NUMBER_MAX, NUMBER_MAX) - scores
            t, loss = np.sign(apart), np.maximum(np.abs(apart) - self.params["epsilon"], 0.0)
        else:
            t = np.where(label == (np.arange(len(scores)) if len(scores) > 1 else 1), 1.0, -1.0)
            loss = np.maximum(1.0 - t * scores, 0.0)
        square = float(x @ x)
        tau = np.minimum(C, loss / square) if self.params["variant"] == "PA-I" else loss / (square + 0.5 / C)
        self.W = np.clip(self.W + np.outer(tau * t, x), -WEIGHT_MAX, WEIGHT_MAX)

    def info(self) -> Header:
        """Rows learned."""
        return {"rows": int(self.rows[0])}


def _bounded_with_bias(x: Floats) -> Floats:
    """The row with its constant column, scaled to at most 1e75."""
    row = np.append(x, 1.0)
    top = float(np.abs(row).max())
    return row if top <= ROW_MAX else row * (ROW_MAX / top)


_C = Param("aggressiveness", "number", 0.1, "C: how far one row may move the weights.", ge=1e-9, le=1e9)
_EPSILON = Param("epsilon", "number", 0.1, "Errors of a number up to here cost nothing.", ge=0.0, le=1e9)
_VARIANT = Param("variant", "choice", "PA-I", "How C limits a step: cut, or squared loss.", choices=("PA-I", "PA-II"))

ALGORITHMS = (
    Algorithm(
        id="passive_aggressive",
        tasks=("classification", "regression"),
        summary="Changes its weights as little as possible, and only when a row was not right by a margin.",
        use_when="Its rows are separable; measure it with tests.benchmarks.auto before saying more.",
        paper="Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms, JMLR 7, 2006",
        equation="w ← argmin |v − w|² / 2 + C ℓ(v; x, y) over v",
        params=(_C, _EPSILON, _VARIANT, SCALING),
        learner="tests.core.learners.passive_aggressive:PassiveAggressive",
    ),
)
