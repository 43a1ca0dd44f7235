"""No stream, however poor or wild, makes DFOP, G-DFOP or RLS non-finite."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from core.numerics.linalg import spd_inverse
from tests.core.learners.dfop.test_dfop import batch_solution, build, exciting, with_bias

pytestmark = pytest.mark.usefixtures("path")


def finite(learner):
    """Whether all numbers of a state are finite and Q is exactly symmetric (R is its lower triangle)."""
    parts = (learner.W, learner.Q, learner.R, learner.mean_square, learner.counters)
    return all(np.isfinite(part).all() for part in parts) and bool((learner.Q[0] == learner.Q[0].T).all())


def poor(kind, n, rng):
    """Streams on which plain forgetting overflows: rows (n, 4) and targets that a linear model fits exactly."""
    a = rng.normal(size=n)
    X = {
        "constant": np.ones((n, 4)),
        "zeros": np.zeros((n, 4)),
        "zero_feature": np.stack([a, rng.normal(size=n), 0 * a, rng.normal(size=n)], axis=1),
        "collinear": np.stack([a, 2 * a, 1e3 * a, 1e-3 * a], axis=1),
        "one_hot": np.eye(4)[rng.integers(0, 4, n)],
        "rare": np.stack([a, rng.normal(size=n), (np.arange(n) == 50) * 1e4, (np.arange(n) == 99) * 1e-4], axis=1),
        "repeated": np.tile([0.3, -1.7, 1e6, 1e-6], (n, 1)),
        "scales": rng.normal(size=(n, 4)) * [1e-9, 1.0, 1e5, 1e12],
    }[kind]
    return X, X @ np.array([1.0, -2.0, 1e-3, 5.0]) + 3.0


ROWS = 30_000
KINDS = ("constant", "zeros", "zero_feature", "collinear", "one_hot", "rare", "repeated", "scales")


@pytest.mark.slow_but("rows-0.5-*", "blocks-None-*")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01, 1e-4, None])
def test_wind_up_never_happens(kind, rate):
    """Rows without information about some directions leave a finite state that still predicts."""
    X, y = poor(kind, ROWS, np.random.default_rng(0))
    learner = build("rls", d=4) if rate is None else build("dfop", d=4, forgetting_rate=rate)
    told = learner.learn(X, y)
    assert finite(learner)
    assert np.isfinite(told.value).all()
    assert np.isfinite(told.std).all()
    assert np.abs(told.value - y)[-1000:].max() <= 1e-3 * max(1.0, y.std())


EXTREMES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 1e-308, 5e-324, -5e-324, 1e75, 1e76, 1e150, 1e-150]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10, 10),
)
NUMBERS = arrays(np.float64, st.tuples(st.integers(1, 40), st.just(3)), elements=EXTREMES)
DISCOUNTS = st.sampled_from([1.0, 1e-300, 5e-324, 0.5, 0.99, 1e-3, 0.2])


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.sampled_from([0.5, 0.1, 0.01, 1e-4, 5e-324, None]), st.sampled_from([1e3, 1e12, 5e-324]), st.data())
def test_any_finite_input_leaves_a_finite_state(table, rate, p0, data):
    """Repeated extremes of float64 in rows, targets, discounts and parameters: state and predictions stay finite."""
    X, y = np.tile(table[:, :2], (30, 1)), np.tile(table[:, 2], 30)
    params = {"initial_variance": p0}
    if rate is None:
        learner, discounts = build("rls", d=2, **params), None
    else:
        learner = build("gdfop", d=2, forgetting_rate=rate, **params)
        some = data.draw(st.lists(DISCOUNTS, min_size=len(table), max_size=len(table)))
        discounts = np.tile(np.array(some), 30) if data.draw(st.booleans()) else None
    for begin in range(0, len(y), 37):
        rows = slice(begin, begin + 37)
        told = learner.learn(X[rows], y[rows], None if discounts is None else discounts[rows])
        assert np.isfinite(told.value).all()
        assert np.isfinite(told.std).all()
        assert (np.abs(told.value) <= 1e300).all()
        assert finite(learner)
    told = learner.predict(X)
    assert np.isfinite(told.value).all()
    assert np.isfinite(told.std).all()
    assert all(np.isfinite(part).all() for part in learner.weights())
    other = build("gdfop" if rate else "rls", d=2, **params, **({"forgetting_rate": rate} if rate else {}))
    other.load_arrays(*learner.to_arrays())


@pytest.mark.parametrize(
    "spoiled", [[[-1.0, 0.0], [0.0, -1.0]], [[1e-3, 5.0], [5.0, 1e-3]], [[1e308, 0.0], [0.0, 1e308]]]
)
def test_a_covariance_spoiled_by_round_off_is_refreshed(spoiled):
    """If Q is not a covariance (x'Qx < 0, Cauchy-Schwarz violated, overflow), rows are learned with R^-1 instead."""
    X, y = exciting(50, d=2)
    learner, sound = build(d=2, bias=False), build(d=2, bias=False)
    learner.learn(X, y)
    sound.learn(X, y)
    learner.Q[0], sound.Q[0] = spoiled, spd_inverse(sound.R[0])
    rows = np.array([[2.0, 3.0], [3.0, 2.0]])
    assert_allclose(sound.learn(rows, y[:2]).value, learner.learn(rows, y[:2]).value, rtol=1e-12)
    assert_allclose(sound.Q, learner.Q, rtol=1e-9)
    assert_allclose(sound.W, learner.W, rtol=1e-9)


@pytest.mark.parametrize(("algorithm", "q0"), [("rls", 1e3), ("dfop", 10.0)])
@pytest.mark.parametrize("scale", [1e6, 1e8, 1e12, 1e20])
def test_a_large_column_costs_the_covariance_no_digits(algorithm, q0, scale):
    """From the first row on variances are positive, and the next value is that of least squares solved from scratch."""
    X, y = exciting(40)
    X[:, 0] *= scale
    unit, lam = np.array([scale, 1.0, 1.0, 1.0]), 0.99 if algorithm == "dfop" else 1.0
    Z, learner = with_bias(X) / unit, build(algorithm)  # Z: what lstsq can solve
    for i in range(len(y)):
        told = learner.learn(X[i : i + 1], y[i : i + 1])
        w = batch_solution(Z[:i], y[:i], np.full(i, lam), q0 * unit**2)
        assert_allclose(Z[i : i + 1] @ w, told.value, rtol=1e-4, atol=1e-4)
        assert np.diagonal(learner.Q[0]).min() > 0.0
        assert np.isfinite(learner.deviations()).all()
    assert_allclose(spd_inverse(learner.R[0]).diagonal(), learner.Q[0].diagonal(), rtol=1e-6)
    at_once = build(algorithm)
    at_once.learn(X, y)
    assert_allclose(learner.Q[0].diagonal(), at_once.Q[0].diagonal(), rtol=1e-6)


def test_a_huge_row_counts_as_a_lighter_one():
    """A row beyond 1e75 is scaled as a whole, so a huge exact row still fixes its direction."""
    learner = build("rls", d=2, bias=False)
    learner.learn(np.array([[1e200, 0.0], [0.0, 1.0]]), np.array([3e200, 2.0]))
    assert_allclose([[3.0, 2.0]], learner.weights().coefficients, rtol=2e-3)
    assert_allclose([6e200, 1e300], learner.predict(np.array([[2e200, 0.0], [1e308, 1e308]])).value, rtol=2e-3)


def test_a_tiny_discount_forgets_and_learning_goes_on():
    """After one row with the smallest discount, the next rows decide the weights."""
    X, y = exciting(400)
    learner = build("gdfop")
    learner.learn(X, y)
    discounts = np.r_[1e-300, np.full(99, 0.99)]
    learner.learn(X[:100], X[:100] @ [5.0, -5.0, 5.0], discounts)
    assert_allclose([5.0, -5.0, 5.0], learner.weights().coefficients[0], atol=0.02)
