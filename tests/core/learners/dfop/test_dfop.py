"""DFOP, G-DFOP and RLS, compared with least squares solved from scratch."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from core.learners.dfop.kernels import NOISE, ROWS
from tests.core.learners.streams import Stream, feed, learner_of

pytestmark = pytest.mark.usefixtures("path")


def build(algorithm="dfop", task="regression", d=3, classes=0, **params):
    given = params if algorithm == "rls" else {"forgetting_rate": 0.01, **params}
    return learner_of(algorithm, d, classes, task, **given)


def exciting(n, d=3, seed=0):
    """Rows that excite every direction, and noisy linear targets that drift slowly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = np.cumsum(rng.normal(size=(n, d)) / 50, axis=0) + rng.normal(size=d)
    return X, (X * w).sum(axis=1) + 0.7 + rng.normal(size=n) / 10


def with_bias(X):
    return np.hstack([X, np.ones((len(X), 1))])


def batch_solution(X, y, discounts, q0):
    """The weights that minimise sum c_i (y_i - w'x_i)^2 + c_0 |w|^2 / q0, solved as one system.

    Row i is scaled by the root of c_i, its final weight; the prior, with one q0 or one per weight, adds d rows.
    """
    c = np.append(np.cumprod(discounts[::-1])[::-1], 1.0)  # c_0, c_1, ... c_t
    rows = np.vstack([X * np.sqrt(c[1:, None]), np.eye(X.shape[1]) * np.sqrt(c[0] / q0)])
    targets = np.concatenate([y * np.sqrt(c[1:]), np.zeros(X.shape[1])])
    return np.linalg.lstsq(rows, targets, rcond=None)[0]


class Literal:
    """The equations of the learner in information form, R w = h, solved for every row, including leaks."""

    def __init__(self, d, rate, q0):
        self.rate, self.q0 = rate, q0
        self.R, self.h, self.w = np.eye(d) / q0, np.zeros(d), np.zeros(d)
        self.squares, self.rows = np.zeros(d), 0
        self.interval = max(1, math.floor(6.9 / -math.log1p(-rate)))

    def learn(self, x, y):
        told = self.w @ x
        lam = 1 - self.rate
        self.R, self.h = lam * self.R + np.outer(x, x), lam * self.h + y * x
        self.rows, self.squares = self.rows + 1, self.squares + x**2
        if self.rows % self.interval == 0:
            s, c = self.squares / self.rows, lam**self.interval
            put_back = (1 - c) * np.where(s > 0, 1e-6 / self.rate * s, 1 / self.q0)
            self.R, self.h = self.R + np.diag(put_back), self.h + put_back * np.linalg.solve(self.R, self.h)
        self.w = np.linalg.solve(self.R, self.h)
        return told


def flat(learner):
    """The weights of a regression learner, followed by its bias, (D,)."""
    weights = learner.weights()
    return np.append(weights.coefficients[0], weights.bias[0])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("p0", [1e-2, 1e3, 1e6])
@pytest.mark.parametrize(("algorithm", "rate"), [("dfop", 0.01), ("dfop", 1e-4), ("rls", None)])
def test_weights_are_the_batch_solution(algorithm, rate, p0, bias):
    """After any number of rows before the first leak, w minimises the discounted objective including the prior."""
    X, y = exciting(300)
    params = {"initial_variance": p0, "bias": bias} | ({} if rate is None else {"forgetting_rate": rate})
    learner, rows = build(algorithm, **params), with_bias(X) if bias else X
    for begin, end in ((0, 1), (1, 5), (5, 300)):
        learner.learn(X[begin:end], y[begin:end])
        discounts = np.full(end, 1.0 - (rate or 0.0))
        expected = batch_solution(rows[:end], y[:end], discounts, p0 * (rate or 1.0))
        assert_allclose(expected, flat(learner)[: rows.shape[1]], rtol=1e-7, atol=1e-9)
    assert bias == learner.weights().bias.any()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.9, 1.0))
def test_every_row_may_have_its_own_discount(seed, lowest):
    """G-DFOP minimises the objective weighted by the products of the rows' discounts."""
    X, y = exciting(60, seed=seed)
    discounts = np.random.default_rng(seed).uniform(lowest, 1.0, 60)
    learner = build("gdfop")
    learner.learn(X, y, discounts)
    assert_allclose(batch_solution(with_bias(X), y, discounts, 10.0), flat(learner), rtol=1e-6, atol=1e-8)


def test_gdfop_is_dfop_and_rls():
    """To the last bit and through leaks: its default discount is 1 - forgetting_rate; RLS has 1 and Q_0 = p0 I."""
    X, y = exciting(5000)
    plain, general = build("dfop"), build("gdfop")
    assert_array_equal(plain.learn(X, y).value, general.learn(X, y).value)
    assert_array_equal(plain.learn(X, y).value, general.learn(X, y, np.full(5000, 0.99)).value)
    rls, general = build("rls", initial_variance=10.0), build("gdfop", initial_variance=1e3)
    assert_array_equal(rls.learn(X, y).value, general.learn(X, y, np.ones(5000)).value)


