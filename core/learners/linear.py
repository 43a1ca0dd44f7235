"""What linear learners share: weight columns that grow with the classes, saving and checking of the state.

Up to two classes share one column w, whose score is high for class 1 and low for class 0. The third class makes it two,
(a w, b w) with (a, b) = (-1, 1) or as the learner's loss requires, and appends its own column, as does every later
class. So from the third class on there is a column per class, and the order of the first two scores never changes.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from core.contract import Floats, Header, Ints, Spec, Weights
from core.learners.learner import RowLearner
from core.learners.posterior import View
from core.numerics.rows import eighths

OPPOSITE = (-1.0, 1.0)  # (a, b): the columns of two classes in terms of their common one


def column_count(classes: int) -> int:
    """Columns for a number of classes, 0 for regression."""
    return classes if classes > 2 else 1


def with_class(columns: Floats, classes: int, newcomer: Floats, first_two: tuple[float, float] = OPPOSITE) -> Floats:
    """The columns (m, ...) when the last of K ``classes`` has just appeared; unchanged if no column is added.

    ``newcomer``: (1, ...) its column; ``first_two``: (a, b).
    """
    if classes < 3:
        return columns
    if classes == 3:
        columns = np.concatenate([share * columns for share in first_two])
    return np.concatenate([columns, newcomer])


def linear_model(
    columns: Floats, dimension: int, classes: int | None, first_two: tuple[float, float] = OPPOSITE
) -> Weights:
    """Columns (m, d) or (m, d + 1), the bias last, as copies in the form of ``core.contract.Weights``.

    ``classes``: K, None for regression; ``first_two``: (a, b).
    """
    if classes is not None and classes < 3:
        columns = np.concatenate([share * columns for share in first_two])[:classes]
    bias = columns[:, dimension] if columns.shape[1] > dimension else np.zeros(len(columns))
    return Weights(columns[:, :dimension].copy(), bias.copy())


class LinearLearner(RowLearner):
    """The base of linear learners; a subclass adds the update and ``info``.

    It declares its arrays in ``layout``, whose sizes are "columns" and "D": d, plus one if there is a bias column (the
    last one).
    """

    object_bytes: ClassVar[int] = 1000
    """Memory of the objects around the arrays, in bytes, measured with 10 000 models in one process."""
    first_two: ClassVar[tuple[float, float]] = OPPOSITE
    """(a, b)."""
    further_columns: ClassVar[int] = 0
    """Columns of a classifier that belong to no class."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.W = np.zeros(tuple(self.sizes(spec, 0).values()))  # (columns, D) weights, or other sizes in a subclass

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout."""
        columns = 1 if spec.task == "regression" else column_count(classes) + cls.further_columns
        return {"columns": columns, "D": spec.dimension + bool(spec.params.get("bias", True))}

    def add_class(self) -> None:
        """A new class starts at zero."""
        self.classes += 1
        self.W = with_class(self.W, self.classes, np.zeros((1, self.W.shape[1])), self.first_two)

    def extend(self, other: Self, places: Ints) -> None:
        """Continue from a learner with fewer columns; see ``core.contract.Extensible``."""
        D = self.W.shape[-1]
        biased = np.append(places, D - 1) if self.spec.dimension < D else places  # the bias is the last column
        self.layout.extend(self, other, biased)
        self.classes = other.classes

    def weights(self) -> Weights | None:
        """One row per class seen, or one for regression."""
        own = self.mean_columns()[: column_count(self.classes)]
        return linear_model(own, self.spec.dimension, None if self.regression else self.classes, self.first_two)

    def posterior(self, view: View) -> Header:
        """The linear model; see ``core.learners.posterior``."""
        model = self.weights()
        return {} if model is None else view.linear(model)

    def mean_columns(self) -> Floats:
        """The weight columns (columns, D) of the current model."""
        return self.W


def as_views(holder: object, shared: Sequence[str], of_members: Sequence[str]) -> Floats:
    """Put all numbers of a holder into one array and make its arrays views: a kernel takes one array faster than many.

    An array assigned to the holder later is no longer part of it. The ``shared`` arrays come first, one after another;
    then, member by member, the parts of the arrays ``of_members`` (K, ...). Each of these parts starts at a multiple of
    8 numbers, where vector loads are fastest.
    """
    arrays = {name: getattr(holder, name) for name in (*shared, *of_members)}
    K, sizes = len(arrays[of_members[0]]), {name: array.size for name, array in arrays.items()}
    begins = np.cumsum([0, *(sizes[name] for name in shared)])
    places = np.cumsum([0, *(eighths(sizes[name] // K) for name in of_members)])
    first = eighths(int(begins[-1]))
    whole = np.zeros(first + K * int(places[-1]))
    members = whole[first:].reshape(K, -1)
    parts = [whole[begin : begin + sizes[name]] for name, begin in zip(shared, begins, strict=False)]
    parts += [members[:, at : at + sizes[name] // K] for name, at in zip(of_members, places, strict=False)]
    for (name, array), part in zip(arrays.items(), parts, strict=True):
        view = part.reshape(array.shape)
        view[...] = array
        setattr(holder, name, view)
    return whole
