"""`auto` for numbers: its mixture and its stacks against plain Python, lags, and what it reports about its experts."""

import math

import numpy as np
import pytest
from msgspec.structs import astuple
from numpy.testing import assert_allclose

from core.learners.auto.kernels import WEIGHT
from core.learners.auto.label_unit import LabelUnit
from core.learners.auto.mixture import ExpertMixture
from core.learners.auto.stacks import GAIN_FIRST, first_gains, learn_stack, stack
from tests.core.learners.streams import learner_of, relative


def learner(dimension=3, algorithm="auto"):
    return learner_of(algorithm, dimension, task="regression", seed=3)


def series(rows, seed=0):
    """A label that follows from the last two labels and from the last row."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(rows, 3)), np.zeros(rows)
    for t in range(2, rows):
        y[t] = 1.5 * y[t - 1] - 0.6 * y[t - 2] + X[t - 1, 0] + 0.1 * rng.normal()
    return X, y


def oracle(P, S, y, weights):
    """The equations of core.learners.auto.kernels: predictions, their deviations, and the final weights."""
    B, n = len(P) + 1, len(y)
    E, gains, sums = B + 2, [0.3 * np.eye(B), 0.3 * np.eye(B)], np.zeros((2, B))
    w, m, D, c, last, low, high, said = np.full(E, 1 / E), np.zeros(E), 0.0, 1.0, 0.0, 0.0, 0.0, []
    for t in range(n):
        p = np.append(P[:, t], [last, 0.0, 0.0])
        most = ((1 + 2 * max(0.1, 4 / t - 0.1)) * (high - low)) ** 2 if t > 2 else np.inf
        D, m = min(D, most), np.minimum(m, most)
        reach = max(0.1, 4 / t - 0.1) * (high - low) if t else np.inf
        held = low - reach, high + reach
        p[:B] = np.clip(p[:B], *held)
        base, scale = w[:B] @ p[:B] / w[:B].sum(), math.sqrt(D)
        x = (p[:B] - base) / scale if t >= 20 else np.zeros(B)
        p[B:] = np.clip(base + scale * sums @ x, *held)
        a = np.maximum(w - 0.002 / E, 0) / np.maximum(w - 0.002 / E, 0).sum()
        o = a @ p
        variance = a @ (np.append(np.minimum(S[:, t] ** 2, most), m[B - 1 :]) + (p - o) ** 2)
        said.append((o, math.sqrt(c * variance)))
        if t >= 20:
            c += weights[t] * max(1 / t, 0.01) * (min((y[t] - o) ** 2 / variance, 100 * c) - c)
            c = np.clip(c, 1 / 400, 25)
            for at, forgetting in enumerate((0.998, 0.9995)):
                Q, e = gains[at], np.clip((y[t] - base) / scale - sums[at] @ x, -5.0, 5.0)
                kept = 1.0 if np.trace(Q) > 30.0 * B else forgetting
                k = Q @ x / (kept / weights[t] + x @ Q @ x)
                sums[at] += k * e
                gains[at] = (Q - np.outer(k, x @ Q)) / kept
        losses, r = (p - y[t]) ** 2, max(1 / (t + 1), 1e-3)
        D += weights[t] * r * ((o - y[t]) ** 2 - D)
        m += r * (losses - m)
        w = w * np.exp(-0.3 * weights[t] * np.minimum((losses - losses.min()) / D, 4))
        w = 0.999 * w / w.sum() + 0.001 / E
        last, low, high = y[t], min(low, y[t]) if t else y[t], max(high, y[t]) if t else y[t]
    return np.array(said), w


def mixture(names):
    return ExpertMixture(names, regression=True)


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mixture_follows_its_equations(weighted, offset):
    """Values, deviations and weights equal a plain Python loop, with and without row weights."""
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=300)) + offset
    P = y + rng.normal(size=(4, 300)) * np.array([[0.1], [1.0], [3.0], [0.3]])
    P[3, 100:] += 5.0
    S, weights = rng.uniform(0.5, 1.0, P.shape), rng.uniform(0.1, 3.0, 300) if weighted else np.ones(300)
    built = mixture("abcd")
    value, _, std, _ = astuple(built.learn(np.stack([P, S], axis=1), y, weights if weighted else np.empty(0)))
    expected, w = oracle(P, S, y, relative(weights))
    assert_allclose(expected[:, 0], value, rtol=1e-6)
    assert_allclose(expected[:, 1], std, rtol=1e-6)
    assert_allclose(w, built.table[WEIGHT], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("noise", "weight"), [(0.02, 1.0), (0.1, 1.0), (1.0, 1.0), (1.0, 100.0)])
def test_deviations_are_those_of_its_errors(noise, weight):
    """Also where it predicts far better than most of its experts, for labels that are far from 0, and heavy rows."""
    X = np.random.default_rng(1).normal(size=(3000, 3))
    y = X[:, 0] - X[:, 1] + noise * np.random.default_rng(2).normal(size=3000) + 20
    value, _, std, _ = astuple(learner().learn(X, y, None, np.full(3000, weight)))
    assert 1.0 == pytest.approx(np.sqrt(np.mean(((value - y) / std)[1000:] ** 2)), rel=0.25)


def test_equal_labels_have_no_deviation():
    """From row 20 on; before that it may be anything."""
    X = np.random.default_rng(1).normal(size=(300, 3))
    assert not learner().learn(X, np.full(300, 20.0)).std[20:].any()


def test_it_reports_the_weight_and_the_prediction_of_each_expert():
    """Weights that add up to one, mean squared errors, and in an explanation each expert's own prediction."""
    built = learner()
    assert {None} == {one["mse"] for one in built.info()["experts"]}
    X, y = series(500)
    built.learn(X, y)
    told = {one["expert"]: one for one in built.info()["experts"]}
    assert [*built.team.experts, "last_value", "stack", "stack_slow"] == [*told]
    assert 1.0 == pytest.approx(sum(one["weight"] for one in told.values()))
    assert told["rls_lagged"]["mse"] < 0.1 * told["last_value"]["mse"] < told["dfop"]["mse"]
    explained = built.explain(X[:1])
    assert [] == explained["classes"]
    dfop = explained["experts"][0]
    assert {"expert", "weight", "prediction"} == set(dfop)
    assert built.team.experts["dfop"].predict(X[:1]).value[0] == dfop["prediction"]


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_the_unit_of_the_labels_does_not_matter(unit):
    """Experts that read the last labels as columns can give them any weight."""
    X, y = series(600)
    assert_allclose(learner().learn(X, y).value, learner().learn(X, y * unit).value / unit, atol=1e-6 * y.std())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([5.0, 5.0, 7.0, 4.0, 65.0, 67.0], [0.0, 0.0, 1.0, -0.5, 30.0, 30.0]),
        ([0.0, 1e-300, 3.0, *[1.0] * 18, 600.0], [0.0, 1.0, 30.0, *[10.0] * 18, 6000.0]),
        ([-1e308, 1e308], [0.0, 1.0]),
    ],
)
def test_labels_get_a_unit_at_once(labels, expected):
    """That of the first two different ones, unless these are nearly equal; it stays after 20."""
    assert_allclose(LabelUnit().scale(np.array(labels)), expected, rtol=1e-12)


