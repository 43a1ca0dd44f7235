"""A linear learner on the columns of a row and random Fourier features of them (core.numerics.random_features).

The features are a function of the seed, so the state is that of the learner alone. Its weights are none of the row's
columns, and there are none to show; nor can it go on with further columns, for which nothing was drawn.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from core.contract import Floats, Header, Learner, Prediction, Spec, joined
from core.learners.random_features import OBJECT_BYTES
from core.numerics.random_features import RandomFeatures

CHUNK_ROWS = 1024
"""Rows whose features are held at once; chunks end at absolute row numbers, as the learners' own blocks do."""


class Linear(Learner, Protocol):
    """What learns columns and features."""

    @property
    def rows(self) -> int:
        """Rows learned."""

    def forget(self) -> None:
        """See ``core.contract.Forgetful``."""


class Expanded:
    """The learner behind every algorithm with ``random_features`` above 0.

    Args:
        spec: of d columns, and R random features.
        learner: an empty one of d + R columns.

    Attributes:
        learner: as given.
    """

    def __init__(self, spec: Spec, learner: Linear) -> None:
        self._features = RandomFeatures(spec.seed, spec.dimension, spec.params["random_features"])
        self.learner = learner

    def add_class(self) -> None:
        """One more class."""
        self.learner.add_class()

    def predict(self, X: Floats) -> Prediction:
        """A-priori predictions for X (n, d); see ``core.contract.Learner``."""
        if X.shape[0] <= CHUNK_ROWS:
            return self.learner.predict(self._features.expand(X))
        return joined([self.predict(X[begin : begin + CHUNK_ROWS]) for begin in range(0, X.shape[0], CHUNK_ROWS)])

    def learn(
        self, X: Floats, y: NDArray[Any], discounts: Floats | None = None, weights: Floats | None = None
    ) -> Prediction:
        """Test, then train on X (n, d), y (n,); see ``core.contract.Learner``."""
        end = CHUNK_ROWS - self.learner.rows % CHUNK_ROWS
        if X.shape[0] <= end:
            return self.learner.learn(self._features.expand(X), y, discounts, weights)
        told, begin = [], 0
        while begin < X.shape[0]:
            part = slice(begin, end)
            own = [None if given is None else given[part] for given in (discounts, weights)]
            told.append(self.learner.learn(self._features.expand(X[part]), y[part], *own))
            begin, end = end, end + CHUNK_ROWS
        return joined(told)

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
        return self.learner.nbytes + self._features.nbytes + OBJECT_BYTES

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], Header]:
        """The state, which is the learner's."""
        return self.learner.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]], header: Header) -> None:
        """Take over a state of ``to_arrays``.

        Raises:
            ValueError: what no state of this spec can be; nothing has changed.
        """
        self.learner.load_arrays(arrays, header)
