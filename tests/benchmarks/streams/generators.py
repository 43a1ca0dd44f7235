"""Streams from a seed, rows (n, d) and labels (n,): those of section 7.2.1 of the VIGO paper, and further ones.

What the paper gives of its generators is kept; what it leaves open is chosen here and said so.

    sea           x uniform on [0, 10]^3, label 1 where x_1 + x_2 > theta; theta 8, then 7; no noise
    hyperplane    x uniform on [0, 1]^5, label 1 where w'x >= sum w / 2, which halves the cube; 10 % of the labels
                  flipped. With ``change``, the first two weights walk by that much a row, and turn back with
                  probability 0.1
    random_tree   x uniform on [0, 1]^10, three classes at the leaves of a tree of depth 5 that splits at random columns
                  and thresholds within the box that is left; from depth 3 on a node is a leaf with probability 0.15

Each has a gradual form, in which a row between the 10 001st and the 11 000th is of the second concept with a
probability that rises from 0 to 1, and an abrupt one, "-A", that goes back and forth every 10 000 rows: between two
trees; the hyperplane turns the label around.
"""

from collections.abc import Callable

import numpy as np

from core.contract import Floats, Ints

ROWS = 35_000
STAGE_ROWS = 10_000
DRIFT_BEGIN, DRIFT_END = 10_000, 11_000
THETAS = (8.0, 7.0)
LABEL_NOISE = 0.1
TURN = 0.1
FRAUD_SLOPE, FRAUD_OFFSET = 1.9, 5.65
"""What makes 1.7 % of the rows positive, ranked by w'x at an area under the ROC curve of .89."""
CLASSES, DEPTH, LEAF_DEPTH, LEAF_SHARE = 3, 5, 3, 0.15

Stream = tuple[Floats, Ints]
Concept = Callable[[Floats], Ints]
"""Labels of rows."""


def mixed(rng: np.random.Generator, X: Floats, first: Concept, second: Concept, abrupt: bool) -> Stream:
    """Rows with the labels of the first concept or the second: by turns, or with a share that rises."""
    rows = np.arange(len(X))
    share = (rows - DRIFT_BEGIN + 0.5) / (DRIFT_END - DRIFT_BEGIN)
    later = rows // STAGE_ROWS % 2 == 1 if abrupt else rng.random(len(X)) < share
    return X, np.where(later, second(X), first(X)).astype(np.int64)


def flipped(rng: np.random.Generator, y: Ints, share: float) -> Ints:
    """Two-class labels with a share of them turned around."""
    return np.where(rng.random(len(y)) < share, 1 - y, y)


def sea_of_four() -> Stream:
    """SEA as the papers on DFOP and ODM draw it: thresholds 7, 8, 9, 9.5 for 12 500 rows each, a tenth flipped."""
    rng = np.random.default_rng(0)
    X, b = rng.uniform(0.0, 10.0, (50_000, 3)), np.repeat((7.0, 8.0, 9.0, 9.5), 12_500)
    return X, ((X[:, 0] + X[:, 1] <= b) ^ (rng.random(len(X)) < LABEL_NOISE)).astype(np.int64)


def sea(seed: int = 0, rows: int = ROWS, abrupt: bool = False) -> Stream:
    """SEA, or SEA-A."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (rows, 3))
    both = X[:, 0] + X[:, 1]
    return mixed(rng, X, lambda _: both > THETAS[0], lambda _: both > THETAS[1], abrupt)


def walk(rng: np.random.Generator, w: Floats, rows: int, change: float) -> Floats:
    """Weights of every row (rows, d): the first two walk, each turning back now and then."""
    turns = rng.random((rows, 2)) < TURN
    directions = np.cumprod(np.where(turns, -1.0, 1.0), axis=0)
    W = np.tile(w, (rows, 1))
    W[1:, :2] += change * np.cumsum(directions, axis=0)[:-1]
    return W


def hyperplane(
    seed: int = 0, rows: int = 1_000_000, abrupt: bool = False, change: float = 0.0, columns: int = 5
) -> Stream:
    """Hyperplane, or Hyperplane-A."""
    rng = np.random.default_rng(seed)
    w = rng.random(columns)
    X = rng.random((rows, columns))
    W = walk(rng, w, rows, change) if change else w
    y = ((X * W).sum(axis=1) >= 0.5 * W.sum(axis=-1)).astype(np.int64)
    if abrupt:
        y = np.where(np.arange(rows) // STAGE_ROWS % 2 == 1, 1 - y, y)
    return X, flipped(rng, y, LABEL_NOISE)


def tree(rng: np.random.Generator, columns: int) -> Concept:
    """A random tree over [0, 1]^columns, as a function from rows to classes."""

    def grow(low: Floats, high: Floats, depth: int) -> Concept:
        if depth == DEPTH or (depth >= LEAF_DEPTH and rng.random() < LEAF_SHARE):
            label = int(rng.integers(CLASSES))
            return lambda X: np.full(len(X), label, dtype=np.int64)
        column = int(rng.integers(columns))
        cut = float(rng.uniform(low[column], high[column]))
        at = np.arange(columns) == column
        left, right = grow(low, np.where(at, cut, high), depth + 1), grow(np.where(at, cut, low), high, depth + 1)
        return lambda X: np.where(X[:, column] < cut, left(X), right(X))

    return grow(np.zeros(columns), np.ones(columns), 0)


def random_tree(seed: int = 0, rows: int = ROWS, abrupt: bool = False, columns: int = 10) -> Stream:
    """Random tree, or Random tree-A."""
    rng = np.random.default_rng(seed)
    first, second = tree(rng, columns), tree(rng, columns)
    X = rng.random((rows, columns))
    return mixed(rng, X, first, second, abrupt)


def fraud(seed: int = 0, rows: int = 20_000, columns: int = 8) -> Stream:
    """Rare positives: x normal, label 1 with probability 1 / (1 + exp(FRAUD_OFFSET - w'x)), |w| = FRAUD_SLOPE."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=columns)
    X = rng.normal(size=(rows, columns))
    score = X @ (w * FRAUD_SLOPE / np.linalg.norm(w))
    return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(FRAUD_OFFSET - score))).astype(np.int64)


