"""ODM and dynamic ODM: compared with the literal oracle, and their other promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.core.learners.odm.odm_oracle import Anytime, Candidate, Classes, MeanSquare, Paper
from tests.core.learners.streams import learner_of


def built(algorithm="dynamic_odm", d=4, classes=2, **more):
    return learner_of(algorithm, d, classes, **more)


def stream(rows=300, d=4, seed=0, flip=None):
    """Normal rows and noisy linear labels, which flip from row ``flip`` on."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d))
    y = X @ np.arange(1.0, d + 1) + rng.normal(size=rows) > 0
    if flip is not None:
        y[flip:] = ~y[flip:]
    return X, y.astype(np.int64)


def follow(learner, oracle, X, y, bias=True):
    """The linear models of both before every row."""
    found, expected = [], []
    for i in range(len(y)):
        weights = learner.weights()
        found.append([*weights.coefficients[1], weights.bias[1]] if bias else weights.coefficients[1])
        expected.append(oracle.mixture())
        x = np.append(X[i], 1.0) if bias else X[i]
        told = learner.learn(X[i : i + 1], y[i : i + 1])
        assert int(expected[-1] @ x > 1e-9) == told.value[0]
        oracle.learn(x, 2.0 * y[i] - 1.0)
    return np.array(expected), np.array(found)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("lam", "mu", "theta"), [(10.0, 0.1, 0.1), (0.3, 2.0, 0.4), (200.0, 0.5, 0.0)])
def test_anytime_equals_the_oracle(lam, mu, theta, bias):
    """Mixture weights before every row equal those of the slow form, through every split and a huge row."""
    X, y = stream(300, flip=150)
    X[200] *= 1e3
    learner = built(loss_weight=lam, deviation_tradeoff=mu, tolerance=theta, bias=bias)
    oracle = Anytime(4 + bias, lam, mu, theta)
    assert_allclose(*follow(learner, oracle, X, y, bias), atol=1e-10)
    assert_allclose(np.exp(oracle.logs), learner.info()["epoch_weights"], atol=1e-10)
    assert [8 * 2**at for at in range(len(oracle.logs))] == learner.info()["epochs"]


@pytest.mark.parametrize(("T", "C", "V"), [(300, 40.0, 1.0), (300, 0.5, 30.0), (1000, 1e-3, 1e-6)])
def test_the_papers_variant_equals_the_oracle(T, C, V):
    """Mixture weights before every row equal those of Algorithms 1 and 2."""
    X, y = stream(300, flip=150)
    oracle = Paper(5, T, C, V)
    learner = built(variant="paper", horizon=T, bound=C, variation=V)
    assert_allclose(*follow(learner, oracle, X, y), atol=1e-10)
    assert [candidate.epoch for candidate in oracle.candidates] == learner.info()["epochs"]


@pytest.mark.parametrize("params", [{}, {"variant": "paper"}, {"learning_rate": 0.05}, {"step": "explicit"}])
def test_odm_is_one_candidate(params):
    """It takes the steps of one candidate, of the configured kind; ``forget`` begins them again from its weights."""
    X, y = stream(200)
    learner = built("odm", **params)
    explicit = "learning_rate" not in params and bool(params)
    oracle = Candidate(5, None, 10.0, 0.1, 0.1, explicit, params.get("learning_rate"))
    squares = MeanSquare()
    for i in range(len(y)):
        if i == 120:
            learner.forget()
            oracle.rows = 0
        x = np.append(X[i], 1.0)
        q, x = squares.absorb(x), squares.near(x)
        oracle.step(x, 2.0 * y[i] - 1.0, 20.0 * (max(q, x @ x) if explicit else q) / 0.81)
        learner.learn(X[i : i + 1], y[i : i + 1])
        weights = learner.weights()
        assert_allclose(oracle.w, [*weights.coefficients[1], weights.bias[1]], atol=1e-10)


def test_a_fixed_number_of_candidates_stays():
    """With a fixed number, all exist from the start, and the last one restarts, too."""
    X, y = stream(64)
    learner = built(candidates=3)
    assert [8, 16, 32] == learner.info()["epochs"]
    learner.learn(X, y)
    assert [8, 16, 32] == learner.info()["epochs"]
    assert not learner.weights().coefficients.any()  # 64 rows end every epoch


