"""Losses of single rows, and the facts from their probabilities."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.metrics.class_kernels import BRIER, CONFIDENCE, GONE, LOSS, NOTHING, P_TRUE, SCORE, facts_of
from core.metrics.regression import squared_errors


def test_squared_errors_are_capped_without_a_warning():
    """Differences that overflow, or whose square does, count as 1e300; small ones are exact."""
    big = np.finfo(float).max
    predicted, truth = np.array([big, 1e200, 3.0, 1e-200]), np.array([-big, 0.0, 1.0, 0.0])
    with np.errstate(all="raise"):
        assert_array_equal([1e300, 1e300, 4.0, 0.0], squared_errors(predicted, truth))


@pytest.mark.parametrize(
    ("shares", "said", "truth", "expected"),
    [
        ([0.2, 0.8], 1, 1, [0.0, 0.8, 2 * 0.2**2, 0.8, 0.8]),
        ([0.7, 0.3], 0, 1, [1.0, 0.3, 2 * 0.7**2, 0.7, 0.3]),
        ([0.9], 0, 0, [0.0, 0.9, 2 * 0.1**2, 0.9, 0.1]),  # the rest belongs to a label that is not known yet
        ([0.2, 0.8], NOTHING, 1, [math.nan] * 5),
        ([0.2, 0.8], GONE, 1, [1.0, 0.8, 2 * 0.2**2, math.nan, 0.8]),  # a retired label was a prediction: an error
    ],
)
def test_the_facts_of_a_row_match_their_definitions(shares, said, truth, expected):
    """Loss, probability of the truth, Brier score, probability of the predicted class, score of the second class."""
    rows = np.array([shares])
    rows.flags.writeable = False  # read-only rows are accepted
    facts = facts_of(rows, np.array([said]), np.array([truth]))[[LOSS, P_TRUE, BRIER, CONFIDENCE, SCORE], 0]
    assert expected == pytest.approx(facts.tolist(), rel=1e-14, nan_ok=True)


def test_the_brier_score_is_summed_over_all_classes():
    """It agrees with a slow computation from whole rows."""
    rng = np.random.default_rng(0)
    shares, truth = rng.dirichlet(np.ones(4), 30), rng.integers(0, 4, 30)
    expected = [((row - np.eye(4)[y]) ** 2).sum() for row, y in zip(shares, truth, strict=True)]
    assert_allclose(expected, facts_of(shares, shares.argmax(axis=1), truth)[BRIER])


@pytest.mark.parametrize(("said", "truth"), [(2, 0), (0, -1), (0, 2)])
def test_a_class_without_a_probability_is_refused(said, truth):
    """Probabilities out of range are never read."""
    with pytest.raises(IndexError, match="without a probability"):
        facts_of(np.array([[0.2, 0.8]]), np.array([said]), np.array([truth]))


def test_losses_are_new_arrays():
    """Returned arrays stay the same when the next rows are scored."""
    first = squared_errors(np.array([1.0]), np.array([0.0]))
    squared_errors(np.array([0.0]), np.array([0.0]))
    assert_array_equal([1.0], first)
    facts = facts_of(np.array([[0.5, 0.5]]), np.array([0]), np.array([1]))
    facts_of(np.array([[0.5, 0.5]]), np.array([0]), np.array([0]))
    assert_array_equal([1.0], facts[LOSS])
