"""The boosted trees of `auto`, compared with a plain recursion over rows and cuts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Spec
from core.learners.auto.experts import BOOSTING
from core.learners.boosting.learner import FIRST_ROWS, Boosting
from core.numerics.rng import GAMMA, mix, mixed_seed
from tests.core.learners.streams import assert_same, state

RNG = np.random.default_rng(5)
N, D = 350, 3
X = RNG.normal(size=(N, D))
X[::9, 2] = 1.0  # many rows share this number
SCORE = X[:, 0] + np.sign(X[:, 1] * X[:, 2]) + 0.3 * RNG.normal(size=N)
SMALL = {"trees": 5, "rows": 150, "period": 16}


def labels(classes):
    """Labels of the rows; 0 classes means numbers."""
    return SCORE * 40 + 7 if not classes else np.clip(np.floor(SCORE + classes / 2), 0, classes - 1).astype(np.int64)


def learner(classes, dimension=D, seed=11, **params):
    """A learner without any rows."""
    task = "classification" if classes is not None else "regression"
    made = Boosting(Spec(task, dimension, BOOSTING.complete(SMALL | params), seed=seed))
    for _ in range(classes or 0):
        made.add_class()
    return made


class Oracle:
    """The equations taken literally, with trees that are functions of a row."""

    def __init__(self, classes, trees=5, rows=150, period=16, seed=11):
        self.C, self.T, self.W, self.B, self.seed = classes, trees, rows, period, seed
        self.K = classes if classes > 2 else 1
        self.rate = 0.1 if classes else 0.2
        self.bias, self.trees, self.kept, self.edges = np.zeros(self.K), [], [], None

    def score(self, x):
        return self.bias + sum(tree(x) for tree in self.trees)

    def told(self, f):
        """The predicted probabilities or number."""
        if not self.C:
            return f
        if self.K == 1:
            p = 1 / (1 + np.exp(-f[0]))
            return np.array([1 - p, p])
        p = np.exp(f - f.max())
        return p / p.sum()

    def slopes(self):
        if not self.C:
            g = np.array([f - y for _, y, f in self.kept])
            some = min(len(g), 64)
            widest = 4 * np.sort(np.abs(g[:: len(g) // some][:some, 0]))[9 * some // 10]
            return np.clip(g, -widest, widest), np.ones_like(g)
        p = np.array([self.told(f) for _, _, f in self.kept])
        aims = np.eye(self.C)[[y for _, y, _ in self.kept]]
        g, h = p - aims, np.maximum(p * (1 - p), 1e-6)
        return (g[:, 1:], h[:, 1:]) if self.K == 1 else (g, h)

    def learn(self, x, y, row):
        """Predict one row, then learn it."""
        f = self.score(x)
        self.kept[row % self.W : row % self.W + 1] = [(x, y, f)]
        if not self.C and row < self.B:
            self.bias = np.array([np.mean([label for _, label, _ in self.kept])])
        if (row + 1) % self.B == 0:
            self.replace(row // self.B)
        return self.told(f)

    def replace(self, number):
        own = int(mix(np.uint64(int(mixed_seed(self.seed)) ^ number)))

        def draw(place):
            return (int(mix(np.uint64((own + place * int(GAMMA)) % 2**64))) >> 11) * 2.0**-53

        rows = np.array([x for x, _, _ in self.kept])
        if number < 8 or number % 8 == 0:
            drawn = rows[[int(draw(2 + b) * len(rows)) for b in range(63)]]
            self.edges = [np.unique(drawn[:, j]) for j in range(rows.shape[1])]
        if number >= self.T:
            gone = self.trees.pop(0)
            self.kept = [(x, y, f - gone(x)) for x, y, f in self.kept]
        g, h = self.slopes()
        step = -self.rate * g.sum(axis=0) / (h.sum(axis=0) + 1)
        self.bias = self.bias + step
        g = g + h * step
        cumulated = np.cumsum((g**2).sum(axis=0))
        k = min(int(np.searchsorted(cumulated, draw(1) * cumulated[-1], side="right")), self.K - 1)
        tree = self.grow(rows, g, h, k, np.arange(len(rows)), 0)
        self.trees.append(tree)
        self.kept = [(x, y, f + step + tree(x)) for x, y, f in self.kept]

    def grow(self, rows, g, h, k, there, depth):
        leaf = -self.rate * g[there].sum(axis=0) / (h[there].sum(axis=0) + 1)

        def value(side):
            return g[side, k].sum() ** 2 / (h[side, k].sum() + 1)

        best, found = value(there) * (1 + 1e-9), None
        for j in range(rows.shape[1]) if depth < 6 else ():
            codes = np.searchsorted(self.edges[j], rows[there, j])
            for at in np.unique(codes[codes < len(self.edges[j])]):
                left, right = there[codes <= at], there[codes > at]
                if min(h[left, k].sum(), h[right, k].sum()) >= 1 and value(left) + value(right) > best:
                    best, found = (value(left) + value(right)) * (1 + 1e-9), (j, self.edges[j][at], left, right)
        if found is None:
            return lambda _: leaf
        column, cut, left, right = found
        low, high = (self.grow(rows, g, h, k, side, depth + 1) for side in (left, right))
        return lambda x: high(x) if x[column] > cut else low(x)


@pytest.mark.parametrize("classes", [0, 2, 4])
def test_it_follows_its_equations(classes):
    """With full rings and rows that are no longer kept; in one block and in several."""
    y = labels(classes)
    whole, cut, oracle = learner(classes or None), learner(classes or None), Oracle(classes)
    told = whole.learn(X, y)
    expected = np.array([oracle.learn(x, label, i) for i, (x, label) in enumerate(zip(X, y.tolist(), strict=True))])
    found = told.value[:, None] if told.probabilities is None else told.probabilities
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    if not classes:  # the deviation: the root of the mean squared error of all earlier rows
        squares = np.cumsum((told.value - y) ** 2) / np.arange(1, N + 1)
        assert_allclose(told.std[1:], np.sqrt(squares[:-1]), rtol=1e-9)
    assert_same([told], [cut.learn(X[at : at + 23], y[at : at + 23]) for at in range(0, N, 23)])
    assert state(whole) == state(cut)
    assert whole.info() == {"rows": N, "trees": 5}


@pytest.mark.parametrize("first", [1, 2, 3])
def test_later_classes_get_an_output_of_their_own(first):
    """However many classes came first, their ratios stay; the new one is unlikely, then likely."""
    made, y = learner(first), labels(first)
    made.learn(X[:100], y[:100])
    before = made.predict(X[:50]).probabilities
    made.add_class()
    after = made.predict(X[:50]).probabilities
    if first > 1:
        assert_allclose(after[:, :first] / after[:, :first].sum(axis=1)[:, None], before, rtol=1e-9)
        assert (after[:, first] < 0.2).all()
    made.learn(X[:150], np.full(150, first))
    assert made.predict(X[:50]).probabilities[:, first].mean() > 0.5


def test_room_grows_with_the_rows():
    """An idle learner is small but counts as a full one; blocks across the growth are learned whole."""
    few = learner(2, rows=200)
    assert len(few.held) == FIRST_ROWS
    idle = few.nbytes
    few.learn(X[:70], labels(2)[:70])
    assert len(few.held) == len(few.codes) == 128
    few.learn(X, labels(2))
    assert len(few.held) == 200
    assert idle == few.nbytes == few.layout.held_bytes(few) + few.codes.nbytes + few.object_bytes


def test_a_wild_label_moves_little():
    """Residuals are clipped at four times their ninth decile."""
    y, plain, wild = labels(0), learner(None), learner(None)
    other = y.copy()
    other[300] = 1e9
    apart = np.abs(plain.learn(X, y).value - wild.learn(X, other).value)[301:]
    assert apart.max() < np.ptp(y)


def test_it_forgets_and_continues_with_further_columns():
    """After forgetting it knows nothing; further columns count as 0 for earlier rows."""
    few, more = learner(3), learner(0, dimension=5)
    few.learn(X, labels(3))
    more.extend(few, np.array([0, 2, 4]))
    wide = np.zeros((N, 5))
    wide[:, [0, 2, 4]] = X
    assert_array_equal(few.predict(X).probabilities, more.predict(wide).probabilities)
    wide[:, 1] = labels(3)
    for _ in range(3):  # it learns from the further column
        right = [(own.learn(rows, labels(3)).value == labels(3)).mean() for own, rows in ((few, X), (more, wide))]
    assert right[1] > 0.95 > right[0]
    few.forget()
    assert_allclose(few.predict(X).probabilities, 1 / 3)
    assert few.info() == {"rows": 0, "trees": 0}
