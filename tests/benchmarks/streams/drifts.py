"""Streams whose concept changes at one known row, and streams whose never does; all drawn from a given generator.

Every drift is abrupt. What is random about a concept (weights, trees) is drawn anew in every run. Two classes
are normal and 2 deviations apart in the first of 5 attributes, unless a concept says more; in SEA and the
hyperplane a tenth of the labels is turned around.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from core.contract import Floats, Ints
from tests.benchmarks.streams.generators import flipped, tree

Generator = np.random.Generator
Draw = Callable[[Generator, int, bool], tuple[Floats, Any]]
"""Rows and labels of n draws, before the drift or after it."""
Concept = Callable[[Generator], Draw]


def fixed(draw: Draw) -> Concept:
    """A concept with nothing random about it."""
    return lambda _: draw


def normal(rng: Generator, n: int, share: float = 0.5, deviation: float = 1.0) -> tuple[Floats, Ints]:
    """Two classes 2 deviations apart; ``share`` and ``deviation`` are those of the second one."""
    y = (rng.random(n) < share).astype(np.int64)
    X = rng.normal(size=(n, 5)) * np.where(y, deviation, 1.0)[:, None]
    X[:, 0] += 2.0 * y - 1.0
    return X, y


def signs(rng: Generator, n: int) -> tuple[Floats, Ints]:
    """Class means are the same: the label is the sign of a product."""
    X = rng.normal(size=(n, 5))
    return X, (X[:, 0] * X[:, 1] > 0).astype(np.int64)


def swapped(draw: Callable[[Generator, int], tuple[Floats, Ints]]) -> Concept:
    """Two classes change names."""

    def both(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
        X, y = draw(rng, n)
        return X, 1 - y if after else y

    return fixed(both)


def sea(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
    """3 uniform attributes, x1 + x2 <= 8, then <= 7."""
    X = rng.uniform(0.0, 10.0, (n, 3))
    return X, flipped(rng, (X[:, 0] + X[:, 1] <= 8 - after).astype(np.int64), 0.1)


def hyperplane(rng: Generator) -> Draw:
    """5 uniform attributes, w'x >= w'c, then the other way round."""
    w = rng.uniform(0.0, 1.0, 5)

    def draw(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
        X = rng.uniform(0.0, 1.0, (n, 5))
        return X, flipped(rng, ((X @ w >= w.sum() / 2) ^ after).astype(np.int64), 0.1)

    return draw


def rotation(degrees: float) -> Concept:
    """A boundary through the middle, turned in one plane."""

    def concept(rng: Generator) -> Draw:
        plane = np.linalg.qr(rng.normal(size=(5, 2)))[0]

        def draw(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
            X, angle = rng.normal(size=(n, 5)), np.radians(degrees * after)
            return X, (X @ (plane @ [np.cos(angle), np.sin(angle)]) >= 0).astype(np.int64)

        return draw

    return concept


def shift(deviations: float) -> Concept:
    """All rows move along the line between the classes."""

    def draw(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
        X, y = normal(rng, n)
        X[:, 0] += deviations * after
        return X, y

    return fixed(draw)


def correlation(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
    """The first two attributes of both classes are correlated by .8, then by -.8."""
    X, y = normal(rng, n)
    X[:, 0] = 2.0 * y - 1.0 + (-0.8 if after else 0.8) * X[:, 1] + 0.6 * rng.normal(size=n)
    return X, y


def new_tree(rng: Generator) -> Draw:
    """10 uniform attributes, 3 classes, another random tree."""
    trees = tree(rng, 10), tree(rng, 10)

    def draw(rng: Generator, n: int, after: bool) -> tuple[Floats, Ints]:
        X = rng.uniform(0.0, 1.0, (n, 10))
        return X, trees[after](X)

    return draw


def autoregressive(memory: float) -> Concept:
    """Attributes that follow x_t = memory x_{t-1} + noise, variance 1; a noisy boundary."""

    def concept(rng: Generator) -> Draw:
        w = rng.normal(size=5)

        def draw(rng: Generator, n: int, _: bool) -> tuple[Floats, Ints]:
            X = rng.normal(size=(n, 5))
            X[1:] *= np.sqrt(1 - memory**2)
            for i in range(1, n):
                X[i] += memory * X[i - 1]
            return X, (X @ w + 0.5 * rng.normal(size=n) > 0).astype(np.int64)

        return draw

    return concept


DRIFTS: dict[str, Concept] = {
    "SEA 8 -> 7": fixed(sea), "hyperplane swap": hyperplane, "rotation 15": rotation(15), "rotation 45": rotation(45),
    "shift .5 sigma": shift(0.5), "shift 1.5 sigma": shift(1.5),
    "variance": fixed(lambda rng, n, after: normal(rng, n, deviation=1.0 + after)), "correlation": fixed(correlation),
    "label swap": swapped(normal), "swap in place": swapped(signs), "new tree": new_tree,
    "class prior": fixed(lambda rng, n, after: normal(rng, n, share=0.1 if after else 0.5)),
}  # fmt: skip
STATIONARY: dict[str, Concept] = {
    "means coincide": fixed(lambda rng, n, _: signs(rng, n)),
    "coin tosses": fixed(lambda rng, n, _: (rng.normal(size=(n, 5)), (rng.random(n) < 0.3).astype(np.int64))),
    "AR(1) .5": autoregressive(0.5),
    "AR(1) .9": autoregressive(0.9),
}
