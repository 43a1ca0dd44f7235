"""What all learners share: their information for the catalogue, and the frame around their compiled loops."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats, Header, Ints, Prediction, Spec, Weights
from core.learners.posterior import View
from core.state.layout import Counts, Holder

CLASS_BOUND = 100  # default of the largest number of classes of an algorithm
NONE_GIVEN = np.empty(0)  # discounts or weights of rows without any: the default discount, and every row counts once
NO_VALUE = np.empty(0, dtype=np.int64)
KEPT_ROWS = 10_000  # most rows predicted together of which tracked ones keep what experts predict, which takes memory
NONE_TOLD = np.empty((0, 0))  # nothing is known of the moment when rows were predicted
_NUMBER_COST = 6.0


class RowLearner(Holder):
    """A learner whose subclasses write predictions into arrays, with compiled code."""

    deviates: ClassVar[bool] = False
    """Whether regressions give predictive deviations."""

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout; by default it has no arrays."""
        del spec, classes
        return {}

    @classmethod
    def state_bytes(cls, spec: Spec, classes: int) -> int:
        """Bytes of memory that a state takes."""
        return cls.layout.bytes(**cls.sizes(spec, classes)) + cls.object_bytes

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """Approximate floating-point operations of learning one row: a few per number in the state."""
        return _NUMBER_COST * cls.state_bytes(spec, classes) / 8

    @classmethod
    def row_exact(cls, spec: Spec) -> bool:
        """Whether a block gives the same bits as its rows, however it is cut; otherwise equal up to round-off."""
        del spec
        return True

    def __init__(self, spec: Spec) -> None:
        # ``classes`` counts the classes seen; 0 for regression.
        self.spec, self.regression, self.classes = spec, spec.task == "regression", 0
        self.counts = {"classes": 0 if self.regression else CLASS_BOUND}

    def add_class(self) -> None:
        """Add a class; by default nothing else in the state changes."""
        self.classes += 1

    def run_rows(
        self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats
    ) -> Floats | None:
        """Predict n rows; if they have labels, learn each row after its prediction. Returns ``Prediction.experts``.

        Args:
            X: (n, d) rows.
            y: (n,) numbers, or class indices as floats; ``NONE_GIVEN`` to learn nothing and keep the state unchanged.
            discounts: (n,), or ``NONE_GIVEN``.
            weights: likewise.
            value: (n,) predicted classes, written; (0,) for regression.
            out: (n, K) class probabilities, K >= 1, written; for regression (2, n) numbers and deviations.
        """
        raise NotImplementedError

    def weights(self) -> Weights | None:
        """See ``core.contract.Learner``; by default there is no linear model."""
        return None

    def posterior(self, view: View) -> Header:
        """See ``core.contract.Learner``; by default the same as ``info``."""
        del view
        return self.info()

    def info(self) -> Header:
        """See ``core.contract.Learner``."""
        raise NotImplementedError

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        n = X.shape[0]
        if self.regression:
            out = np.empty((2, n))
            told = self.run_rows(X, NONE_GIVEN, NONE_GIVEN, NONE_GIVEN, NO_VALUE, out)
            return Prediction(out[0], None, out[1] if self.deviates else None, told)
        value, out = np.empty(n, np.int64), np.empty((n, self.classes))
        if not self.classes:
            value.fill(-1)
            return Prediction(value, out)
        return Prediction(value, out, None, self.run_rows(X, NONE_GIVEN, NONE_GIVEN, NONE_GIVEN, value, out))

    def learn(
        self,
        X: Floats,
        y: NDArray[Any],
        discounts: Floats | None = None,
        weights: Floats | None = None,
        past: Floats | None = None,
    ) -> Prediction:
        """Predict, then learn X (n, d), y (n,); see ``core.contract.Learner``.

        ``past`` (n, 1 + A), or (n, 1): for algorithms with ``row_pasts``, the last label when tracked rows were
        predicted, and what ``returned_past`` gives.
        """
        n = X.shape[0]
        more: Any = () if past is None else (past,)
        if discounts is None:
            discounts = NONE_GIVEN
        if weights is None:
            weights = NONE_GIVEN
        if self.regression:
            out, numbers = np.empty((2, n)), np.ascontiguousarray(y, dtype=np.float64)
            self.run_rows(X, numbers, discounts, weights, NO_VALUE, out, *more)
            return Prediction(out[0], None, out[1] if self.deviates else None)
        value, out = np.empty(n, np.int64), np.empty((n, self.classes))
        self.run_rows(X, y.astype(np.float64), discounts, weights, value, out, *more)
        return Prediction(value, out)

    def _sizes(self, found: Counts) -> Counts:
        return self.sizes(self.spec, found["classes"])
