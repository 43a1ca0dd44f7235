"""What a model holds, and why a row is predicted as it is: checked against rows, weights and Shapley's definition."""

import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.features import row_sample
from core.learners.catalogue import ALGORITHMS
from core.learners.posterior import count_numbers, spectral_norm
from core.model import Model, explain, plans, read, save
from tests.core.numerics.test_shapley import by_definition, groups_of
from tests.core.twin import Fed

CASES = [(name, task) for name, entry in ALGORITHMS.items() for task in entry.tasks if not entry.sparse]
NAMES, N = ("a", "b", "c"), 200
_rng = np.random.default_rng(3)
_X = _rng.normal(size=(N, len(NAMES))) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
_SCORE = (_X - [0.0, 5.0, 1.0]) @ [1.0, -0.1, 3.0] + 0.3 * _rng.normal(size=N)


def taught(algorithm, task, rows=N, **more):
    """A model that has learned rows; its labels are "no" and "yes", or numbers."""
    model = Fed({"algorithm": algorithm, "task": task, "features": [*NAMES], **more})
    model.learn(_X[:rows], _SCORE[:rows] if task == "regression" else classes(_SCORE[:rows]))
    return model.machine


def classes(scores):
    return [("no", "yes")[int(score > 0)] for score in scores]


def arrays(document):
    """Every array and number of a document."""
    if isinstance(document, dict | list):
        return [one for own in (document.values() if isinstance(document, dict) else document) for one in arrays(own)]
    return [] if isinstance(document, str | None) else [np.asarray(document, dtype=np.float64)]


@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_every_learner_shows_what_it_holds(algorithm, task):
    """All numbers are finite; some features, or the diagonal alone, give a part of it; nothing changes."""
    model = taught(algorithm, task)
    before, whole = save.to_bytes(model), read.posterior(model)
    assert all(np.isfinite(own).all() for own in arrays(whole))
    part, diagonal = read.posterior(model, ["a"]), read.posterior(model, diagonal=True)
    assert count_numbers(part) < count_numbers(whole)
    assert count_numbers(diagonal) <= count_numbers(whole)
    assert sum(own.size for own in arrays(whole)) == count_numbers(whole)
    assert before == save.to_bytes(model)
    json.dumps(whole, default=np.ndarray.tolist, allow_nan=False)


@pytest.mark.parametrize(
    ("lags", "shown"), [(0, ["a (t-1)", "bias"]), (1, ["a (t-1)", "a (t-1) (t-1)", "bias"])], ids=["none", "one"]
)
def test_a_feature_may_be_named_as_lags_are(lags, shown):
    """It is shown when it is asked for, with its own lags."""
    model = Fed({"algorithm": "rls", "task": "regression", "features": ["b", "a (t-1)"], "lags": lags})
    model.learn(_X[:50, :2], _SCORE[:50])
    assert shown == read.posterior(model.machine, ["a (t-1)"])["names"]
    contributions = explain.explain(model.machine.own, _X[:1, :2]).contributions
    assert {"b", *shown[:-1]} <= contributions.keys()


def test_a_feature_may_be_called_bias():
    """Values have names: the bias of least squares gets another one."""
    model = Fed({"algorithm": "rls", "task": "regression", "features": ["bias", "x"]})
    model.learn(_X[:5, :2], _SCORE[:5])
    assert ["bias", "x", "bias'"] == read.posterior(model.machine)["names"]
    assert ["bias", "bias'"] == read.posterior(model.machine, ["bias"])["names"]


@pytest.mark.parametrize("scaling", ["none", "standard", "minmax"])
def test_least_squares(scaling):
    """RLS's covariance is the inverse of X'X plus the ridge; times the noise it is that of the weights."""
    model = taught("rls", "regression", params={"scaling": scaling, "initial_variance": 1e6})
    found, weights = read.posterior(model), read.weights(model.own)
    assert ["a", "b", "c", "bias"] == found["names"]
    assert_allclose(found["norm"], np.linalg.norm(found["covariance"], 2))
    std = read.weight_deviations(model.own)
    if scaling == "none":
        A = np.column_stack([_X, np.ones(N)])
        assert_allclose(found["covariance"], np.linalg.inv(A.T @ A + np.eye(4) / 1e6), rtol=1e-6)
        assert_allclose(found["weights"]["value"], [*weights.coefficients[0], weights.bias[0]])
        assert found["noise_variance"] == pytest.approx(0.09, rel=0.2)
        assert_allclose(std[0], np.sqrt(found["noise_variance"] * np.diag(found["covariance"])[:3]))
    residual = _SCORE - np.column_stack([_X, np.ones(N)]) @ [*weights.coefficients[0], weights.bias[0]]
    design = np.column_stack([_X, np.ones(N)])
    classical = np.sqrt(np.diag(np.linalg.inv(design.T @ design))[:3] * (residual @ residual) / (N - 4))
    assert_allclose(std[0], classical, rtol=0.1 if scaling == "none" else 1.0)


