"""A row of weight c is learned like c rows: exactly where the mathematics says so, and never in the metrics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from core.learners.catalogue import ALGORITHMS
from core.learners.odm import kernels
from tests.core.learners.dfop.test_dfop import batch_solution, exciting, flat, with_bias
from tests.core.learners.dfop.test_dfop import build as build_dfop
from tests.core.learners.streams import D, Stream, build, feed, joined, learner_of, state, stream
from tests.core.twin import Fed

WEIGHTED = [algorithm for algorithm in ALGORITHMS.values() if algorithm.row_weights]
CASES = [
    pytest.param(algorithm, task, classes, id=f"{algorithm.id}-{task}{classes or ''}")
    for algorithm in WEIGHTED
    for task in algorithm.tasks
    for classes in ((2, 4) if task == "classification" else (0,))
]
every_case = pytest.mark.parametrize(("algorithm", "task", "classes"), CASES)


def learn(learner, rows, weights, cuts=()):
    """Learn a stream whose classes are all known, in blocks; return the predictions."""
    return joined(feed(learner, Stream(rows.X, rows.y, None, weights), cuts, known=len(rows.y)), "value")


def fresh(algorithm, task, classes, **params):
    learner = build(algorithm, task, **params)
    for _ in range(classes):
        learner.add_class()
    return learner


@every_case
def test_a_weight_of_one_is_no_weight(algorithm, task, classes):
    """The bits are the same, in blocks and row by row."""
    rows = stream(algorithm, task, classes)
    plain, ones, single = (fresh(algorithm, task, classes) for _ in range(3))
    expected = learn(plain, rows, None)
    assert_array_equal(expected, learn(ones, rows, np.ones(len(rows.y))))
    assert_array_equal(expected, learn(single, rows, np.ones(len(rows.y)), range(1, len(rows.y))))
    assert state(plain) == state(ones) == state(single)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 1.0), st.sampled_from([None, 0.01, 1e-3]))
def test_least_squares_with_weights_is_the_weighted_batch_solution(seed, least, rate):
    """The solution minimises sum c_i weight_i (y_i - w'x_i)^2 plus the prior; R is the precision of that sum."""
    X, y = exciting(60, seed=seed)
    weights = np.random.default_rng(seed).uniform(least, 3.0, 60)
    learner = build_dfop("rls" if rate is None else "dfop", **({} if rate is None else {"forgetting_rate": rate}))
    learner.learn(X, y, None, weights)
    lam = 1.0 - (rate or 0.0)
    root = np.sqrt(weights)[:, None]
    expected = batch_solution(with_bias(X) * root, y * root[:, 0], np.full(60, lam), 1e3 * (rate or 1.0))
    assert_allclose(expected, flat(learner), rtol=1e-6, atol=1e-8)
    rows = with_bias(X) * root * lam ** (np.arange(60)[::-1, None] / 2)
    precision = rows.T @ rows + lam**60 / (1e3 * (rate or 1.0)) * np.eye(4)
    assert_allclose(np.triu(precision), np.triu(learner.R[0]), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("narrow")
def test_wide_blocks_with_weights_of_one_are_those_without():
    """Matrix products give the same bits; test_conformance compares them with rows of other weights."""
    X, y = exciting(300)
    plain, ones = build_dfop(forgetting_rate=0.01), build_dfop(forgetting_rate=0.01)
    assert_array_equal(plain.learn(X, y).std, ones.learn(X, y, None, np.ones(300)).std)
    assert state(plain) == state(ones)


@given(st.floats(0.1, 50.0), st.floats(-2.0, 2.0), st.sampled_from([-1.0, 1.0]))
def test_an_implicit_odm_step_minimises_the_weighted_loss(weight, score, target):
    """The step minimises eta (|v|^2 / 2 + c lambda l(v)) + |v - w|^2 / 2."""
    odm = fresh(ALGORITHMS["odm"], "classification", 2, bias=False)
    x = np.array([0.5, -0.3, 0.2, 0.1])
    w = score * x / (x @ x)
    odm.W[0, 0], odm.counters[kernels.SQUARE] = w, x @ x
    q, theta, mu, lam = float(x @ x), 0.1, 0.1, 10.0
    eta = 1.0 / (1.0 + 2.0 * lam / (1.0 - theta) ** 2 * q)
    odm.learn(x[None], np.array([1 if target > 0 else 0]), None, np.array([weight]))

    def slope(v):
        """The gradient of the objective."""
        m = target * float(v @ x)
        loss = -max(1.0 - theta - m, 0.0) + mu * max(m - 1.0 - theta, 0.0)
        return eta * (v + weight * lam * 2.0 * loss / (1.0 - theta) ** 2 * target * x) + v - w

    assert_allclose(0.0, slope(odm.W[0, 0]), atol=1e-9)


@pytest.mark.parametrize(("task", "classes"), [("classification", 2), ("classification", 3), ("regression", 0)])
def test_a_gradient_step_scales_with_the_weight(task, classes):
    """With the paper's steps a row of weight c moves the model like a row of weight 1 at c times the learning rate."""
    algorithm = ALGORITHMS["fesl_c"]
    rows = stream(algorithm, task, classes)
    half = fresh(algorithm, task, classes, variant="paper", learning_rate=0.05)
    whole = fresh(algorithm, task, classes, variant="paper", learning_rate=0.1)
    learn(half, rows, np.full(len(rows.y), 2.0))
    learn(whole, rows, None)
    assert_allclose(whole.W, half.W, rtol=1e-12)


def test_heavier_rows_of_a_class_make_it_more_probable():
    """If two classes overlap, every learner predicts the one whose rows count ten times more often."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(2000, D)) + 0.3 * y[:, None]
    for algorithm in WEIGHTED:
        params = {"compressed_dim": D} if algorithm.sparse else {}
        shares = []
        for heavy in (1.0, 10.0):
            learner = learner_of(algorithm.id, D, 2, **params)
            shares.append((learner.learn(X, y, None, np.where(y == 1, heavy, 1.0)).value[500:] == 1).mean())
        assert shares[1] > shares[0] + 0.15, algorithm.id


@pytest.mark.parametrize("algorithm", ["dfop", "rls", "odm", "dynamic_odm", "fesl_c", "ga2m", "auto"])
def test_large_weights_spoil_neither_mixture_nor_calibration(algorithm):
    """With one large weight for all rows probabilities stay as good; a rare class with one is found more often."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2400, 4))
    score = X @ [1.0, -2.0, 0.5, 1.0] + rng.normal(size=2400)
    for share, heavy, light in ((0.5, 30.0, 30.0), (0.03, 32.0, 1.0)):
        y = (score > np.quantile(score, 1.0 - share)).astype(int)
        body = {"algorithm": algorithm, "task": "classification", "features": [*"abcd"], "labels": [0, 1]}
        plain, weighted = Fed(body), Fed(body)
        plain.learn(X, y.tolist())
        weighted.learn(X, y.tolist(), weights=np.where(y == 1, heavy, light))
        found, expected = weighted.report["overall"], plain.report["overall"]
        if heavy == light and "odm" not in algorithm:  # whose steps grow with the weight
            assert found["log_loss"] < 1.1 * expected["log_loss"]
        if heavy > light:
            assert found["roc_auc"] > expected["roc_auc"] - 0.05
            assert found["balanced_accuracy"] > expected["balanced_accuracy"] + 0.1


@pytest.mark.parametrize(("classes", "weight"), [(0, 1e-6), (0, 0.1), (2, 1e-6), (2, 0.1), (2, 30.0), (3, 0.1)])
def test_one_weight_of_all_rows_is_no_weight_for_ga2m(classes, weight):
    """How the weights of rows compare matters; rows of a number that weigh more than 1 also teach more."""
    task = "classification" if classes else "regression"
    rows = stream(ALGORITHMS["ga2m"], task, classes)
    plain, weighted = (fresh(ALGORITHMS["ga2m"], task, classes) for _ in range(2))
    learn(plain, rows, None)
    learn(weighted, rows, np.full(len(rows.y), weight))
    assert_allclose(plain.W, weighted.W, rtol=1e-6, atol=1e-9)


def test_weights_do_not_enter_the_metrics():
    """A wrong row of weight 1000 counts as one wrong row."""
    model = Fed({"algorithm": "dfop", "task": "classification", "features": [*"abcd"]})
    model.learn(np.ones((4, 4)), ["a", "a", "a", "b"], weights=np.array([1.0, 1.0, 1.0, 1e3]))
    assert 2 / 3 == model.report["overall"]["accuracy"]
