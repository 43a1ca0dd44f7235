"""Streams whose concept changes at one known row, and streams whose never does; all drawn from a given generator.

Every drift is abrupt. A concept that has something random about it (weights, trees) is drawn anew in every run, with
the rows. Noise means labels drawn anew among all classes.

    sea             3 uniform attributes, x1 + x2 <= 8, then <= 7                          10 % noise
    hyperplane      5 uniform attributes, w'x >= w'c, then <= (Hyperplane-A)               10 % noise
    rotation 15/45  5 normal attributes, a boundary through the middle, turned in one plane
    shift .5/1.5    two normal classes in 5 dimensions, all rows moved along the line between them, in deviations
    variance        two normal classes, the deviation of one doubles
    correlation     two normal classes with correlated attributes, whose correlation changes sign
    label swap      two normal classes that change names
    swap in place   the same where class means coincide: signs of a product; no linear model can learn them
    new tree        10 uniform attributes, 3 classes, another random tree of depth 5
    class prior     two normal classes, shares .5 and .5, then .9 and .1
"""

from collections.abc import Callable

import numpy as np

from core.contract import Floats, Ints

Generator = np.random.Generator
Rows = tuple[Floats, Ints]
Concept = Callable[[Generator, int, bool], Rows]
"""Rows and labels of n draws, before the drift or after it."""


def _noisy(rng: Generator, y: Ints, share: float, classes: int = 2) -> Ints:
    return np.where(rng.random(len(y)) < share * classes / (classes - 1), rng.integers(0, classes, len(y)), y)


def sea(rng: Generator) -> Concept:
    """x1 + x2 <= 8, then <= 7."""
    del rng

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X = rng.uniform(0.0, 10.0, (n, 3))
        return X, _noisy(rng, (X[:, 0] + X[:, 1] <= 8 - after).astype(np.int64), 0.1)

    return draw


def hyperplane(rng: Generator) -> Concept:
    """The two sides change names."""
    w = rng.uniform(0.0, 1.0, 5)

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X = rng.uniform(0.0, 1.0, (n, 5))
        return X, _noisy(rng, ((X @ w >= w.sum() / 2) ^ after).astype(np.int64), 0.1)

    return draw


def rotation(degrees: float) -> Callable[[Generator], Concept]:
    """The boundary turns."""

    def concept(rng: Generator) -> Concept:
        plane = np.linalg.qr(rng.normal(size=(5, 2)))[0]

        def draw(rng: Generator, n: int, after: bool) -> Rows:
            X = rng.normal(size=(n, 5))
            angle = np.radians(degrees * after)
            return X, (X @ (plane @ [np.cos(angle), np.sin(angle)]) >= 0).astype(np.int64)

        return draw

    return concept


def _two_normal(rng: Generator, n: int, share: float = 0.5, deviation: float = 1.0) -> Rows:
    """Two classes 2 deviations apart; ``deviation`` is that of the second one."""
    y = (rng.random(n) < share).astype(np.int64)
    X = rng.normal(size=(n, 5)) * np.where(y, deviation, 1.0)[:, None]
    X[:, 0] += 2.0 * y - 1.0
    return X, y


def shift(deviations: float) -> Callable[[Generator], Concept]:
    """All rows move."""

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X, y = _two_normal(rng, n)
        X[:, 0] += deviations * after
        return X, y

    return lambda _: draw


def variance(rng: Generator) -> Concept:
    """One class spreads."""
    del rng
    return lambda rng, n, after: _two_normal(rng, n, deviation=1.0 + after)


def correlation(rng: Generator) -> Concept:
    """The first two attributes of both classes are correlated by .8, then by -.8; they differ in the first's mean."""
    del rng

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X, y = _two_normal(rng, n)
        X[:, 0] = 2.0 * y - 1.0
        noise = rng.normal(size=n)
        X[:, 0] += (-0.8 if after else 0.8) * X[:, 1] + 0.6 * noise
        return X, y

    return draw


def label_swap(rng: Generator) -> Concept:
    """Class 0 is called 1."""
    del rng

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X, y = _two_normal(rng, n)
        return X, np.asarray(1 - y if after else y)

    return draw


def _signs(rng: Generator, n: int) -> Rows:
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] * X[:, 1] > 0).astype(np.int64)


