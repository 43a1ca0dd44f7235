"""Online gradient descent: its equations in a slow loop, and moving a model; test_conformance covers the rest."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Transferable, Weights
from core.learners.calibration import PROBABILITY_MIN
from tests.core.learners.streams import learner_of

D = 3


def learner(task="classification", classes=0, dimension=D, **params):
    return learner_of("fesl_c", dimension, classes, task, **params)


def rows(classes, count=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, D)), rng.integers(0, classes, count)


def softmax(s):
    e = np.exp(s - s.max())
    return e / e.sum()


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_classes_are_learned_by_the_equations(classes, paper):
    """Softmax (logistic for two classes), scalar AdaGrad or 1/(c sqrt t), row by row."""
    X, y = rows(classes)
    model = learner(classes=classes, learning_rate=0.4, variant="paper" if paper else "default")
    told = model.learn(X, y)
    W, G = np.zeros((classes, D + 1)), 0.0
    for t, (x, label) in enumerate(zip(np.hstack([X, np.ones((60, 1))]), y, strict=True), start=1):
        p = softmax(W @ x)
        assert_allclose(p * (1 - classes * PROBABILITY_MIN) + PROBABILITY_MIN, told.probabilities[t - 1], rtol=1e-9)
        g = np.outer(p - np.eye(classes)[label], x)
        # two classes have one column w = w_1 - w_0, whose gradient is that of class 1 alone
        G += (g[1] ** 2).sum() if classes == 2 else (g**2).sum()
        step = 0.4 / np.sqrt(t if paper else G)
        W -= step * g / (2 if classes == 2 else 1)
    assert_allclose(W[:, :D], model.weights().coefficients, rtol=1e-9, atol=1e-12)
    assert_allclose(W[:, D], model.weights().bias, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("paper", [False, True])
def test_numbers_are_learned_by_the_equations(paper):
    """Squared loss; AdaGrad steps are in units of the labels' root mean square; the paper learns a wild one whole."""
    X, _ = rows(2)
    y = X @ [1.0, -2.0, 0.5] + 7
    wild = y.copy()
    wild[30], y[30] = 1e6, 1e6 if paper else 2 * y[:30].max() - y[:30].min()
    model = learner("regression", learning_rate=0.05, variant="paper" if paper else "default")
    told = model.learn(X, wild)
    w, G = np.zeros(D + 1), 0.0
    for t, x in enumerate(np.hstack([X, np.ones((60, 1))]), start=1):
        assert_allclose(w @ x, told.value[t - 1], rtol=1e-9, atol=1e-9)
        g = 2 * (w @ x - y[t - 1]) * x
        G += g @ g
        w -= 0.05 * g / np.sqrt(t) if paper else 0.05 * np.sqrt((y[:t] ** 2).mean()) * g / np.sqrt(G)
    assert_allclose(np.append(model.weights().coefficients, model.weights().bias), w, rtol=1e-9)


@pytest.mark.parametrize("classes", [0, 1, 2, 4])
def test_a_model_moves_with_its_weights(classes):
    """A learner that starts at another's weights predicts and steps alike; a restarted classifier steps far again."""
    task = "classification" if classes else "regression"
    X, y = rows(max(classes, 1))
    y = y if classes else X[:, 0] * 3
    model, other = learner(task, classes), learner(task, classes)
    model.learn(X, y)
    assert isinstance(other, Transferable)
    other.start_at(model.weights(), model)
    for part in ("value", "probabilities"):
        if (expected := getattr(model.predict(X), part)) is not None:
            assert_allclose(expected, getattr(other.predict(X), part), rtol=1e-12)
    tally = model.to_arrays()[0]["tally"]
    assert_array_equal(tally, other.to_arrays()[0]["tally"])
    model.restart()
    assert_array_equal(np.zeros(5) if classes else tally, model.to_arrays()[0]["tally"])


def test_weights_of_another_shape_are_ignored():
    """Weights for other classes leave the learner unchanged."""
    model = learner(classes=4)
    before = model.weights().coefficients
    model.start_at(Weights(np.ones((3, D)), np.ones(3)), learner(classes=4))
    assert_array_equal(before, model.weights().coefficients)
