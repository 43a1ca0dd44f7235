"""A model whose columns are scaled to 0 ... 1, saved and loaded before every entry."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.learners.catalogue import ALGORITHMS
from core.model import read
from tests.core.twin import Twin

FEATURES = [{"name": "a", "min": -1, "max": 1}, "b", {"name": "c", "categories": ["x", "y"]}]
SCALED = [name for name, entry in ALGORITHMS.items() if any(param.name == "scaling" for param in entry.params)]
_rng = np.random.default_rng(6)
_X = np.column_stack([_rng.normal(size=120), 50 + 9 * _rng.normal(size=120), _rng.integers(0, 2, 120)])


def twin(algorithm, features=FEATURES):
    """A model of classes, beside one that is saved and loaded."""
    body = {"algorithm": algorithm, "task": "classification", "labels": ["no", "yes"], "features": features}
    return Twin(body | {"params": {"scaling": "minmax"}})


@pytest.mark.parametrize("algorithm", SCALED)
def test_rows_and_blocks_leave_the_same_model(algorithm):
    """Whatever the ends, declared or seen so far."""
    labels = [("no", "yes")[int(a > 0)] for a in _X[:, 0]]
    one, many = twin(algorithm), twin(algorithm)
    for at in range(len(_X)):
        one.learn(_X[at : at + 1], labels[at : at + 1])
    many.learn(_X, labels)
    assert read.metrics_report(one.machine) == read.metrics_report(many.machine)
    predicted = [read.predict(each.machine.own, _X).probabilities for each in (one, many)]
    assert_allclose(*predicted)


def test_declared_ends_are_those_of_the_first_row():
    """A model that knows the ends answers as one whose columns are sent between 0 and 1."""
    ends = [{"name": "a", "min": -1, "max": 1}, {"name": "b", "min": 20, "max": 80}]
    plain = Twin({"algorithm": "rls", "task": "regression", "features": ["a", "b"]})
    scaled = Twin({"algorithm": "rls", "task": "regression", "features": ends, "params": {"scaling": "minmax"}})
    X = np.ascontiguousarray(_X[:, :2])
    Z = np.clip((X - [-1, 20]) / [2, 60], 0, 1)
    y = X @ [1.0, 0.1]
    assert_allclose(plain.learn(Z, y).predictions, scaled.learn(X, y).predictions)
    weights = read.weights(scaled.machine.own).coefficients
    assert_allclose(read.weights(plain.machine.own).coefficients / [2, 60], weights)