def swap_in_place(rng: Generator) -> Concept:
    """The signs of a product change names; class means are the same, before and after."""
    del rng

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X, y = _signs(rng, n)
        return X, np.asarray(1 - y if after else y)

    return draw


def class_prior(rng: Generator) -> Concept:
    """One class becomes rare."""
    del rng
    return lambda rng, n, after: _two_normal(rng, n, share=0.1 if after else 0.5)


def _tree(rng: Generator, depth: int = 5) -> Callable[[Floats], Ints]:
    """A complete tree of random attributes, thresholds and leaves; thresholds split what is left of an attribute."""
    inner = 2**depth - 1
    attribute, threshold = rng.integers(0, 10, inner), np.empty(inner)
    boxes = [np.tile([0.0, 1.0], (10, 1))]
    for node in range(inner):
        box, j = boxes[node], attribute[node]
        threshold[node] = rng.uniform(*box[j])
        low, high = box.copy(), box.copy()
        low[j, 1] = high[j, 0] = threshold[node]
        boxes += [low, high]
    leaves = rng.integers(0, 3, inner + 1)

    def label(X: Floats) -> Ints:
        node = np.zeros(len(X), dtype=np.int64)
        for _ in range(depth):
            node = 2 * node + 1 + (X[np.arange(len(X)), attribute[node]] >= threshold[node])
        return leaves[node - inner]

    return label


def new_tree(rng: Generator) -> Concept:
    """Two trees that have nothing in common."""
    trees = _tree(rng), _tree(rng)

    def draw(rng: Generator, n: int, after: bool) -> Rows:
        X = rng.uniform(0.0, 1.0, (n, 10))
        return X, trees[after](X)

    return draw


DRIFTS: dict[str, Callable[[Generator], Concept]] = {
    "SEA 8 -> 7": sea,
    "hyperplane swap": hyperplane,
    "rotation 15": rotation(15),
    "rotation 45": rotation(45),
    "shift .5 sigma": shift(0.5),
    "shift 1.5 sigma": shift(1.5),
    "variance": variance,
    "correlation": correlation,
    "label swap": label_swap,
    "swap in place": swap_in_place,
    "new tree": new_tree,
    "class prior": class_prior,
}


def coinciding(rng: Generator) -> Concept:
    """Class means are the same: the label is the sign of a product, which no linear model learns."""
    del rng
    return lambda rng, n, after: _signs(rng, n)


def unrelated(rng: Generator) -> Concept:
    """Labels that have nothing to do with the rows: every error is a throw of a coin."""
    del rng
    return lambda rng, n, after: (rng.normal(size=(n, 5)), (rng.random(n) < 0.3).astype(np.int64))


def autoregressive(memory: float) -> Callable[[Generator], Concept]:
    """Attributes that follow x_t = memory x_{t-1} + noise, variance 1; a noisy boundary."""

    def concept(rng: Generator) -> Concept:
        w = rng.normal(size=5)

        def draw(rng: Generator, n: int, after: bool) -> Rows:
            X = rng.normal(size=(n, 5))
            X[1:] *= np.sqrt(1 - memory**2)
            for i in range(1, n):
                X[i] += memory * X[i - 1]
            return X, (X @ w + 0.5 * rng.normal(size=n) > 0).astype(np.int64)

        return draw

    return concept


STATIONARY: dict[str, Callable[[Generator], Concept]] = {
    "means coincide": coinciding,
    "coin tosses": unrelated,
    "AR(1) .5": autoregressive(0.5),
    "AR(1) .9": autoregressive(0.9),
}


Numbers = tuple[Floats, Floats]
Relation = Callable[[Generator, int, bool], Numbers]


def linear(change: str) -> Callable[[Generator], Relation]:
    """Five normal attributes, a linear target, noise of deviation 1; what changes is named."""

    def relation(rng: Generator) -> Relation:
        w = rng.normal(size=(2, 5))

        def draw(rng: Generator, n: int, after: bool) -> Numbers:
            X = rng.normal(size=(n, 5))
            X[:, 0] += 0.5 * (after and change == "shift .5 sigma")
            noise = rng.normal(size=n) * (2.0 if after and change == "noise doubled" else 1.0)
            offset = 2.0 * (after and change == "offset 2")
            return X, X @ w[int(after and change == "new weights")] + offset + noise

        return draw

    return relation


REGRESSION = {name: linear(name) for name in ("new weights", "noise doubled", "offset 2", "shift .5 sigma")}
