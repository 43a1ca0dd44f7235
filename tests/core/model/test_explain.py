"""Why a row is predicted as it is: checked against weights, Shapley's definition and the prediction."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.features import row_sample
from core.learners.catalogue import ALGORITHMS
from core.model import Model, explain, read, save
from tests.core.model.test_posterior import _X, CASES, N, taught
from tests.core.numerics.test_shapley import by_definition, groups_of
from tests.core.twin import Fed

EXACT = {name for name in ALGORITHMS if not name.startswith(("auto", "vigo"))}


def score(model, X):
    """For rows (n, F): the number, or the log odds of the class that is predicted for the last row."""
    found = read.predict(model.own, np.ascontiguousarray(X))
    if model.regression:
        return found.value
    q = found.probabilities[:, found.value[-1]]
    return np.log(q / (1.0 - q))


@pytest.mark.parametrize("rows", [0, 1, N])
@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_contributions_add_up_and_nothing_changes(algorithm, task, rows):
    """They add up to the score, for every algorithm, even before the first row; finite for wild values, too."""
    model = taught(algorithm, task, max(rows, 1))
    if not rows:
        model = Model.first(model.config)
    before = save.to_bytes(model)
    for x in (_X[3], np.array([1e300, -1e300, 0.0]), np.zeros(3)):
        found = explain.explain(model.own, x[None])
        assert ["a", "b", "c"] == [*found.contributions]
        assert all(map(math.isfinite, found.contributions.values()))
        if rows and np.abs(x).max() < 1e9:
            total = found.base + sum(found.contributions.values())
            assert_allclose(total, score(model, x[None])[0], rtol=1e-9, atol=1e-9)
    assert (algorithm not in EXACT) == found.sampled
    assert before == save.to_bytes(model)


@pytest.mark.parametrize("scaling", ["none", "standard"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_linear_model_is_explained_by_its_weights(task, scaling):
    """Weights times the distance from the sample's mean; for classes in units of the log odds."""
    model = taught("dfop", task, params={"scaling": scaling})
    mean = _X.mean(axis=0)
    w = read.weights(model.own).coefficients[-1]
    for x in _X[:5]:
        found = explain.explain(model.own, x[None])
        parts = np.array([*found.contributions.values()])
        expected = w * (x - mean)
        if task == "regression":  # members' scores are clipped to near the labels seen
            assert_allclose(parts, expected, rtol=0.05)
        expected *= parts.sum() / expected.sum()
        assert_allclose(parts, expected, rtol=1e-6, atol=1e-9)
        assert_allclose(found.base, score(model, np.vstack([mean, x]))[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["auto", "vigo", "ga2m"])
def test_shapley_values_of_small_models(algorithm):
    """By definition of the answer's log odds; for ga2m of the learner's own score, in units of the answer's."""
    model = taught(algorithm, "classification")
    mean, space = _X.mean(axis=0), model.own.switching.in_force
    for x in _X[:4]:
        found = explain.explain(model.own, x[None])
        parts = np.array([*found.contributions.values()])

        def values(rows, x=x):
            if algorithm == "ga2m":
                p = space.predict_encoded(rows.copy()).probabilities[:, 1]
                return np.log(p / (1.0 - p))
            return score(model, np.vstack([rows, x]))

        expected = by_definition(values, x, mean, groups_of(1, 1, 1))
        if algorithm == "ga2m":
            expected *= parts.sum() / expected.sum()
        assert_allclose(parts, expected, rtol=1e-6, atol=1e-9)


def test_parts_that_cancel_are_not_blown_up():
    """If the score equals the mean row's, contributions stay about as large as the weights."""
    model = taught("rls", "classification")
    mean, w = _X.mean(axis=0), read.weights(model.own).coefficients[-1]
    away = np.array([w[1], -w[0], 0.0])  # w away = 0
    found = explain.explain(model.own, (mean + away)[None])
    a, b, c = found.contributions.values()
    assert abs(a + b + c) < 1e-6 < abs(a) < 100.0


def test_the_columns_of_a_feature_count_as_one_and_lags_count():
    """A category has many columns but one contribution; each lag of a feature or label has its own."""
    features = ["x", {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}]
    model = Fed({"algorithm": "rls", "task": "regression", "features": features, "lags": 1})
    raw = np.column_stack([np.arange(60.0) % 7, np.arange(60) % 3])
    y = [row[0] + 10.0 * (row[1] == 1) for row in raw]
    model.learn(raw, y)
    found = explain.explain(model.machine.own, np.array([[3.0, 1.0]]))
    assert ["x", "day", "x (t-1)", "day (t-1)", "label (t-1)"] == [*found.contributions]
    assert 6.0 == pytest.approx(found.contributions["day"], abs=0.8)  # 10 (1 - 1/3)
    assert {"x (t-1)": raw[-1, 0], "day (t-1)": None, "label (t-1)": y[-1]} == found.values


def test_effects_are_means_over_the_sample():
    """A feature that decides the label matters, a noise feature does not; with three classes and ga2m, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    for algorithm in ("dfop", "ga2m", "auto"):
        for bounds in ([0.0], [-0.5, 0.5]):
            model = Fed({"algorithm": algorithm, "task": "classification", "features": ["a", "b", "c"]})
            model.learn(X, np.digitize(X[:, 1], bounds).tolist())
            found, rows = explain.effects(model.machine.own)
            assert row_sample.SAMPLE_ROWS_MAX == rows
            assert found["b"] > 3.0 * max(found["a"], found["c"])


def test_effects_of_a_linear_model_are_its_weights():
    """|w| times the mean distance from the mean."""
    model = taught("rls", "regression")
    found, rows = explain.effects(model.own)
    w = read.weights(model.own).coefficients[0]
    expected = np.abs(w) * np.abs(_X - _X.mean(axis=0)).mean(axis=0)
    assert N == rows
    assert_allclose([*found.values()], expected, rtol=1e-6)
