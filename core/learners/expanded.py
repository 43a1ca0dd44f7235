"""A linear learner on the columns of a row and random Fourier features of them (core.numerics.random_features).

The features are a function of the seed, so the state is that of the learner alone. Its weights are none of the row's
columns, and there are none to show; nor can it go on with further columns, for which nothing was drawn.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from core.contract import Floats, Header, Learner, Prediction, Spec, chunks, in_chunks
from core.learners.parameters import FEATURE_OBJECT_BYTES
from core.numerics.random_features import RandomFeatures

CHUNK_ROWS = 1024
"""Rows whose features are held at once; chunks end at absolute row numbers, as the learners' own blocks do."""


class Linear(Learner, Protocol):
    """What learns columns and features."""

    rows: int
    """Rows learned."""

    def forget(self) -> None:
        """See ``core.contract.Forgetful``."""


class Expanded:
    """The learner behind every algorithm with R ``random_features`` above 0: that of d + R columns, as given."""

    def __init__(self, spec: Spec, learner: Linear) -> None:
        self._features = RandomFeatures(spec.seed, spec.dimension, spec.params["random_features"])
        self.learner = learner

    def add_class(self) -> None:
        """One more class."""
        self.learner.add_class()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        parts = chunks(0, CHUNK_ROWS, len(X))
        return in_chunks(lambda part: self.learner.predict(self._features.expand(part)), parts, X)

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``."""
        return in_chunks(self._learn, chunks(self.learner.rows, CHUNK_ROWS, len(X)), X, y, discounts, weights)

    def _learn(self, X: Floats, *given: Any) -> Prediction:
        return self.learner.learn(self._features.expand(X), *given)

    def forget(self) -> None:
        """Let the next rows outweigh the past."""
        self.learner.forget()

    def weights(self) -> None:
        """None: what is learned is not linear in the row's columns."""
        return

    def info(self) -> Header:
        """That of the learner."""
        return self.learner.info()

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds, the draws included."""
        return self.learner.nbytes + self._features.nbytes + FEATURE_OBJECT_BYTES

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state, which is the learner's."""
        return self.learner.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``; see ``core.contract.Learner``."""
        self.learner.load_arrays(arrays, header)