@pytest.mark.parametrize("explicit", [False, True])
def test_classes_equal_the_oracle(explicit):
    """Columns after every row equal those of the slow form, whose direction is the softmax of the rivals."""
    X, _ = stream(300)
    y = np.argmax(X[:, :3], axis=1)
    learner = built("odm", classes=3, step="explicit" if explicit else "implicit")
    oracle, squares = Classes(3, 5, explicit), MeanSquare()
    for i in range(len(y)):
        x = np.append(X[i], 1.0)
        q, x = squares.absorb(x), squares.near(x)
        oracle.step(x, y[i], 20.0 * (max(q, x @ x) if explicit else q) / 0.81)
        learner.learn(X[i : i + 1], y[i : i + 1])
        assert_allclose(oracle.W, learner.W[:, 0], atol=1e-10)
    assert_allclose(0.0, learner.W.sum(axis=0), atol=1e-10)


def test_several_classes_follow_a_change():
    """After the change, predictions are soon mostly right again."""
    X, _ = stream(3000)
    y = np.argmax(X[:, :3], axis=1)
    y[2000:] = (y[2000:] + 1) % 3
    learner = built(classes=3)
    told = learner.learn(X, y).value
    assert (told == y)[2100:].mean() > 0.8


def test_in_a_majority_vote_each_candidate_votes_for_one_class():
    """Scores are sums of votes, 1 for one class and -1 for the others; a candidate without weights does not vote."""
    X, _ = stream(700)
    y = np.argmax(X[:, :3], axis=1)
    learner = built(classes=3, vote="majority")
    learner.learn(X, y)
    K = learner.count
    learner.W[:, K - 2] = 0.0
    f = np.einsum("ckd,nd->nck", learner.W[:, :K], np.c_[X, np.ones(len(X))])
    votes = np.where(f == f.max(axis=1, keepdims=True), 1.0, -1.0)
    votes[:, :, K - 2] = 0.0
    scores = votes @ learner.shares[:K]
    p = np.exp(learner.calibration[0] * scores)
    assert_allclose(p / p.sum(axis=1, keepdims=True), learner.predict(X).probabilities, atol=1e-5)


def test_a_late_class_is_learned():
    """A third class that appears after 2000 rows is rarely predicted before its rows, and well after some hundred."""
    X, _ = stream(4000)
    y = np.argmax(X[:, :3], axis=1)
    early = y[:2000] < 2
    learner = built()
    learner.learn(np.ascontiguousarray(X[:2000][early]), y[:2000][early])
    learner.add_class()
    assert (learner.predict(X[:500]).value == 2).mean() < 0.05
    told = learner.learn(X[2000:], y[2000:]).value
    assert (told == y[2000:])[1000:].mean() > 0.85


def test_a_majority_vote_counts_signs():
    """With one candidate the vote is the label of its score; there is no linear model to show."""
    X, y = stream(400)
    majority, weighted = built(vote="majority"), built()
    assert_array_equal(majority.learn(X[:8], y[:8]).value, weighted.learn(X[:8], y[:8]).value)
    assert majority.weights() is None
    assert (majority.learn(X[8:], y[8:]).value == y[8:]).mean() > 0.8


def test_probabilities_are_calibrated():
    """On a stationary stream, predictions of .8 to .9 are right about as often."""
    X, y = stream(20_000)
    told = built().learn(X, y)
    sure = told.probabilities.max(axis=1)[5000:]
    right = (told.value == y)[5000:]
    for low in (0.6, 0.7, 0.8, 0.9):
        among = (sure > low) & (sure <= low + 0.1)
        assert abs(sure[among].mean() - right[among].mean()) < 0.05


def test_the_margin_is_shown():
    """``info`` has the mean and deviation of recent margins."""
    X, y = stream(900)
    learner = built("odm")
    margins = []
    for i in range(len(y)):
        weights = learner.weights()
        margins.append((weights.coefficients[1] @ X[i] + weights.bias[1]) * (2.0 * y[i] - 1.0))
        learner.learn(X[i : i + 1], y[i : i + 1])
    info = learner.info()
    assert_allclose([np.mean(margins), np.std(margins)], [info["margin_mean"], info["margin_std"]], rtol=1e-9)
