"""A linear learner on the columns of a row and random Fourier features of them (core.numerics.random_features).

The features are a function of the seed, so only the learner's state is saved. There are no weights to show, because
they do not belong to the row's columns, and additional columns are not possible, because they would need new draws.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from numpy.typing import NDArray

from core.contract import Floats, Header, Learner, Prediction, Spec, chunks, in_chunks
from core.learners.learner import KEPT_ROWS
from core.learners.parameters import FEATURE_OBJECT_BYTES
from core.learners.posterior import View, random_names
from core.numerics.random_features import RandomFeatures

CHUNK_ROWS = 1024
"""Rows whose features are in memory at once; chunks end at absolute row numbers, as the learners' own blocks do."""


class Linear(Learner, Protocol):
    """The learner of the columns and features."""

    rows: int
    """Rows learned."""

    def forget(self) -> None:
        """See ``core.contract.Forgetful``."""


class Expanded:
    """The learner behind every algorithm with R > 0 ``random_features``: wraps a learner of d + R columns."""

    def __init__(self, spec: Spec, learner: Linear) -> None:
        self._features = RandomFeatures(spec.seed, spec.dimension, spec.params["random_features"])
        self.learner = learner

    def add_class(self) -> None:
        """Add a class."""
        self.learner.add_class()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        predict = partial(self._predict, keep=len(X) <= KEPT_ROWS)
        return in_chunks(predict, chunks(0, CHUNK_ROWS, len(X)), X)

    def _predict(self, X: Floats, keep: bool) -> Prediction:
        found = self.learner.predict(self._features.expand(X))
        if not keep:
            found.experts = None
        return found

    def learn(
        self,
        X: Floats,
        y: NDArray[Any],
        discounts: Floats | None = None,
        weights: Floats | None = None,
        past: Floats | None = None,
    ) -> Prediction:
        """Predict, then learn X (n, d), y (n,); see ``RowLearner``."""
        return in_chunks(self._learn, chunks(self.learner.rows, CHUNK_ROWS, len(X)), X, y, discounts, weights, past)

    def _learn(self, X: Floats, *given: Any) -> Prediction:
        return self.learner.learn(self._features.expand(X), *given)

    def forget(self) -> None:
        """Let the next rows outweigh the past."""
        self.learner.forget()

    def weights(self) -> None:
        """None: the model is not linear in the row's columns."""
        return

    def posterior(self, view: View) -> Header:
        """The learner's posterior, with the random features after the row's columns."""
        return self.learner.posterior(view.widened(random_names(len(self._features.phases))))

    def info(self) -> Header:
        """The learner's report."""
        return self.learner.info()

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds, including the draws."""
        return self.learner.nbytes + self._features.nbytes + FEATURE_OBJECT_BYTES

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The learner's state."""
        return self.learner.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Load a state from ``to_arrays``; see ``core.contract.Learner``."""
        self.learner.load_arrays(arrays, header)
