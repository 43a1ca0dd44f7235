"""Weights of experts compared with plain NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.numerics.weighting import expect, fixed_share, take_shares, weigh_and_share, weigh_by_losses


@pytest.mark.parametrize("eta", [0.5, 1e9])
def test_losses_move_weights_and_every_expert_keeps_a_share(eta):
    """Exponential weights, normalised, then the fixed share; even a huge rate leaves every expert a weight."""
    rng = np.random.default_rng(0)
    weights, losses = rng.dirichlet(np.ones(5)), rng.random(5)
    expected = weights * np.exp(-np.minimum(eta * (losses - losses.min()), 700))
    raw = weights.copy()
    assert expected.sum() == pytest.approx(weigh_by_losses(raw, losses, losses.min(), eta))
    assert_allclose(expected, raw)
    weigh_and_share(weights, losses, losses.min(), eta)
    assert_allclose(0.999 * expected / expected.sum() + 0.001 / 5, weights)
    fixed_share(raw, 0.0, 1.0, 0.2)
    assert_allclose(0.2, raw)


def test_an_extreme_row_counts_in_full_only_for_itself():
    """Its own weighing uses a D that includes all of it; later rows use a clipped one."""
    own, later, counted = expect(1.0, 1e12, 2.0, 9.0, 100.0)
    assert (1.0 + 0.2 * (1e12 - 1.0), 1.0 + 0.2 * (100.0 - 1.0), 100.0) == pytest.approx((own, later, counted))
    for loss in (0.0, 1.0):
        own, later, counted = expect(loss, 1e12, 2.0, 9.0, np.inf)
        assert own == later
        assert 1e12 == counted


def test_predictions_leave_out_the_fixed_share():
    """An expert that only the fixed share keeps alive has no part in a prediction; alike experts have equal parts."""
    weights, shares = np.array([0.7, 0.3 - 0.001, 0.0004, 0.0006]), np.empty(4)
    take_shares(weights, shares)
    assert_allclose(np.array([0.6995, 0.2985, 0.0, 0.0001]) / 0.9981, shares)
    for K in (1, 4):
        take_shares(np.full(K, 1 / K), shares[:K])
        assert_allclose(1 / K, shares[:K])
