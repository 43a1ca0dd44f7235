"""Experts after a switch: the weights in a slow loop, the paper's rates, wild predictions."""

import numpy as np
import pytest
from msgspec.structs import astuple
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Prediction
from core.switching.mixture import Mixture

E, K, N = 3, 4, 80


def mixture(experts=E, selects=False, horizon=None, seed=5, first_row=100):
    return Mixture(np.full(experts, 1 / experts), first_row, selects, horizon, seed)


def told(rng, experts=E):
    """Probabilities of some experts, the last of which is the best, and labels."""
    y = rng.integers(0, K, N)
    P = rng.dirichlet(np.ones(K), size=(experts, N))
    P[-1] = 0.6 * np.eye(K)[y] + 0.4 * P[-1]
    return [Prediction(p.argmax(axis=1), p) for p in P], y


def numbers(rng, experts=E):
    y = rng.normal(size=N)
    F = y + rng.normal(size=(experts, N)) * np.arange(1, experts + 1)[:, None]
    return [Prediction(f, None, np.full(N, 1.0 + k)) for k, f in enumerate(F)], y


def cut(predictions, part):
    return [Prediction(*(None if p is None else p[part] for p in astuple(one))) for one in predictions]


def relative(weights):
    """The weights of rows relative to the largest recent one."""
    most = 0.0
    for weight in weights:
        most = max(weight, 0.999 * most)
        yield weight / most


def slow(P, y, eta, share, geometric, weights):
    """The equations of the docstring, and the mixture's probabilities."""
    a, said, c = np.full(len(P), 1 / len(P)), [], [*relative(weights)]
    for i, label in enumerate(y):
        p = np.exp(a @ np.log(P[:, i])) if geometric else a @ P[:, i]
        said.append(p / p.sum())
        v = a * np.exp(c[i] * eta * np.log(np.maximum(P[:, i, label], 1e-6)))
        d = min(0.5, 1 / (i + 1)) if share is None else share
        a = d * v.sum() / len(v) + (1 - d) * v
        a /= a.sum()
    return np.array(said), a


T = 50
SHARE = 1 / (T - 1)
ENTROPY = -SHARE * np.log(SHARE) - (1 - SHARE) * np.log(1 - SHARE)


@pytest.mark.parametrize(
    ("experts", "how", "eta", "share", "geometric"),
    [
        pytest.param(E, {}, 1.0, None, False, id="combination"),
        pytest.param(2, {"horizon": T}, np.sqrt(8 * np.log(2) / T), 0.0, True, id="theorem 1 averages margins"),
        pytest.param(
            2, {"selects": True, "horizon": T}, np.sqrt(8 / T * (2 * np.log(2) + (T - 1) * ENTROPY)), SHARE, False,
            id="theorem 3 selects",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_and_probabilities_follow_the_equations(experts, how, eta, share, geometric, weighted):
    """By default the share is 1/t; the paper's rates follow from the horizon, and so does its share when it selects."""
    predictions, y = told(np.random.default_rng(0), experts)
    one, rows = mixture(experts, **how), np.random.default_rng(1).uniform(0.1, 5.0, N) if weighted else None
    said = one.learn(predictions, y, rows)
    P = np.stack([p.probabilities for p in predictions])
    expected, weights = slow(P, y, eta, share, geometric=geometric, weights=rows if weighted else np.ones(N))
    assert_allclose(weights, one.weights, rtol=1e-9)
    if "selects" not in how:
        assert_allclose(expected, said.probabilities, rtol=1e-9)
        assert_array_equal(expected.argmax(axis=1), said.value)
    if not how:
        assert_allclose(-np.log(np.take_along_axis(P, y[None, :, None], 2)).sum(axis=(1, 2)), one.losses)


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).uniform(0.1, 5.0, N)], ids=["plain", "weighted"])
@pytest.mark.parametrize("first", [(1 / 3, 1 / 3, 1 / 3), (0.7, 0.3, 0.0)])
def test_numbers_are_mixed_by_their_squared_errors(first, weights):
    """Errors are in units of the mixture's own mean squared error, numbers within the range of the labels.

    An expert that starts at 0 stays there until its error is within that.
    """
    predictions, y = numbers(np.random.default_rng(4))
    one = Mixture(np.array(first), 100, selects=False, horizon=None, seed=5)
    said = one.learn(predictions, y, weights)
    c = [*relative(np.ones(N) if weights is None else weights)]
    F = np.stack([p.value for p in predictions])
    S = np.stack([p.std for p in predictions])
    a, D, waited = np.array(first), 0.0, 0
    for i in range(N):
        width = np.ptp(y[:i]) if i else 0.0
        f = np.clip(F[:, i], y[:i].min() - width, y[:i].max() + width) if i >= 20 else F[:, i]
        assert_allclose(a @ f, said.value[i], rtol=1e-9)
        assert_allclose(np.sqrt(a @ (S[:, i] ** 2 + (f - a @ f) ** 2)), said.std[i], rtol=1e-9)
        D += max(1 / (i + 1), 0.01) * ((a @ f - y[i]) ** 2 - D)
        v, waits = a * np.exp(-c[i] * (f - y[i]) ** 2 / (2 * D)), (a == 0.0) & ((f - y[i]) ** 2 > D)
        d = min(0.5, 1 / (i + 1))
        a = np.where(waits, 0.0, d * v.sum() / E + (1 - d) * v)
        a /= a.sum()
        waited += waits.any()
    assert_allclose(a, one.weights, rtol=1e-9)
    assert (0.0 in first) == (0 < waited < N)