def quarterly(rows: int) -> Ints:
    """The number of the quarter of the stream that each row is in."""
    return np.arange(rows) * 4 // rows


def rbf(seed: int = 0, rows: int = 20_000, classes: int = 4, columns: int = 10, speed: float = 1e-4) -> Stream:
    """Thirty clusters; ``speed`` is how far a centre moves a row."""
    rng = np.random.default_rng(seed)
    clusters = 30
    start, spread, own = (
        rng.random((clusters, columns)),
        rng.uniform(0.02, 0.1, clusters),
        rng.integers(0, classes, clusters),
    )
    direction = rng.normal(size=(clusters, columns))
    direction *= speed / np.linalg.norm(direction, axis=1, keepdims=True)
    which = rng.choice(clusters, rows, p=rng.dirichlet(np.full(clusters, 3.0)))
    way = (start[which] + np.arange(rows)[:, None] * direction[which]) % 2.0
    centres = np.where(way > 1.0, 2.0 - way, way)
    return centres + rng.normal(size=(rows, columns)) * spread[which, None], own[which].astype(np.int64)


def led(seed: int = 0, rows: int = 20_000, noise: float = 0.1) -> Stream:
    """Ten digits; in every quarter another order of the columns."""
    rng = np.random.default_rng(seed)
    shown = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011".split()
    segments = np.array([[int(lit) for lit in digit] for digit in shown])
    y = rng.integers(0, 10, rows)
    lit = segments[y] ^ (rng.random((rows, 7)) < noise)
    X = np.hstack([lit, rng.integers(0, 2, (rows, 17))]).astype(np.float64)
    orders = np.array([rng.permutation(X.shape[1]) for _ in range(4)])
    return np.take_along_axis(X, orders[quarterly(rows)], axis=1), y


def mixed_kinds(seed: int = 0, rows: int = 20_000) -> Stream:
    """Label 1 where two of v, w and y < .5 + .3 sin(3 pi x) hold."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.integers(0, 2, (rows, 2)), rng.random((rows, 2))])
    holds = X[:, 0] + X[:, 1] + (X[:, 3] < 0.5 + 0.3 * np.sin(3.0 * np.pi * X[:, 2]))
    return X, ((holds >= 2).astype(np.int64) + quarterly(rows)) % 2


def chess_board(seed: int = 0, rows: int = 20_000, squares: int = 4) -> Stream:
    """A board of ``squares`` by ``squares`` that rotates once around."""
    rng = np.random.default_rng(seed)
    X, angle = rng.random((rows, 2)), 2.0 * np.pi * np.arange(rows) / rows
    u, v = X.T - 0.5
    turned = np.array([np.cos(angle) * u - np.sin(angle) * v, np.sin(angle) * u + np.cos(angle) * v])
    return X, (np.floor((turned + 0.5) * squares).sum(axis=0) % 2).astype(np.int64)


def friedman(seed: int = 0, rows: int = 10_000) -> tuple[Floats, Floats]:
    """Friedman's first function of five of ten columns, other ones in each third of the rows."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, 10))
    columns = np.array([rng.permutation(10)[:5] for _ in range(3)])[np.arange(rows) * 3 // rows]
    a, b, c, d, e = np.take_along_axis(X, columns, axis=1).T
    return X, 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e + rng.normal(size=rows)


def planes(seed: int = 0, rows: int = 10_000) -> tuple[Floats, Floats]:
    """Breiman's two planes: which one it is depends on the sign of the first of ten columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (rows, 10)).astype(float)
    X[:, 0] = rng.choice([-1.0, 1.0], rows)
    first, second = 3 + X[:, 1:4] @ [3.0, 2.0, 1.0], -3 + X[:, 4:7] @ [3.0, 2.0, 1.0]
    return X, np.where(X[:, 0] > 0, first, second) + rng.normal(size=rows)


def stairs(seed: int = 0, rows: int = 10_000) -> tuple[Floats, Floats]:
    """Steps of a column whose direction depends on another one, and of the product of two others."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (rows, 5))
    y = np.floor(X[:, 0]) * np.where(X[:, 1] > 5, 1, -1) + np.floor(X[:, 2] * X[:, 3] / 10)
    return X, y + rng.normal(size=rows) / 2


def kinks(seed: int = 0, rows: int = 10_000) -> tuple[Floats, Floats]:
    """A threshold, the sign of a product, and an absolute value of normal columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    y = 3.0 * (X[:, 0] > 0) + 3.0 * (X[:, 1] * X[:, 2] > 0) + np.abs(X[:, 3])
    return X, y + 0.3 * rng.normal(size=rows)
