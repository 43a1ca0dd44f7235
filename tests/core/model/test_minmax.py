"""A model whose columns are scaled to 0 ... 1."""

import numpy as np
from numpy.testing import assert_allclose

from core.model import read
from tests.core.twin import Twin


def test_declared_ends_are_those_of_the_first_row():
    """A model that knows the ends answers as one whose columns are sent between 0 and 1."""
    ends = [{"name": "a", "min": -1, "max": 1}, {"name": "b", "min": 20, "max": 80}]
    plain = Twin({"algorithm": "rls", "task": "regression", "features": ["a", "b"]})
    scaled = Twin({"algorithm": "rls", "task": "regression", "features": ends, "params": {"scaling": "minmax"}})
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.normal(size=120), 50 + 9 * rng.normal(size=120)])
    Z = np.clip((X - [-1, 20]) / [2, 60], 0, 1)
    y = X @ [1.0, 0.1]
    assert_allclose(plain.learn(Z, y).predictions, scaled.learn(X, y).predictions)
    weights = read.weights(scaled.machine.own).coefficients
    assert_allclose(read.weights(plain.machine.own).coefficients / [2, 60], weights)