@pytest.mark.parametrize(("rate", "tolerance"), [(0.5, 1e-7), (0.1, 1e-9), (0.01, 1e-9), (0.001, 1e-9)])
def test_predictions_match_the_literal_equations(rate, tolerance):
    """Predictions and weights agree with the information form solved row by row, leaks on the absolute grid.

    A column that has always been zero gets the prior back.
    """
    X, y = exciting(2500, d=4)
    X[:2000, 3] = 0.0
    learner, oracle = build("dfop", d=4, forgetting_rate=rate), Literal(5, rate, 1e3 * rate)
    expected = [oracle.learn(x, target) for x, target in zip(with_bias(X), y, strict=True)]
    assert_allclose(expected, learner.learn(X, y).value, rtol=tolerance, atol=tolerance * 10)
    assert_allclose(oracle.w, flat(learner), rtol=tolerance * 10, atol=tolerance)


# Classes ----------------------------------------------------------------------------------------------------------


def labelled(n, classes, first, seed=0):
    """Rows around one centre per class; class k appears at row first[k]."""
    rng = np.random.default_rng(seed)
    known = (np.arange(n)[:, None] >= np.asarray(first)).sum(axis=1)
    y = rng.integers(0, known)
    for k in range(classes):
        y[first[k]] = k
    return rng.normal(size=(classes, 3))[y] * 2 + rng.normal(size=(n, 3)), y


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("algorithm", "params"), [("dfop", {"forgetting_rate": 0.05}), ("rls", {}), ("gdfop", {})])
def test_columns_are_one_versus_rest(algorithm, params, bias):
    """However late a class appears, its weights equal a regression on +1 for its rows and -1 for all others."""
    X, y = labelled(900, 5, (0, 3, 150, 400, 700))
    learner = build(algorithm, "classification", bias=bias, **params)
    feed(learner, Stream(X, y), range(1, len(y)))
    for k, coefficients in enumerate(learner.weights().coefficients):
        alone = build(algorithm, bias=bias, **params)
        alone.learn(X, np.where(y == k, 1.0, -1.0))
        assert_allclose(alone.weights().coefficients[0], coefficients, rtol=1e-12, atol=1e-11)
        assert_allclose(alone.weights().bias[0], learner.weights().bias[k], rtol=1e-12, atol=1e-11)


def test_the_column_of_an_unseen_class_has_a_closed_form():
    """With a bias and before the first leak, u = -(b - c_0 Q b / q0), where b is the unit vector of the bias."""
    X, y = labelled(300, 2, (0, 3))
    learner = build("dfop", "classification", classes=2)
    learner.learn(X, y)
    b = np.array([0.0, 0.0, 0.0, 1.0])
    assert_allclose(-(b - 0.99**300 / 10.0 * learner.Q[0] @ b), learner.W[0, -1], atol=1e-12)


def test_a_tie_goes_to_the_first_class():
    """New classes are equally probable, and the first one is predicted."""
    for classes in (2, 3, 7):
        told = build(task="classification", classes=classes).predict(np.ones((1, 3)))
        assert_array_equal([0], told.value)
        assert_allclose(np.full((1, classes), 1 / classes), told.probabilities)


# Deviations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "params"), [("dfop", {"forgetting_rate": rate}) for rate in (0.001, 0.01, 0.1)] + [("rls", {})]
)
def test_standardised_errors_have_spread_one(algorithm, params):
    """On a stationary stream error / std has a root mean square between .95 and 1.1 from row 100 on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5)) * 3
    y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 10 + rng.normal(size=20_000) * 0.3
    told = build(algorithm, d=5, **params).learn(X, y)
    standardised = ((y - told.value) / told.std)[100:]
    assert 0.95 < math.sqrt((standardised**2).mean()) < 1.1


def test_noise_is_found_from_the_first_rows():
    """40 rows in four dimensions give the noise deviation within a third; before any row v is one."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    learner = build()
    assert_allclose(np.sqrt(1 + 10.0 * (1 + (X**2).sum(axis=1)) / 0.99), learner.predict(X).std)
    assert learner.info()["noise_std"] is None
    learner.learn(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=40) * 5)
    assert 0.67 * 5 < learner.info()["noise_std"] < 1.5 * 5


# Info -------------------------------------------------------------------------------------------------------------


def test_info():
    """It has the rows, the window 1/mu (None for RLS, at most 1e12) and the noise."""
    X, y = exciting(10)
    learner, rls = build("dfop"), build("rls", "classification", classes=1)
    learner.learn(X, y)
    assert {"rows": 10, "effective_window": 100.0, "noise_std": math.sqrt(learner.counters[0, NOISE])} == learner.info()
    assert {"rows": 0, "effective_window": None} == rls.info()
    assert 10 == learner.counters[0, ROWS]
    slowest = build(forgetting_rate=5e-324)
    slowest.learn(X, y)
    assert 1e12 == slowest.info()["effective_window"]
