"""VIGO, VIGOd and VIGOw compared with the oracles, and their alarms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.learners.catalogue import find
from tests.core.learners.streams import learner_of as built
from tests.core.learners.vigo.vigo_oracle import Paper, Repaired
from tests.core.refusals import problems

KINDS = ("vigo", "vigod", "vigow")


def feed(learner, X, y, known=0):
    """Learn row by row, adding classes as they appear; return a-priori classes, probabilities, and (row, alarm)."""
    values, shares, alarms = [], [], []
    for i in range(len(y)):
        while known <= y[i]:
            learner.add_class()
            known += 1
        told = learner.learn(X[i : i + 1], y[i : i + 1])
        values.append(int(told.value[0]))
        shares.append(told.probabilities[0])
        alarms += [(i, alarm) for alarm in learner.take_alarms()]
    return np.array(values), shares, alarms


def drifting(rows=600, D=3, classes=3, seed=0, rare=0.15):
    """Gaussian classes of different scales and shapes, one rare and late; halfway the centres move."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, rows, p=[(1 - rare) / (classes - 1)] * (classes - 1) + [rare])
    y[: rows // 10] %= 2
    centres = rng.normal(size=(2, classes, D)) * 1.5
    shapes = rng.normal(size=(classes, D, D))
    X = centres[(np.arange(rows) >= rows // 2).astype(int), y]
    X = X + np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(rows, D))) / 2
    _, first, index = np.unique(y, return_index=True, return_inverse=True)
    return np.ascontiguousarray(X * [1.0, 100.0, 0.01][:D]), np.argsort(np.argsort(first))[index].astype(np.int64)


def whole(X):
    """The ranges of all rows, as a client may declare them."""
    return tuple(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))


@pytest.mark.slow_but("0-*")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_default_is_the_repaired_form(kind, seed):
    """Classes, probabilities and alarms equal the slow oracle's, through a late class, resets and windows."""
    X, y = drifting(seed=seed)
    oracle = Repaired(kind, 3, 40)
    expected, p = oracle.learn(X, y)
    values, shares, alarms = feed(built(kind, 3, batch_size=40), X, y)
    assert_array_equal(expected, values)
    for one, other in zip(p, shares, strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    assert [(what, row, k) for what, row, k, *_ in oracle.alarms] == [(a.kind, row, a.cls) for row, a in alarms]
    assert (kind == "vigod") == bool(alarms)


@pytest.mark.parametrize("reset", ["full", "mean"])
@pytest.mark.parametrize("reset_on", ["class_mean", "both"])
def test_vigod_resets_as_asked(reset, reset_on):
    """Each kind of reset and of alarm follows the oracle, including the numbers in the alarm."""
    X, y = drifting(rows=900, seed=5)
    X[:, 0] += np.where((np.arange(len(y)) > 600) & (y == 0), 2.0, 0.0)
    options = {"reset": reset, "reset_on": reset_on, "delta": 0.1}
    oracle = Repaired("vigod", 3, 25, **options)
    expected, _ = oracle.learn(X, y)
    values, _, alarms = feed(built("vigod", 3, batch_size=25, **options), X, y)
    assert_array_equal(expected, values)
    assert len(oracle.alarms) == len(alarms) > 0
    for (what, row, k, before, after, epsilon), (at, alarm) in zip(oracle.alarms, alarms, strict=True):
        assert (what, row, k) == (alarm.kind, at, alarm.cls)
        columns = list(alarm.columns) if what == "class_mean" else 0
        assert_allclose(np.atleast_1d(before)[columns], np.squeeze(alarm.before), rtol=1e-9)
        assert_allclose(np.atleast_1d(after)[columns], np.squeeze(alarm.after), rtol=1e-9)
        assert_allclose(epsilon, alarm.epsilon, rtol=1e-12)
        assert alarm.n_after == 25
    assert ({"class_mean", "error_rate"} if reset_on == "both" else {"class_mean"}) == {a.kind for _, a in alarms}


@pytest.mark.slow_but("1-*")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_paper_s_variant_is_the_pseudo_code(kind, seed):
    """With iterations, the global building step and scaled inputs, Algorithms 2 to 4 predict the same classes."""
    X, y = drifting(rows=500, seed=seed, rare=0.3)
    X = X - X.min(axis=0)
    oracle = Paper(kind, 3, 30, low=X.min(axis=0), high=X.max(axis=0))
    expected = oracle.learn(X, y)
    values, _, alarms = feed(built(kind, 3, batch_size=30, variant="paper", ranges=whole(X)), X, y)
    assert_array_equal(expected, values)
    assert [(row, k) for row, k, _ in oracle.alarms] == [(row, a.cls) for row, a in alarms]
    assert (kind == "vigod") == bool(alarms)


def test_alarms_are_returned_once():
    """Taking alarms clears them, and so does the next block: they are not part of the state."""
    X, y = drifting(rows=1200, classes=2, rare=0.5, seed=2)
    learner = built("vigod", 3, 2, batch_size=50)
    learner.learn(X, y)
    assert learner.take_alarms()
    assert [] == learner.take_alarms()
    learner.learn(X, y)
    learner.learn(X[:1], y[:1])
    assert [] == learner.take_alarms()


def test_an_alarm_names_at_most_ten_columns_the_widest_first():
    """Of twelve shifted columns, the alarm lists the ten that moved most relative to their ranges, in that order."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 12)), np.zeros(200, dtype=np.int64)
    X[100:] += np.arange(12, 0, -1) * 5.0
    learner = built("vigod", 12, 1, batch_size=50)
    learner.learn(X, y)
    (alarm, *_) = learner.take_alarms()
    assert 10 == len(alarm.columns) == len(alarm.before) == len(alarm.after)
    spans = np.ptp(X[:132], axis=0)
    apart = np.abs(np.subtract(alarm.after, alarm.before)) / spans[list(alarm.columns)]
    assert (np.diff(apart) <= 0).all()
    assert (131, 0, 82, 50) == (alarm.row, alarm.cls, alarm.n_before, alarm.n_after)  # 32 rows were learned by doubling


def test_own_tests_follow_from_the_parameters():
    """VIGOd always tests class means, and the error rate if that resets it; the others have no test."""
    assert () == find("vigo").own_tests(find("vigo").complete({}))
    assert () == find("dfop").own_tests(find("dfop").complete({}))
    entry = find("vigod")
    assert ("class_mean",) == entry.own_tests(entry.complete({}))
    assert ("class_mean", "error_rate") == entry.own_tests(entry.complete({"reset_on": "both"}))


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({"delta": 0.0}, "> 0 and < 1"),
        ({"delta": 1.0}, "> 0 and < 1"),
        ({"batch_size": 1}, ">= 2 and <= 1e+06"),
        ({"reset": "some"}, ["full", "mean"]),
        ({"reset_on": "error_rate"}, ["class_mean", "both"]),
        ({"variant": "ours"}, ["default", "paper"]),
    ],
)
def test_parameters_out_of_range_are_refused(params, allowed):
    """The refusal names the parameter and what is allowed."""
    (problem,) = problems(find("vigod").complete, params)
    assert (f"params.{next(iter(params))}", allowed) == (problem.field, problem.allowed)
    assert {"exclusiveMaximum": 1.0}.items() <= find("vigod").describe()["params"]["properties"]["delta"].items()
