"""Streams for every learner, and every way to break a learner's state."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.testing import assert_array_equal

from core.contract import Spec
from core.learners.algorithm import expanded
from core.learners.catalogue import find
from core.state.envelope import dump
from tests.core.state.hostile import hostile

D = 4
ROWS = 260


class Stream(NamedTuple):
    """Rows to learn, in order; class indices in order of first appearance."""

    X: np.ndarray
    y: np.ndarray
    discounts: np.ndarray | None = None
    weights: np.ndarray | None = None

    def part(self, places):
        return Stream(*(None if column is None else column[places] for column in self))


def stream(algorithm, task, classes, rows=ROWS, seed=0, drift=True):
    """A (drifting) stream whose classes appear late, with the discounts and weights that the algorithm takes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, D))
    before = np.arange(rows)[:, None] < (rows // 2 if drift else rows)
    w = np.where(before, [1.0, -2.0, 0.0, 0.5], [-1.0, 0.0, 2.0, 1.0])
    score = (X * w).sum(axis=1) + rng.normal(size=rows) / 4
    discounts = rng.uniform(0.9, 1.0, rows) if algorithm.row_discounts else None
    weights = rng.uniform(0.1, 5.0, rows) if algorithm.row_weights else None
    if task == "regression":
        return Stream(X, score, discounts, weights)
    seen_by_now = np.minimum(1 + np.arange(rows) * classes // (rows // 2), classes)
    place = np.clip(np.floor((score + 2) / 4 * seen_by_now), 0, seen_by_now - 1)
    _, first, index = np.unique(place, return_index=True, return_inverse=True)
    return Stream(X, np.argsort(np.argsort(first))[index].astype(np.int64), discounts, weights)


def relative(weights):
    """Weights of rows as shares of the largest recent one (core.numerics.weighting)."""
    found, heaviest = [], 0.0
    for weight in weights:
        heaviest = max(weight, 0.999 * heaviest)
        found.append(weight / heaviest)
    return np.array(found)


def build(algorithm, task, **params):
    return algorithm.build(Spec(task, D, algorithm.complete(params), seed=7))


def learner_of(name, dimension, classes=0, task="classification", seed=0, ranges=(), **params):
    """A new learner of the catalogue that knows these classes."""
    algorithm = find(name)
    learner = algorithm.build(Spec(task, dimension, algorithm.complete(params), seed, ranges))
    for _ in range(classes if task == "classification" else 0):
        learner.add_class()
    return learner


def with_defaults(algorithm, **values):
    """The algorithm with other defaults for some parameters."""
    params = (replace(param, default=values.get(param.name, param.default)) for param in algorithm.params)
    return replace(algorithm, params=tuple(params))


def feed(learner, rows, cuts=(), known=0):
    """Learn in blocks that end at ``cuts`` and before every class beyond those known; return all predictions."""
    ends = {*cuts, len(rows.y)}
    classes = rows.y.dtype == np.int64
    newest = np.maximum.accumulate(rows.y) if classes else np.zeros(len(rows.y))
    ends |= set(1 + np.flatnonzero(np.diff(newest)))
    begin, told = 0, []
    for end in sorted(ends):
        while classes and known <= newest[begin]:
            learner.add_class()
            known += 1
        told.append(learner.learn(*rows.part(slice(begin, end))))
        begin = end
    return told


def state(learner):
    return dump(*learner.to_arrays())


def joined(told, part):
    """One part of the predictions of several blocks, padded to the final number of classes."""
    parts = [getattr(prediction, part) for prediction in told]
    if parts[0] is None:
        return None
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width = max(p.shape[1] for p in parts)
    return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=-1) for p in parts])


def assert_same(expected, actual):
    """Check that the predictions are the same, bit for bit."""
    for part in ("value", "probabilities", "std"):
        assert_array_equal(joined(expected, part), joined(actual, part), strict=True)


def broken(learner, arrays, header, spec, classes):
    """States with another header, and every way to break the layout.

    For a state made of parts only a missing, extra or retyped array: tests of the parts break them further.
    """
    yield from (("no header", arrays, {}), ("another header", arrays, {**header, "other": 1}))
    if "mixture" in header:
        yield "nothing", {}, header
        yield "superfluous", {**arrays, "other": np.zeros(1)}, header
        for name in arrays:
            yield f"{name} missing", {other: array for other, array in arrays.items() if other != name}, header
            yield f"{name} of single precision", {**arrays, name: arrays[name].astype(np.float32)}, header
        return
    if "random_features" in spec.params:  # the state belongs to the inner learner
        spec, learner = expanded(spec), getattr(learner, "learner", learner)
    for what, changed in hostile(learner.layout, arrays, **learner.sizes(spec, classes)):
        yield what, changed, header
