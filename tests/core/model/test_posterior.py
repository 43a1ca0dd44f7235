"""What a model holds, in readable form: checked against the rows or against the model's own predictions."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.learners.catalogue import ALGORITHMS
from core.learners.posterior import count_numbers, spectral_norm
from core.model import explain, plans, read, save
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