def test_an_idle_start_does_not_lead_far_off():
    """Labels that are equal up to round-off leave a unit in which the later ones would be huge."""
    X, y = series(600)
    y[:2] = 20.0, 20.0 + 1e-12
    assert np.abs(learner().learn(X, y).value - y)[2:].max() < 20 * y.std()


def test_it_follows_labels_that_jump():
    """From 200 rows after a jump of a thousand deviations on, its error is near that without a jump."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] - X[:, 1] + rng.normal(size=3000) / 10
    expected = np.square(learner().learn(X, y).value - y)
    y[2000:] += 1000.0
    error = np.square(learner().learn(X, y).value - y)
    assert error[2200:].mean() < 2 * expected[2200:].mean()


def test_mean_squared_errors_of_bad_experts_are_true():
    """Also where they are thousands of times as large as that of the mixture."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] - X[:, 1] + rng.normal(size=3000) / 100
    built = learner()
    built.learn(X, y)
    told = {one["expert"]: one["mse"] for one in built.info()["experts"]}
    assert told["dfop"] < 1e-3 * told["last_value"]
    assert np.mean(np.diff(y)[2000:] ** 2) == pytest.approx(told["last_value"], rel=0.15)


def test_it_continues_with_further_columns():
    """Lags included: experts that can take the columns predict as before, and the others have no weight yet."""
    X, y = series(600)
    few, more = learner(3), learner(4)
    few.learn(X, y)
    more.extend(few, np.array([0, 2, 3]))
    wider = np.ascontiguousarray(np.insert(X, 1, 0.0, axis=1))
    assert_allclose(few.predict(X[:50]).value, more.predict(wider[:50]).value, atol=0.02 * y.std())
    weights = {one["expert"]: one["weight"] for one in more.info()["experts"]}
    assert more.columns.unit.scale(y[:5]).tolist() == few.columns.unit.scale(y[:5]).tolist()
    assert 0.0 == weights["dfop_003_random"]
    assert weights["rls_lagged"] > 0.2


