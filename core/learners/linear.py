"""What linear learners share: weight columns that grow with the classes, and a state that is saved and checked."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from core.contract import Floats, Ints, Spec, Weights
from core.learners.algorithm import CLASS_BOUND, Listed
from core.learners.classes import OPPOSITE, column_count, linear_model, with_bias_place, with_class
from core.state.layout import Counts, Holder


class LinearLearner(Holder, Listed):
    """All of a linear learner but ``predict``, ``learn`` and ``info``.

    A subclass declares its arrays in ``layout``, whose sizes are "columns" and "D": d, plus one where there is a bias
    column (the last one).

    Attributes:
        spec: what it is built from.
        W: (columns, D) weights, or of the sizes that a subclass says.
        classes: classes seen, 0 for regression.
    """

    object_bytes: ClassVar[int] = 1000
    """Memory of the objects around the arrays, measured with 10 000 models in one process."""
    first_two: ClassVar[tuple[float, float]] = OPPOSITE
    """See ``core.learners.classes``."""
    further_columns: ClassVar[int] = 0
    """Columns of a classifier that are no class's own."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.regression, self.classes = spec, spec.task == "regression", 0
        self.W = np.zeros(tuple(self.sizes(spec, 0).values()))

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        columns = 1 if spec.task == "regression" else column_count(classes) + cls.further_columns
        return {"columns": columns, "D": spec.dimension + bool(spec.params.get("bias", True))}

    def add_class(self) -> None:
        """A new class starts at zero."""
        self.classes += 1
        self.W = with_class(self.W, self.classes, np.zeros((1, self.W.shape[1])), self.first_two)

    extensible: ClassVar[bool] = True

    def extend(self, other: Self, places: Ints) -> None:
        """Go on for a learner of fewer columns; see ``core.contract.Extensible``."""
        self.layout.extend(self, other, with_bias_place(places, self.spec.dimension, self.W.shape[-1]))
        self.classes = other.classes

    def weights(self) -> Weights | None:
        """One row per class seen, or one for regression."""
        own = self.mean_columns()[: column_count(self.classes)]
        return linear_model(own, self.spec.dimension, None if self.regression else self.classes, self.first_two)

    def mean_columns(self) -> Floats:
        """The weight columns (columns, D) of the model in use."""
        return self.W

    def _counts(self) -> Counts:
        return {"classes": 0 if self.regression else CLASS_BOUND}

    def _sizes(self, found: Counts) -> Counts:
        return self.sizes(self.spec, found["classes"])


def as_views(holder: object, shared: Sequence[str], of_members: Sequence[str]) -> Floats:
    """All numbers of a holder in one array, of which its arrays become views: a kernel takes one sooner than many.

    Args:
        holder: what the arrays are attributes of. One that is assigned later on is no part of the whole any more.
        shared: names of arrays that come first, one behind another.
        of_members: names of arrays (K, ...); what they have of the first member follows, then what of the next one.
    """
    arrays = {name: getattr(holder, name) for name in (*shared, *of_members)}
    begin, ends = sum(arrays[name].size for name in shared), np.cumsum([arrays[name].size for name in shared])
    whole = np.empty(sum(array.size for array in arrays.values()))
    parts = np.split(whole[:begin], ends[:-1])
    members = whole[begin:].reshape(len(arrays[of_members[0]]), -1)
    parts += np.split(members, np.cumsum([arrays[name][0].size for name in of_members])[:-1], axis=1)
    for (name, array), part in zip(arrays.items(), parts, strict=True):
        view = part.reshape(array.shape)
        view[...] = array
        setattr(holder, name, view)
    return whole