@pytest.mark.parametrize("make", [told, numbers])
def test_one_weight_of_all_rows_is_no_weight(make):
    """The bits are the same, in a block and row by row."""
    predictions, y = make(np.random.default_rng(2))
    plain, heavy, single = mixture(), mixture(), mixture()
    plain.learn(predictions, y)
    heavy.learn(predictions, y, np.full(N, 30.0))
    for i in range(N):
        single.learn(cut(predictions, slice(i, i + 1)), y[i : i + 1], np.ones(1))
    assert_array_equal(plain.weights, heavy.weights)
    assert_array_equal(plain.weights, single.weights)


def test_a_single_expert_is_not_mixed():
    """Its predictions stay the same and its weight stays one."""
    predictions, y = told(np.random.default_rng(7), 1)
    one = mixture(1, selects=True)
    assert_array_equal(predictions[0].probabilities, one.learn(predictions, y).probabilities)
    assert_array_equal([1.0], one.weights)


def test_votes_count_where_an_expert_has_no_probabilities():
    """A vote is worth .9; two voters that disagree are a tie, which the first class wins."""
    votes = [Prediction(np.array([1]), None), Prediction(np.array([0]), None)]
    assert_allclose([[0.5, 0.5]], mixture(2).predict(votes).probabilities)
    one = mixture(2)
    said = one.learn([*votes], np.array([2]))
    assert_allclose([[0.475, 0.475, 0.05]], said.probabilities)


def test_before_the_first_class_there_is_no_prediction():
    """The value is -1, and there are no probabilities."""
    empty = Prediction(np.full(3, -1), np.empty((3, 0)))
    said = mixture(2).predict([empty, empty])
    assert_array_equal(np.full(3, -1), said.value)
    assert (3, 0) == said.probabilities.shape


def test_a_probability_rounded_above_one_leaves_a_state_that_loads():
    """A mixture of ones may be 1 + 2e-16; the loss would be below 0."""
    one = mixture(2)
    certain = np.full((1, 1), 1.0 + 2.0**-52)
    one.learn([Prediction(np.zeros(1, dtype=np.int64), certain)] * 2, np.zeros(1, dtype=np.int64))
    assert_array_equal(np.zeros(2), one.losses)
    mixture(2).load_arrays(*one.to_arrays())


def test_after_a_wild_label_experts_are_told_apart_as_before():
    """It does not stay in the error that losses are measured in, although both experts are off by little; and it says
    nothing of them itself, whichever happens to be nearer.
    """
    found, rng = [], np.random.default_rng(0)
    y = rng.normal(size=400)
    for wild in (0.0, 1e6, -1e6):
        model, labels = mixture(2), y.copy()
        labels[100] += wild
        f = np.array([y + 0.1 * rng.normal(size=400), y + 0.2])
        f[:, 200:] = f[::-1, 200:]
        model.learn([Prediction(own[:101], None) for own in f], labels[:101])
        assert model.weights[0] > 0.9
        model.learn([Prediction(own[101:], None) for own in f], labels[101:])
        found.append(model.weights[1])
    assert min(found[1:]) > 0.9 * found[0] > 0.8
