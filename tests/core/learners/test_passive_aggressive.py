"""The worked example, passive_aggressive.py, follows its equations; the conformance suite tests the rest."""

import numpy as np
from numpy.testing import assert_allclose

from core.contract import Spec
from tests.core.learners.passive_aggressive import ALGORITHMS

(EXAMPLE,) = ALGORITHMS


def build(task, **params):
    """The example's learner with three columns."""
    return EXAMPLE.build(Spec(task, 3, EXAMPLE.complete(params)))


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
    softer = build("regression", variant="PA-II", aggressiveness=0.5, epsilon=0.5)
    softer.learn(x, np.array([7.0]))
    assert_allclose(6.5 * 15 / (15 + 1), softer.predict(x).value[0])