def test_every_rate_of_a_bank():
    """Each has its share; the weights' deviations combine those within the rates and between them."""
    model = taught("dfop", "classification")
    found = read.posterior(model)
    rates = found["rates"].values()
    assert {"0", "0.0001", "0.01"} < found["rates"].keys()
    assert sum(one["share"] for one in rates) == pytest.approx(1.0)
    mean = sum(one["share"] * one["weights"]["yes"] for one in rates)
    weights = read.weights(model.own)
    yes = model.labels.index("yes")
    assert_allclose(mean, [*weights.coefficients[yes], weights.bias[yes]])
    variance = sum(one["share"] * (np.diag(one["covariance"]) + (one["weights"]["yes"] - mean) ** 2) for one in rates)
    assert_allclose(read.weight_deviations(model.own), np.sqrt([variance[:3]] * 2))


def test_gaussians():
    """If every row updates a class, its mean is that of its rows; the covariance explains the distances."""
    model = taught("vigo", "classification")
    classes = read.posterior(model)["classes"]
    assert {"no", "yes"} == classes.keys()
    explained = explain.experts(model.own, _X[:1])["densities"]
    for label, own in classes.items():
        apart = _X[0] - [own["mean"][name] for name in NAMES]
        distance = np.sqrt(apart @ np.linalg.solve(own["covariance"], apart))
        assert explained["distance"][explained["classes"].index(label)] == pytest.approx(distance)
        assert own["nu"] >= own["beta"] > 0 < own["count"]
    assert N + 2 == sum(own["c"] for own in classes.values())  # each class counts as one row more than it has


def test_curves_add_up_to_the_score():
    """The score is the sum of the bins that a row falls into, over columns and pairs."""
    model = taught("ga2m", "classification", params={"scaling": "robust"})
    found, row = read.posterior(model), dict(zip(NAMES, _X[0], strict=True))
    assert {"a", "b", "c", "a x b", "a x c", "b x c"} == found["curves"].keys()
    score = {label: found["bias"][label] for label in ("no", "yes")}
    for name, curve in found["curves"].items():
        columns = name.split(" x ")
        edges = curve["edges"] if columns[1:] else [curve["edges"]]
        place = tuple(int(np.searchsorted(own, row[x], "right")) for own, x in zip(edges, columns, strict=True))
        for label in score:
            score[label] += curve["values"][label][place]
    space = model.own.switching.in_force
    (p,) = space.predict(_X[:1]).probabilities
    yes = model.labels.index("yes")
    assert score["yes"] - score["no"] == pytest.approx(np.log(p[yes] / p[1 - yes]), abs=1e-4)


def test_a_pair_and_a_feature_of_its_name_are_told_apart():
    """A feature may be called as a pair of others is, and two pairs alike: no curve and no weight hides another."""
    names, pairs = ["a", "b", "a x b", "b x c", "c"], {"a x b'", "a x c", "a x b x c", "a x b x c'"}
    shown = {}
    for algorithm in ("ga2m", "auto"):
        model = Fed({"algorithm": algorithm, "task": "regression", "features": names})
        model.learn(_rng.normal(size=(50, 5)), _rng.normal(size=50))
        shown[algorithm] = read.posterior(model.machine)
    curves = shown["ga2m"]["curves"]
    assert 5 + 10 == len(curves)
    assert {*names, *pairs} <= curves.keys()
    assert all(2 == len(curves[name]["edges"]) for name in pairs)
    posteriors = [own["posterior"] for own in shown["auto"]["experts"].values()]
    listed = [own["names"] for own in posteriors if own is not None and "names" in own]
    assert 5 + 15 + 1 in {len(set(found)) for found in listed if pairs <= {*found}}


