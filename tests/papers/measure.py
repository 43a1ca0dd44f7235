"""Shared by the papers' protocols: learners as a paper builds them, its subsets, baselines, means."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from core.contract import Floats, Learner
from core.features.scaling import Scaler
from core.learners.catalogue import find
from tests.core.learners.streams import learner_of
from tests.papers.contenders.contending import contended
from tests.papers.rows import Measured, Size

SUBSETS = 10
Part = tuple[Floats, Any]


def learner(algorithm: str, d: int, classes: int, **given: Any) -> Learner:
    """A learner that knows its classes; 0 classes mean regression."""
    return learner_of(algorithm, d, classes, "classification" if classes else "regression", **given)


def answers(algorithm: str, X: Floats, y: Any, **given: Any) -> Any:
    """A-priori predictions of every row; ``odm`` and ``dynamic_odm`` scale first, as in a model."""
    scaling = find(algorithm).complete(given)["scaling"] if algorithm.endswith("odm") else "none"
    X = np.ascontiguousarray(X)
    X = X if scaling == "none" else Scaler(scaling, X.shape[1]).scale(X, absorb=True)
    classes = 0 if y.dtype.kind == "f" else int(y.max()) + 1
    return learner(algorithm, X.shape[1], classes, **given).learn(X, y).value


def right(algorithm: str, X: Floats, y: Any, **given: Any) -> float:
    """Per cent right a-priori."""
    return float(100 * (answers(algorithm, X, y, **given) == y).mean())


def square(algorithm: str, X: Floats, y: Any, **given: Any) -> float:
    """Squared error times 100, a-priori."""
    return float(100 * ((answers(algorithm, X, y, **given) - y) ** 2).mean())


def subsets(rows: int, runs: int) -> list[slice]:
    """Section 6.1 of DFOP: ten subsets of 4T/5 consecutive rows out of T, starting at T/50, ... 10T/50."""
    return [slice(k * rows // 50, k * rows // 50 + 4 * rows // 5) for k in range(1, min(SUBSETS, runs) + 1)]


def parts(X: Floats, y: Any, runs: int) -> list[Part]:
    """The rows and labels of the subsets."""
    return [(np.ascontiguousarray(X[part]), y[part]) for part in subsets(len(y), runs)]


def no_change(y: Any) -> float:
    """Per cent right by repeating the last label."""
    return float(100 * (y[1:] == y[:-1]).mean())


def majority(y: Any) -> float:
    """Per cent right by the most frequent label so far."""
    seen, hits = np.zeros(int(y.max()) + 1, dtype=np.int64), 0
    seen[y[0]] = 1
    for label in y[1:].tolist():
        hits += int(seen.argmax()) == label
        seen[label] += 1
    return 100 * hits / (len(y) - 1)


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def classified(
    streams: Sequence[Part], ours: Callable[..., float], default: Callable[..., float], wrong: bool = False,
    size: Size | None = None, once: bool = True,
) -> Measured:  # fmt: skip
    """All measurements next to a classification figure; ``wrong``: as mistakes.

    ``once``: whether this of several rows of a stream runs ``auto`` and, if ``size`` asks for it, the contenders.
    """
    turn = (lambda value: 100.0 - value) if wrong else (lambda value: value)
    return Measured(
        tuple(turn(ours(*stream)) for stream in streams),
        mean(turn(default(*stream)) for stream in streams),
        turn(right("auto", *streams[0])) if once else None,
        mean(turn(no_change(y)) for _, y in streams),
        mean(turn(majority(y)) for _, y in streams),
        contended=contended(*streams[0]) if once and size is not None and size.contenders else (),
    )


def shuffled(X: Floats, y: Any, size: Size, rows: int | None = None) -> list[Part]:
    """The rows in ten random orders."""
    orders = [np.random.default_rng(seed).permutation(len(y))[:rows] for seed in range(min(SUBSETS, size.runs))]
    return [(np.ascontiguousarray(X[order]), y[order]) for order in orders]
