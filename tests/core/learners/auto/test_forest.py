"""The forest of `auto`, against a plain recursion over nodes that are objects."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.contract import Spec
from core.learners.forest.kernels import BELOW, COLUMN, COUNT, LEFT, OWN, RIGHT, TIME
from core.learners.forest.learner import FIRST_NODES, Forest
from core.numerics.rng import GAMMA, mix, mixed_seed
from tests.core.learners.streams import state

RNG = np.random.default_rng(5)
N, D, C = 400, 3, 3
X = RNG.normal(size=(N, D))
X[::9] = X[7]  # rows at one place
Y = (np.floor(X[:, 0] * 2) + np.floor(X[:, 1] * 2)).astype(np.int64) % C
Y[:60] = 0  # of one class for long


def learner(trees=3, nodes=64, dimension=D, classes=C, seed=11):
    """One that has learned nothing."""
    made = Forest(Spec("classification", dimension, {"trees": trees, "nodes": nodes}, seed=seed))
    for _ in range(classes):
        made.add_class()
    return made


class Node:
    """A node as the equations have it."""

    def __init__(self, time, x, label):
        self.time, self.low, self.high, self.seen = time, x.copy(), x.copy(), np.bincount([label], minlength=C)
        self.own, self.children, self.column, self.cut = 0.0, None, None, None

    @property
    def size(self):
        return 1 if self.children is None else 1 + self.children[0].size + self.children[1].size

    @property
    def below(self):
        """W_v."""
        if self.children is None:
            return self.own
        return np.logaddexp(self.own, self.children[0].below + self.children[1].below) - math.log(2.0)

    def answer(self, x):
        """The p of the equations."""
        own = (self.seen + 1 / C) / (self.seen.sum() + 1)
        if self.children is None:
            return own
        share = math.exp(self.own - math.log(2.0) - self.below)
        return share * own + (1 - share) * self.children[int(x[self.column] > self.cut)].answer(x)

    def learn(self, x, label, draw, room):
        """One row; ``draw()`` is the next number of the row and the tree, ``room`` the nodes that may still be made."""
        apart = np.maximum(self.low - x, 0) + np.maximum(x - self.high, 0)
        cuts, split = room >= 2 and self.seen[label] < self.seen.sum(), False
        if cuts and not apart.any() and self.children is None and self.seen.max() == self.seen.sum():
            self.low = self.high = (self.low + self.high) / 2
            apart = abs(x - self.low)
        if cuts and apart.any():
            time = self.time - math.log(1 - draw()) / apart.sum()
            split = self.children is None or time < self.children[0].time
        if split:
            column = int(np.searchsorted(np.cumsum(apart), draw() * apart.sum(), side="right"))
            right = x[column] > self.high[column]
            start, end = (self.high[column], x[column]) if right else (x[column], self.low[column])
            old = Node.__new__(Node)
            old.__dict__ |= self.__dict__ | {"time": time, "seen": self.seen.copy()}
            new = Node(time, x, label)
            self.column, self.cut = column, start + draw() * (end - start)
            self.children = (old, new) if right else (new, old)
        self.own += math.log((self.seen[label] + 1 / C) / (self.seen.sum() + 1))
        self.seen[label] += 1
        self.low, self.high = np.minimum(self.low, x), np.maximum(self.high, x)
        if self.children is not None and not split:
            self.children[int(x[self.column] > self.cut)].learn(x, label, draw, room)


def oracle(trees, nodes, seed=11):
    """Probabilities of every row, and the nodes at the end."""
    roots, told, inside = [None] * trees, [], X / np.sqrt(2 + X * X)
    for i, (x, label) in enumerate(zip(inside, Y, strict=True)):
        told.append(np.mean([np.full(C, 1 / C) if root is None else root.answer(x) for root in roots], axis=0))
        for t, root in enumerate(roots):
            if root is None:
                roots[t] = Node(0.0, x, label)
            else:
                root.learn(x, label, draws(seed, i, t), nodes - root.size)
    return np.array(told), sum(root.size for root in roots)


def draws(seed, row, tree):
    """The numbers of a row and a tree, one after the other."""
    own, count = int(mix(np.uint64(int(mix(np.uint64(int(mixed_seed(seed)) ^ row))) ^ (tree + 1)))), 0

    def draw():
        nonlocal count
        count += 1
        return (int(mix(np.uint64((own + count * int(GAMMA)) % 2**64))) >> 11) * 2.0**-53

    return draw


@pytest.mark.parametrize("nodes", [31, 1024])
def test_it_is_what_the_equations_say(nodes):
    """With trees that are soon full, and with room for all; in blocks and one by one; a prediction changes nothing."""
    whole, rows = learner(nodes=nodes), learner(nodes=nodes)
    told = whole.learn(X, Y).probabilities
    expected, size = oracle(3, nodes)
    assert_allclose(told, expected, rtol=1e-9, atol=1e-12)
    assert size == whole.info()["nodes"] <= 3 * nodes
    for i in range(N):
        before = rows.predict(X[i : i + 1]).probabilities
        assert np.array_equal(before, rows.learn(X[i : i + 1], Y[i : i + 1]).probabilities)
        assert np.array_equal(before[0], told[i])
    assert state(whole) == state(rows)


def test_a_region_that_was_of_one_class_is_cut_later():
    """Six hundred rows of one class, then two halves: the boxes that shrink make it possible."""
    drawn = np.random.default_rng(2).uniform(-1, 1, (1600, 2))
    y = np.where(np.arange(1600) < 600, 0, drawn[:, 0] > 0).astype(np.int64)
    made = learner(trees=5, nodes=512, dimension=2, classes=2)
    told = made.learn(drawn, y).value
    assert (told[1200:] == y[1200:]).mean() > 0.9


def test_room_grows_with_the_nodes():
    """An idle one is small, but counts as what a full one takes."""
    few = learner(nodes=200)
    assert few.nodes.shape[1] == FIRST_NODES
    few.learn(X, np.arange(N) % C)
    assert 600 - 6 < few.info()["nodes"] <= 600
    assert few.nbytes == few.layout.held_bytes(few) + few.object_bytes == learner(nodes=200).nbytes


def test_wild_values_are_held():
    """Any finite number; nothing but finite numbers comes out, and the state loads."""
    made, again = learner(), learner(classes=0)
    wild = np.array([[1e308, -1e308, 0.0], [5e-324, 1e6, -1e6], [5e-324, 1e6, 1e-300]] * 20)
    assert np.isfinite(made.learn(wild, np.arange(60) % C).probabilities).all()
    again.load_arrays(*made.to_arrays())
    assert state(made) == state(again)


def test_it_forgets_and_continues_with_further_columns():
    """After forgetting it knows nothing; further columns were 0."""
    few, more = learner(), learner(dimension=5, classes=0)
    few.learn(X, Y)
    more.extend(few, np.array([0, 2, 4]))
    wide = np.zeros((N, 5))
    wide[:, [0, 2, 4]] = X
    assert np.array_equal(few.predict(X).probabilities, more.predict(wide).probabilities)
    assert np.isfinite(more.learn(wide + 1, Y).probabilities).all()
    few.forget()
    assert (few.predict(X).probabilities == 1 / C).all()
    assert few.info() == {"rows": N, "nodes": 0}


@pytest.mark.parametrize(
    ("array", "place", "value"),
    [("nodes", LEFT, 3.0), ("nodes", RIGHT, 0.0), ("nodes", COLUMN, D), ("nodes", COUNT, 5.0), ("seen", 0, 9e9),
     ("nodes", TIME, -1.0), ("nodes", OWN, 1.0), ("nodes", BELOW, 1e9), ("low", 0, 1.0)],
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused(array, place, value):
    """Children that others have, columns and rows that are not there, weights above 0, boxes inside out."""
    made = learner()
    made.learn(X, Y)
    arrays, header = made.to_arrays()
    arrays[array][1, 0, place] = value
    with pytest.raises(ValueError, match=array.replace("low", "nodes")):
        learner(classes=0).load_arrays(arrays, header)


def test_used_nodes_must_be_there():
    """Neither more than have room, nor others than hold something."""
    made = learner()
    made.learn(X, Y)
    for used in (65.0, 3.0):
        arrays, header = made.to_arrays()
        arrays["used"][0] = used
        with pytest.raises(ValueError, match="nodes"):
            learner(classes=0).load_arrays(arrays, header)


@pytest.mark.parametrize("room", [0, 1, 63, 1025])
def test_room_is_neither_less_than_at_first_nor_too_much(room):
    """Without any, learning would never end."""
    arrays, header = learner().to_arrays()
    for name in ("nodes", "seen", "low", "high"):
        arrays[name] = np.zeros((3, room, arrays[name].shape[2]))
    with pytest.raises(ValueError, match="room"):
        learner(nodes=1024, classes=0).load_arrays(arrays, header)
