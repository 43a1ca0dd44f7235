"""The learner of the boosted trees of `auto`; kernels.py has its equations."""

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from core.contract import Floats, Header, Ints, Spec
from core.learners.boosting.growing import EDGES, INNER, LEAVES, NOWHERE, encode
from core.learners.boosting.kernels import LABEL_MAX, SCORE_MAX, VALUE_MAX, learn_rows
from core.learners.learner import RowLearner
from core.learners.linear import column_count, with_class
from core.learners.posterior import View
from core.numerics.rng import mixed_seed
from core.numerics.rows import capacity, grown
from core.state.layout import NOT_NEGATIVE, WHOLE, Array, Counts, Layout

FIRST_ROWS = 64  # rows of the arrays at first: they double up to W
_UNLIKELY = -3.0  # the outputs of a class that has just appeared, once there are trees


class Boosting(RowLearner):
    """The learner of the trees; K = 1 output for up to two classes and for numbers, else one per class.

    State:
        held (w, d), labels (w,), scores (w, K)    the last rows, a ring of W once w = W, with their labels and f
        trees (T, INNER, 2)                        column and cut of every node; NOWHERE: not cut
        leaves (T, LEAVES, K), bias (K,)           v, b
        edges (d, EDGES)                           where columns may be cut, in order
        tally (2,)                                 rows learned since the last ``forget``, and R

    The codes of the rows, which follow from edges, are not saved.
    """

    layout: ClassVar = Layout(
        held=Array("rows", "D", within=VALUE_MAX),
        labels=Array("rows", within=LABEL_MAX),
        scores=Array("rows", "K", within=SCORE_MAX),
        trees=Array("trees", INNER, 2, places={0: WHOLE}),
        leaves=Array("trees", LEAVES, "K", within=SCORE_MAX),
        bias=Array("K", within=SCORE_MAX),
        edges=Array("D", EDGES),
        tally=Array(2, within=NOT_NEGATIVE, places={0: WHOLE}),
    )
    object_bytes: ClassVar = 1000
    deviates: ClassVar = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._most, self._seed = int(spec.params["rows"]), mixed_seed(spec.seed)
        self._period, self._rate = int(spec.params["period"]), float(spec.params["class_rate"])
        self._begin()

    def _begin(self) -> None:
        """Start without rows and trees."""
        room, T, d = capacity(0, self._most, FIRST_ROWS), int(self.spec.params["trees"]), self.spec.dimension
        K = column_count(self.classes)
        self.held, self.labels, self.scores = np.zeros((room, d)), np.zeros(room), np.zeros((room, K))
        self.codes, self.edges = np.zeros((room, d), dtype=np.uint8), np.full((d, EDGES), NOWHERE)
        self.trees, self.leaves = np.zeros((T, INNER, 2)), np.zeros((T, LEAVES, K))
        self.trees[..., 1] = NOWHERE
        self.bias, self.tally = np.zeros(K), np.zeros(2)

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout, once the ring is full."""
        return {name: spec.params[name] for name in ("rows", "trees")} | {
            "D": spec.dimension,
            "K": column_count(classes),
        }

    @classmethod
    def state_bytes(cls, spec: Spec, classes: int) -> int:
        """Bytes of memory that a state takes, including the codes."""
        return super().state_bytes(spec, classes) + int(spec.params["rows"]) * spec.dimension

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """A row's share of growing a tree, and a path through every tree."""
        params, d, K = spec.params, spec.dimension, column_count(classes)
        tree = params["rows"] * (8.0 * d + 30.0 * K + 60.0) + 10.0 * INNER * EDGES * d
        return float(tree / params["period"] + params["trees"] * (12.0 + K))

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds once the ring is full."""
        return self.state_bytes(self.spec, self.classes)

    def add_class(self) -> None:
        """Add a class; from the third on each has its own output."""
        self.classes += 1
        for name in ("scores", "leaves", "bias"):
            outputs = getattr(self, name).T
            outputs = with_class(outputs, self.classes, np.zeros((1, *outputs.shape[1:])), (-0.5, 0.5))
            setattr(self, name, np.ascontiguousarray(outputs.T))
        if self.classes > 2 and self.tally[0] >= self._period:
            self.bias[-1] = self.scores[:, -1] = _UNLIKELY

    def run_rows(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """See ``RowLearner``. Takes no discounts and no weights."""
        del discounts, weights
        if len(y) and (rows := int(self.tally[0]) + len(y)) > len(self.held):
            for name in ("held", "labels", "scores", "codes"):
                setattr(self, name, grown(getattr(self, name), rows, self._most, FIRST_ROWS))
        ring = self.held, self.labels, self.codes, self.edges, self.scores
        state = *ring, self.trees, self.leaves, self.bias, self.tally
        learn_rows(X, y, *state, self._most, self._period, self._rate, self._seed, self.regression, value, out)

    def forget(self) -> None:
        """Drop all rows and trees."""
        self._begin()

    def extend(self, other: Self, places: Ints) -> None:
        """Continue from a learner with fewer columns; see ``core.contract.Extensible``. New columns count as 0."""
        for name in ("labels", "scores", "trees", "leaves", "bias", "tally"):
            setattr(self, name, getattr(other, name).copy())
        self.classes = other.classes
        self.trees[..., 0] = places[other.trees[..., 0].astype(np.int64)]
        self.held = np.zeros((len(other.held), self.spec.dimension))
        self.held[:, places], self.edges[places] = other.held, other.edges
        self._loaded()

    def _loaded(self) -> None:
        """Recompute the codes of the rows."""
        self.codes = np.zeros(self.held.shape, dtype=np.uint8)
        encode(self.held, self.edges, self.codes, len(self.held))

    def posterior(self, view: View) -> Header:
        """Rows, trees, and how often the columns are cut."""
        cuts = np.bincount(self.trees[self.trees[..., 1] < NOWHERE][:, 0].astype(int), minlength=self.spec.dimension)
        return self.info() | {"cuts": {view.names[j]: int(cuts[j]) for j in view.wanted.tolist()}}

    def info(self) -> Header:
        """Rows, and the trees."""
        rows = int(self.tally[0])
        return {"rows": rows, "trees": min(rows // self._period, len(self.trees))}

    def _sizes(self, found: Counts) -> Counts:
        return {"trees": len(self.trees), "D": self.spec.dimension, "K": column_count(found["classes"])}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        if len(held["held"]) != capacity(int(held["tally"][0]), self._most, FIRST_ROWS):
            raise ValueError("held: its length does not match the number of rows")
        if (held["trees"][..., 0] >= self.spec.dimension).any():
            raise ValueError("trees: a column that does not exist")
        if (held["edges"][:, 1:] < held["edges"][:, :-1]).any():
            raise ValueError("edges: not in order")
        if not self.regression and not np.isin(held["labels"], np.arange(max(found["classes"], 1))).all():
            raise ValueError("labels: a class that does not exist")
