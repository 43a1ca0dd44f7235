"""The stacks of `auto`: sums of experts, compared with plain recursive least squares, and their benefit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.learners.auto.stacks import GAIN_FIRST, first_gains, learn_stack, stack
from tests.core.learners.streams import learner_of, state

RNG = np.random.default_rng(6)


@pytest.mark.parametrize(("which", "forgetting"), [(0, 0.998), (1, 0.9995)])
def test_a_stack_is_weighted_least_squares(which, forgetting):
    """W solves the discounted normal equations with the ridge of the initial gains; weights count as repetitions."""
    B, n = 4, 300
    X, weights = RNG.normal(size=(n, B)), RNG.choice([1.0, 2.0], n)
    y = X @ [0.5, -0.2, 0.0, 1.0] + 0.1 * RNG.normal(size=n)
    P, w, room = first_gains(B)[which], np.zeros(B), np.empty(B)
    for i in range(n):
        learn_stack(which, X[i], y[i], weights[i], P, w, room)
    discounts = weights * forgetting ** np.arange(n - 1.0, -1.0, -1.0)
    A = (X * discounts[:, None]).T @ X + forgetting**n / GAIN_FIRST * np.eye(B)
    assert_allclose(w, np.linalg.solve(A, (X * discounts[:, None]).T @ y), rtol=1e-6)
    assert_allclose(P, np.linalg.inv(A), rtol=1e-6, atol=1e-12)
    assert stack(X[0], w) == pytest.approx(X[0] @ w)


def test_zero_rows_do_not_blow_it_up():
    """Columns of resting experts stay 0: gains stay bounded, and the next row is still learned."""
    P, w, room = first_gains(3)[0], np.zeros(3), np.empty(3)
    for _ in range(100_000):
        learn_stack(0, np.zeros(3), 0.3, 1.0, P, w, room)
    assert np.trace(P) < 1000 * GAIN_FIRST
    learn_stack(0, np.ones(3), 3.0, 1.0, P, w, room)
    assert 0.0 < stack(np.ones(3), w) < 5.0


def test_a_sum_is_better_than_the_best_pick():
    """Half linear, half a product: no expert has both; the mixture's errors are below half the labels' variance."""
    X = RNG.normal(size=(6000, 3))
    y = np.where(np.arange(6000) // 1500 % 2, X @ [1.0, 2.0, 0.0], X @ [2.0, 1.0, 0.5]) + X[:, 0] * X[:, 2]
    learner = learner_of("auto", 3, task="regression")
    predicted = learner.learn(X, y + 0.1 * RNG.normal(size=6000)).value
    report = {one["expert"]: one for one in learner.team.mixture.report()}
    assert {"last_value", "stack", "stack_slow"} < {*report}
    assert np.mean((predicted - y)[3000:] ** 2) < 0.5 * np.var(y)
    assert 1.0 == pytest.approx(sum(one["weight"] for one in report.values()))


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e20, 1e150])
def test_any_scale_of_labels(scale):
    """Predictions are finite, and a block equals its rows bit for bit."""
    X = RNG.normal(size=(300, 2))
    y = scale * (X @ [1.0, -1.0] + X[:, 0] * X[:, 1])
    whole, rows = (learner_of("auto", 2, task="regression") for _ in range(2))
    predicted = whole.learn(X, y).value
    assert np.isfinite(predicted).all()
    single = np.concatenate([rows.learn(X[i : i + 1], y[i : i + 1]).value for i in range(300)])
    assert np.array_equal(predicted, single)
    assert state(whole) == state(rows)