def test_candidates_and_experts():
    """Shares add up to 1; the candidates' mean by share is the model."""
    model = taught("dynamic_odm", "classification", params={"scaling": "none"})
    candidates = read.posterior(model)["candidates"]
    mean = sum(one["share"] * one["weights"]["yes"]["a"] for one in candidates)
    assert mean == pytest.approx(read.weights(model.own).coefficients[model.labels.index("yes")][0])
    assert all(0 <= one["rows"] <= N for one in candidates)
    experts = read.posterior(taught("auto", "classification"))["experts"]
    assert sum(one["share"] for one in experts.values()) == pytest.approx(1.0)
    assert "labels" in {one["family"] for one in experts.values() if one["posterior"] is None}
    assert "covariance" in experts["rls"]["posterior"]
    (steady,) = read.posterior(taught("fesl_c", "classification"))["experts"]
    assert {"name", "share", "weights", "bias"} == steady.keys()


@pytest.mark.parametrize("algorithm", ["fesl_c", "dfop", "auto", "vigo"])
def test_after_a_change_of_features(algorithm):
    """Every expert shows what it holds, and its share."""
    fed = Fed({"algorithm": algorithm, "task": "classification", "features": [*NAMES]})
    model = fed.machine
    fed.learn(_X, classes(_SCORE))
    fed.commit(plans.plan_switch(model, "begin", ["c", "d"]))
    fed.learn(np.column_stack([_X[:60], _X[:60, 0] - _X[:60, 1]]), classes(_SCORE[:60]))
    fed.commit(plans.plan_switch(model, "complete"))
    found = read.posterior(model)
    assert found["mapping_error"] is not None
    assert sum(one["share"] for one in found["experts"]) == pytest.approx(1.0)
    assert all(np.isfinite(own).all() for own in arrays(found))
    assert read.weight_deviations(model.own) is None


def test_the_norm_of_a_wide_matrix():
    """The method for many columns agrees with the exact one."""
    A = np.random.default_rng(1).normal(size=(80, 200))
    assert spectral_norm(A @ A.T) == pytest.approx(np.linalg.norm(A @ A.T, 2))
    assert 0.0 == spectral_norm(np.zeros((3, 3)))
    assert all(f"{found:.12g}" == repr(found) for found in (spectral_norm(A[:50] @ A[:50].T), spectral_norm(A @ A.T)))


# -- why a row is predicted as it is

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


@pytest.mark.parametrize("rows", [100, 150])
@pytest.mark.parametrize(("algorithm", "still"), [("auto", 2), ("ga2m", 2), ("vigo", 40)])
def test_a_column_that_never_varied_has_no_effect(algorithm, still, rows):
    """A boolean that was always true, numbers of 0.1: nothing, even if so many columns share the effects."""
    always = [{"name": "on", "type": "boolean"}, *(f"k{at}" for at in range(1, still))]
    varying = [f"x{at}" for at in range(still)]
    model = Fed({"algorithm": algorithm, "task": "classification", "features": [*varying, *always]})
    X = np.full((rows, 2 * still), 0.1)
    X[:, :still], X[:, still] = np.random.default_rng(0).normal(size=(rows, still)), 1.0
    model.learn(X, classes(X[:, 0] * X[:, 1] + X[:, 0]))
    own = model.machine.own
    for found in (explain.effects(own)[0], explain.explain(own, X[-1:]).contributions):
        assert [0.0] * still == [*found.values()][still:]
        assert all([*found.values()][:2])


@pytest.mark.parametrize("odd", [math.nextafter(0.1, 1.0), 0.1000001, 0.2])
@pytest.mark.parametrize("place", [0, 75])
def test_effects_do_not_depend_on_a_column_s_unit(place, odd):
    """A column of 0.1 but for one row has almost no effect, however little that row differs."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    X[:, 2], X[place, 2] = 0.1, odd
    for algorithm in ("ga2m", "odm", "vigo"):
        model = Fed({"algorithm": algorithm, "task": "classification", "features": ["a", "b", "c"]})
        model.learn(X, classes(X[:, 0] * X[:, 1] + X[:, 0]))
        found, _ = explain.effects(model.machine.own)
        assert found["c"] < 0.1 * found["a"]
