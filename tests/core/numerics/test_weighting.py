"""Weights of experts compared with plain NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.numerics.weighting import expect, fit_pool, fixed_share, log_pool, weigh_and_share, weigh_by_losses


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
    own, later, counted = expect(1.0, 1e12, 2.0, 9.0, True)
    assert (1.0 + 0.2 * (1e12 - 1.0), 1.0 + 0.2 * (1e6 - 1.0), 1e6) == pytest.approx((own, later, counted))
    assert expect(1.0, 1e12, 2.0, 9.0, False)[0] == expect(1.0, 1e12, 2.0, 9.0, False)[1] == own


def test_the_pool_moves_down_its_log_loss():
    """The pool of two classes is a logistic regression on the experts; an AdaGrad step follows its gradient."""
    f = np.array([[-1.0, 1.0], [0.5, -0.5]])
    v, G, q = np.array([1.0, 2.0]), np.array([4.0, 0.0]), np.empty(2)
    log_pool(v, f, q)
    assert_allclose(np.exp(v @ f) / np.exp(v @ f).sum(), q)
    g = 3.0 * (f[:, 1] - f @ q)
    expected = v + 0.15 * g / np.sqrt(0.9995 * G + g**2)
    fit_pool(v, G, f, q, 1, 3.0)
    assert_allclose(expected, v)
    assert_allclose(0.9995 * np.array([4.0, 0.0]) + g**2, G)
