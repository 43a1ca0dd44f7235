"""Losses of single rows."""

import numpy as np
from numpy.testing import assert_array_equal

from core.metrics.losses import squared_errors


def test_squared_errors_are_capped_without_a_warning():
    """Differences that overflow, or whose square does, are 1e300; small ones are exact."""
    big = np.finfo(float).max
    predicted, truth = np.array([big, 1e200, 3.0, 1e-200]), np.array([-big, 0.0, 1.0, 0.0])
    with np.errstate(all="raise"):
        assert_array_equal([1e300, 1e300, 4.0, 0.0], squared_errors(predicted, truth))


def test_losses_are_new_arrays():
    """What was given out stays as it was when the next rows are scored."""
    first = squared_errors(np.array([1.0]), np.array([0.0]))
    squared_errors(np.array([0.0]), np.array([0.0]))
    assert_array_equal([1.0], first)