# -- stacks

RNG = np.random.default_rng(6)


def test_zero_rows_do_not_blow_it_up():
    """Columns of resting experts stay 0: gains stay bounded, and the next row is still learned."""
    P, w, room = first_gains(3)[0], np.zeros(3), np.empty(3)
    for _ in range(100_000):
        learn_stack(0, np.zeros(3), 0.3, 1.0, P, w, room)
    assert np.trace(P) < 1000 * GAIN_FIRST
    learn_stack(0, np.ones(3), 3.0, 1.0, P, w, room)
    assert 0.0 < stack(np.ones(3), w) < 5.0


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e20, 1e150])
def test_any_scale_of_labels(scale):
    """Predictions are finite, and better than a constant."""
    X = RNG.normal(size=(300, 2))
    y = X @ [1.0, -1.0] + X[:, 0] * X[:, 1]
    predicted = learner(2).learn(X, scale * y).value / scale
    assert ((predicted - y)[100:] ** 2).mean() < 0.5 * y.var()


def test_rows_of_which_only_the_last_label_is_known_leave_the_same_bits():
    """As rows with numbers and lag columns that are unknown: nothing is read that is not there."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    short, long = learner(), learner()
    for at in range(200):
        past = np.full((1, 1 + long.returned_past([None]).shape[1]), np.nan)
        past[0, 0] = y[at - 2] if at > 1 else 0.0
        np.full(8, 1e6)  # what memory that is free again may hold
        for one, told in ((short, past[:, :1]), (long, past)):
            one.learn(X[at : at + 1], y[at : at + 1], None, None, told)
    arrays, _ = short.to_arrays()
    for name, expected in long.to_arrays()[0].items():
        np.testing.assert_array_equal(expected, arrays[name], err_msg=name)


@pytest.mark.parametrize("spoiled", [0, 2, 5])
def test_a_past_that_is_not_all_numbers_is_not_used(spoiled):
    """It counts as unknown."""
    one = learner()
    kept = np.ones(one.returned_past([None]).shape[1])
    assert np.isfinite(one.returned_past([tuple(kept)])).all()
    kept[spoiled] = np.nan
    assert np.isnan(one.returned_past([tuple(kept)])).all()


def test_predictions_of_many_rows_keep_nothing_of_the_experts():
    """What they keep would stay in memory until all rows are answered."""
    one = learner()
    one.learn(np.zeros((5, 3)), np.arange(5.0))
    assert one.predict(np.zeros((10_000, 3))).experts is not None
    assert one.predict(np.zeros((10_001, 3))).experts is None
