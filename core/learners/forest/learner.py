"""The learner of the forest of `auto`; kernels.py has its equations."""

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from core.contract import Floats, Header, Ints, Spec
from core.learners.forest.kernels import BELOW, COLUMN, COUNT, CUT, LEFT, OWN, RIGHT, SHARE, TIME, TIME_MAX, learn_rows
from core.learners.learner import NONE_GIVEN, RowLearner
from core.learners.posterior import View
from core.numerics.rng import mixed_seed
from core.state.layout import WHOLE, Array, Counts, Layout, Range

FIRST_NODES = 64
"""Nodes of the arrays at first: they double up to M."""


class Forest(RowLearner):
    """The learner of the trees.

    State:
        nodes (T, m, 9)             see TIME and the others; m nodes have room, ``used`` (T,) of them are there
        seen (T, m, C)              n_vc
        low, high (T, m, d)         the boxes
        tally                       rows learned
    """

    layout: ClassVar = Layout(
        {
            "nodes": Array(
                "trees",
                "nodes",
                9,
                places={
                    TIME: Range(0.0, TIME_MAX),
                    COLUMN: WHOLE,
                    CUT: Range(-1.0, 1.0),
                    LEFT: WHOLE,
                    RIGHT: WHOLE,
                    OWN: Range(-1e300, 0.0),
                    BELOW: Range(-1e300, 0.0),
                    SHARE: Range(0.0, 1.0),
                    COUNT: WHOLE,
                },
            ),
            "seen": Array("trees", "nodes", "C", within=WHOLE),
            "low": Array("trees", "nodes", "D", within=1.0),
            "high": Array("trees", "nodes", "D", within=1.0),
            "used": Array("trees", within=WHOLE),
            "tally": Array(1, within=WHOLE),
        }
    )
    object_bytes: ClassVar = 800
    extensible: ClassVar = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._trees, self._most = int(spec.params["trees"]), int(spec.params["nodes"])
        self._seed = mixed_seed(spec.seed)
        self.tally = np.zeros(1)
        self._begin()

    def _begin(self) -> None:
        """No tree has a node."""
        self.used, room = np.zeros(self._trees), (self._trees, min(FIRST_NODES, self._most))
        self.nodes, self.seen = np.zeros((*room, 9)), np.zeros((*room, self.classes))
        self.low, self.high = np.zeros((*room, self.spec.dimension)), np.zeros((*room, self.spec.dimension))

    @classmethod
    def sizes(cls, spec: Spec, classes: int) -> dict[str, int]:
        """The sizes of the layout, once all nodes are there."""
        return {"trees": spec.params["trees"], "nodes": spec.params["nodes"], "C": classes, "D": spec.dimension}

    @classmethod
    def row_cost(cls, spec: Spec, classes: int) -> float:
        """A path of some twelve nodes in every tree."""
        return 12.0 * int(spec.params["trees"]) * (6.0 * spec.dimension + 3.0 * max(classes, 1) + 120.0)

    @property
    def nbytes(self) -> int:
        """Bytes of memory the state holds once all nodes are there."""
        return self.state_bytes(self.spec, self.classes)

    def add_class(self) -> None:
        """One more class."""
        self.classes += 1
        self.seen = np.concatenate([self.seen, np.zeros((*self.seen.shape[:2], 1))], axis=2)

    def predict_into(self, X: Floats, value: Ints, out: Floats) -> None:
        """Predict rows."""
        self._run(X, NONE_GIVEN, value, out)

    def learn_into(self, X: Floats, y: Floats, discounts: Floats, weights: Floats, value: Ints, out: Floats) -> None:
        """Learn rows. Takes no discounts and no weights."""
        del discounts, weights
        done = self._run(X, y, value, out)
        while done < len(X):
            self._grow()
            done += self._run(X[done:], y[done:], value[done:], out[done:])

    def _run(self, X: Floats, y: Floats, value: Ints, out: Floats) -> int:
        state = self.nodes, self.seen, self.low, self.high, self.used
        done = learn_rows(X, y, *state, int(self.tally[0]), self._seed, self._most, value, out)
        self.tally += done if len(y) else 0
        return int(done)

    def _grow(self) -> None:
        """Make room for twice as many nodes."""
        more = min(self.nodes.shape[1], self._most - self.nodes.shape[1])
        for name in ("nodes", "seen", "low", "high"):
            held = getattr(self, name)
            setattr(self, name, np.concatenate([held, np.zeros((self._trees, more, held.shape[2]))], axis=1))

    def forget(self) -> None:
        """All trees begin again."""
        self._begin()

    def extend(self, other: Self, places: Ints) -> None:
        """Continue for a learner of fewer columns; see ``core.contract.Extensible``."""
        self.classes, self.tally, self.used = other.classes, other.tally.copy(), other.used.copy()
        self.nodes, self.seen = other.nodes.copy(), other.seen.copy()
        self.nodes[..., COLUMN] = places[other.nodes[..., COLUMN].astype(np.int64)]
        for name in ("low", "high"):
            held = np.zeros((*other.low.shape[:2], self.spec.dimension))
            held[..., places] = getattr(other, name)
            setattr(self, name, held)

    def weights(self) -> None:
        """None: there are none."""
        return

    def posterior(self, view: View) -> Header:
        """How many nodes the trees have."""
        del view
        return self.info()

    def info(self) -> Header:
        """Rows, and the nodes of all trees."""
        return {"rows": int(self.tally[0]), "nodes": int(self.used.sum())}

    def _sizes(self, found: Counts) -> Counts:
        return {"trees": self._trees, "C": found["classes"], "D": self.spec.dimension}

    def _check(self, held: Mapping[str, Floats], found: Counts) -> None:
        del found
        room, used = held["nodes"].shape[1], held["used"]
        if not min(FIRST_NODES, self._most) <= room <= self._most or (used > room).any():
            raise ValueError("nodes: room for as many as there never is")
        if (held["nodes"][..., COLUMN] >= self.spec.dimension).any() or (held["low"] > held["high"]).any():
            raise ValueError("nodes: a column that is not there, or a box that ends before it begins")
        for tree, seen, count in zip(held["nodes"], held["seen"], used.astype(int), strict=True):
            own = tree[:count]
            children = own[:, [LEFT, RIGHT]][own[:, LEFT] > 0.0]
            if not np.array_equal(np.sort(children, axis=None), np.arange(1, count)) or tree[count:].any():
                raise ValueError("nodes: each but the first must be the child of one node")
            if (own[:, COUNT] != seen[:count].sum(axis=1)).any() or (own[:, COUNT] < 1).any():
                raise ValueError("seen: other rows than the nodes have")
