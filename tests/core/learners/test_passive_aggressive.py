"""The worked example, passive_aggressive.py, follows its equations; the conformance suite tests the rest."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.contract import Spec
from tests.core.learners.passive_aggressive import ALGORITHMS

(EXAMPLE,) = ALGORITHMS


def build(task, **params):
    """The example's learner with three columns."""
    return EXAMPLE.build(Spec(task, 3, EXAMPLE.complete(params)))


@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_it_learns_a_line(variant):
    """Repeated passes end without mistakes on separable rows, and within epsilon on noiseless numbers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    score = X @ [1.0, -2.0, 0.5] + 0.3
    X, score = X[np.abs(score) > 0.2], score[np.abs(score) > 0.2]
    sides, numbers = (
        build("classification", variant=variant, aggressiveness=100.0),
        build("regression", variant=variant),
    )
    sides.add_class()
    sides.add_class()
    for _ in range(20):
        told = sides.learn(X, (score > 0).astype(np.int64)).value
        values = numbers.learn(X, score).value
    assert ((score > 0) == told).all()
    assert np.abs(values - score).max() < 0.11


def test_a_step_makes_the_loss_of_its_row_zero():
    """Unless C stops it, a learned row has margin 1 or error epsilon; a row that already has them moves nothing."""
    x = np.array([[3.0, -1.0, 2.0]])
    number = build("regression", aggressiveness=1e6, epsilon=0.5)
    number.learn(x, np.array([7.0]))
    assert_allclose(6.5, number.predict(x).value[0])
    before = number.W.copy()
    number.learn(x, np.array([6.2]))
    assert (before == number.W).all()
    classes = build("classification", aggressiveness=1e6)
    classes.add_class()
    classes.learn(x, np.array([0]))
    assert_allclose(-1.0, classes.W[0] @ [3.0, -1.0, 2.0, 1.0])
