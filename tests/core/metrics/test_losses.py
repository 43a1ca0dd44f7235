"""Losses of single rows, and the probability of the true label."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.metrics.losses import squared_errors, true_probabilities, zero_one_losses


def test_squared_errors_are_capped_without_a_warning():
    """Differences that overflow, or whose square does, are 1e300; small ones are exact."""
    big = np.finfo(float).max
    predicted, truth = np.array([big, 1e200, 3.0, 1e-200]), np.array([-big, 0.0, 1.0, 0.0])
    with np.errstate(all="raise"):
        assert_array_equal([1e300, 1e300, 4.0, 0.0], squared_errors(predicted, truth))


def test_a_wrong_class_costs_one():
    """No prediction (-1) is a wrong one."""
    assert_array_equal([0.0, 1.0, 1.0], zero_one_losses(np.array([2, 0, -1]), np.array([2, 1, 0])))


def test_the_probability_of_the_true_class_is_picked():
    """One per row, and rows that are read-only will do."""
    shares = np.array([[0.2, 0.8], [0.7, 0.3]])
    shares.flags.writeable = False
    assert_array_equal([0.8, 0.7], true_probabilities(shares, np.array([1, 0])))


@pytest.mark.parametrize("truth", [-1, 2])
def test_a_class_without_a_probability_is_refused(truth):
    """Nothing outside the probabilities is read."""
    with pytest.raises(IndexError, match="without a probability"):
        true_probabilities(np.array([[0.2, 0.8]]), np.array([truth]))


@pytest.mark.parametrize("losses", [squared_errors, zero_one_losses])
def test_losses_are_new_arrays(losses):
    """What was given out stays as it was when the next rows are scored."""
    dtype = np.float64 if losses is squared_errors else np.int64
    first = losses(np.array([1], dtype=dtype), np.array([0], dtype=dtype))
    losses(np.array([0], dtype=dtype), np.array([0], dtype=dtype))
    assert_array_equal([1.0], first)
