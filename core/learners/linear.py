"""What linear learners share: weight columns that grow with the classes, and a state that is saved and checked."""

from typing import ClassVar, Self

import numpy as np

from core.contract import Ints, Spec, Weights
from core.learners.algorithm import CLASS_BOUND
from core.learners.classes import OPPOSITE, column_count, linear_model, with_bias_place, with_class
from core.state.layout import Counts, Holder


class LinearLearner(Holder):
    """All of a linear learner but ``predict``, ``learn`` and ``info``.

    A subclass declares its arrays in ``layout``, whose sizes are "columns" and "D": d, plus one where there is a bias
    column (the last one).

    Attributes:
        W: (columns, D) weights.
        classes: classes seen, 0 for regression.
    """

    object_bytes: ClassVar[int] = 1000
    """Memory of the objects around the arrays, measured with 10 000 models in one process."""
    first_two: ClassVar[tuple[float, float]] = OPPOSITE
    """See ``core.learners.classes``."""
    further_columns: ClassVar[int] = 0
    """Columns of a classifier that are no class's own."""

    def __init__(self, spec: Spec) -> None:
        self.regression, self.dimension, self.classes = spec.task == "regression", spec.dimension, 0
        self.W = np.zeros(tuple(self.sizes(spec, 0).values()))

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        return {
            "columns": cls._columns(spec.task == "regression", classes),
            "D": spec.dimension + bool(spec.params.get("bias", True)),
        }

    @classmethod
    def _columns(cls, regression: bool, classes: int) -> int:
        return 1 if regression else column_count(classes) + cls.further_columns

    def add_class(self) -> None:
        """A new class starts at zero."""
        self.classes += 1
        self.W = with_class(self.W, self.classes, np.zeros((1, self.W.shape[1])), self.first_two)

    extensible: ClassVar[bool] = True

    def extend(self, other: Self, places: Ints) -> None:
        """Go on for a learner of fewer columns; see ``core.contract.Extensible``."""
        self.layout.extend(self, other, with_bias_place(places, self.dimension, self.W.shape[1]))
        self.classes = other.classes

    def weights(self) -> Weights:
        """One row per class seen, or one for regression."""
        own = self.W[: column_count(self.classes)]
        return linear_model(own, self.dimension, None if self.regression else self.classes, self.first_two)

    def _counts(self) -> Counts:
        return {"classes": 0 if self.regression else CLASS_BOUND}

    def _sizes(self, found: Counts) -> Counts:
        return {"columns": self._columns(self.regression, found["classes"]), "D": self.W.shape[1]}
