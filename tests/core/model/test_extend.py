"""Added labels and categories: learning goes on as if the new ones had been there, unused, all along."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.config import Config
from core.config.changes import changed
from core.entry import Outcome, Reset, Switch
from core.features import Feature, parse_features
from core.learners.catalogue import ALGORITHMS
from core.model import Model as CoreModel
from core.model import plans, save
from core.problems import Conflict, Invalid
from tests.core.refusals import fields
from tests.core.twin import Twin

FEW, MORE = ["mon", "tue"], ["mon", "tue", "wed", 4]
TEST = {"batch_size": 20, "delta": 0.5}
WATCH = {"class_mean": TEST, "error_rate": TEST, "episode_rows": 0}
ADDED = {"add_categories": {"day": MORE[2:]}}


def alarms(model):
    return [(alarm.kind, alarm.row) for alarm in model.machine.outbox.after((0, -1))]


def features(categories):
    return ["a", {"name": "day", "type": "categorical", "categories": categories}, "b"]


class Model(Twin):
    """A classifier with three features and some changes to its configuration."""

    def __init__(self, categories=FEW, **changes):
        body = {"algorithm": "rls", "task": "classification", "features": features(categories), "watch": WATCH}
        super().__init__({**body, **changes})


def stream(rows, categories, task="classification", seed=0, gaps=False):
    """Rows with categories as numbers, and their labels."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=rows), rng.integers(0, categories, rows), rng.normal(size=rows)]).astype(float)
    score = X[:, 0] + 0.5 * X[:, 1] - X[:, 2]
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, score if task == "regression" else np.where(score > 0, "up", "down").tolist()


@pytest.mark.parametrize("missing", ["error", "mean"])
@pytest.mark.parametrize(
    ("algorithm", "task", "params"),
    [
        ("rls", "classification", {}),
        ("rls", "regression", {"scaling": "standard"}),
        ("dynamic_odm", "classification", {}),
        ("odm", "classification", {"scaling": "none", "bias": False}),
        ("fesl_c", "regression", {}),
        ("fesl_c", "classification", {"scaling": "standard"}),
    ],
)
def test_added_categories_act_as_if_always_declared(algorithm, task, params, missing):
    """The model equals one created with all categories that learned the same rows, now and later."""
    how = {"algorithm": algorithm, "task": task, "params": params, "missing": missing}
    extended, always = Model(**how), Model(MORE, **how)
    X, y = stream(120, 2, task, gaps=missing == "mean")
    for model in (extended, always):
        model.learn(X, y)
    assert Outcome(120) == extended.change(**ADDED)
    assert always.machine.prediction_schema.id == extended.machine.prediction_schema.id
    later, labels = stream(80, 4, task, seed=1, gaps=missing == "mean")
    told = [model.learn(later, labels) for model in (extended, always)]
    assert_allclose(told[1].losses, told[0].losses, rtol=1e-7, atol=1e-9)
    part = "value" if task == "regression" else "probabilities"
    found = [getattr(model.predict(later), part) for model in (extended, always)]
    assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-9)
    assert alarms(always) == alarms(extended)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("algorithm", [name for name, entry in ALGORITHMS.items() if not entry.sparse])
def test_known_rows_are_predicted_as_before(algorithm, task):
    """Up to round-off, for every learner that can extend; the others say what to do instead and change nothing."""
    if task not in ALGORITHMS[algorithm].tasks:
        pytest.skip("the algorithm does not have this task")
    model = Model(algorithm=algorithm, task=task)
    X, y = stream(90, 2, task)
    model.learn(X, y)
    before, state = model.predict(X), save.to_bytes(model.machine)
    outcome = model.change(**ADDED)
    if algorithm.startswith("vigo") or algorithm == "ga2m":
        assert "/features/switch" in outcome.refusal
        assert state == save.to_bytes(model.machine)
        return
    assert Outcome(90) == outcome
    after = model.predict(X)
    if algorithm == "auto":  # some experts cannot, and start over
        assert_allclose(before.value, after.value, atol=0.05)
    elif task == "regression":
        assert_allclose(before.value, after.value, rtol=1e-12)
    else:
        assert_allclose(before.probabilities, after.probabilities, rtol=1e-12)
    assert {"row": 90, "kind": "configure", "fields": ["features"]} == model.marks[-1]
    later, labels = stream(60, 4, task, seed=1)
    assert model.learn(later, labels).learned


@pytest.mark.parametrize("algorithm", ["dfop", "odm"])
def test_random_features_have_no_further_columns(algorithm):
    """They were drawn for the existing columns."""
    model = Model(algorithm=algorithm, params={"random_features": 16})
    with pytest.raises(Invalid, match="/features/switch"):
        plans.plan_change(model.machine, ADDED)
    assert model.change(**ADDED).refusal is not None


def test_rows_on_their_way_are_rows_of_the_larger_space():
    """Categories are mapped by number, after one addition and after two; a switch treats them like any tracked row."""
    model = Model()
    model.learn(*stream(30, 2))
    first = model.machine.prediction_schema
    model.change(**ADDED)
    second = model.machine.prediction_schema
    model.change(add_categories={"day": ["sun"]})
    for space in (first, second):
        assert model.learn(*stream(10, 2), space).learned
    model.commit(Switch("begin", parse_features(["a", "c"]), "linear"))
    assert model.learn(*stream(10, 2), first).learned
    wide = np.random.default_rng(2).normal(size=(20, 4))
    wide[:, 1] = 4.0
    assert model.learn(wide, ["up", "down"] * 10).learned
    model.commit(Switch("complete"))
    assert model.learn(*stream(10, 2), second).learned
    model.commit(Switch("begin", parse_features(["d"]), "linear"))
    model.commit(Switch("complete"))
    assert {first.id, second.id} <= set(model.machine.own.switching.retired_spaces)
    assert model.learn(*stream(10, 2), first).refusal is not None


def test_categories_cannot_be_added_during_a_change_of_features():
    """In the overlap it is a conflict, after it only a switch helps; without features there is nothing to extend."""
    model = Model()
    model.learn(*stream(30, 2))
    model.commit(Switch("begin", (*parse_features(features(FEW)), Feature("c")), "linear"))
    with pytest.raises(Conflict, match="under way"):
        plans.plan_change(model.machine, ADDED)
    model.commit(Switch("complete"))
    with pytest.raises(Invalid, match="/features/switch"):
        plans.plan_change(model.machine, ADDED)
    with pytest.raises(Conflict, match="no features yet"):
        plans.plan_change(CoreModel.first(Config.parse({"algorithm": "rls", "task": "regression"})), ADDED)
    with pytest.raises(Invalid, match="names"):
        plans.plan_change(CoreModel.first(Config.parse({"algorithm": "sparse_dfop", "task": "regression"})), ADDED)


@pytest.mark.parametrize(
    ("added", "field"),
    [
        ([], "add_categories"),
        ({"day": "wed"}, "add_categories.day"),
        ({"day": ["wed", "wed"]}, "add_categories.day[1]"),
        ({"day": [1.5]}, "add_categories.day[0]"),
        ({"a": ["x"]}, "add_categories.a"),
        ({"colour": ["x"]}, "add_categories.colour"),
        ({"day": ["4"]}, "add_categories"),
    ],
)
def test_wrong_categories_are_refused_by_name(added, field):
    """No list, duplicates, invalid categories, a feature without categories, two that look alike."""
    assert [field] == fields(plans.plan_change, Model([*FEW, 4]).machine, {"add_categories": added})


def test_labels_are_added_after_the_others():
    """Existing ones are ignored; rows may carry the new ones from then on."""
    model = Model(labels=["up", "down"])
    model.learn(*stream(30, 2))
    assert Outcome(30) == model.change(add_labels=["same", "up", 7])
    assert ("up", "down", "same", 7) == model.machine.config.labels
    assert {"row": 30, "kind": "configure", "fields": ["labels"]} == model.marks[-1]
    assert model.learn(stream(2, 2)[0], ["same", 7]).learned
    model.commit(Reset())
    assert ("up", "down", "same", 7) == model.machine.config.labels


@pytest.mark.parametrize(
    ("labels", "added", "problem"),
    [
        (["a", "b"], "c", "list"), (["a", "b"], ["c", "c"], "twice"), (["a", "b"], [1.5], "label"),
        ([0, 1], ["0"], "looks in answers like"), (["a", "b"], [str(at) for at in range(5000)], "labels"),
        (None, ["c"], "not declared"), ("numbers", ["a"], "numbers"),
    ],
)  # fmt: skip
def test_impossible_labels_are_refused(labels, added, problem):
    """The refusal names the field and what is wrong."""
    task = {"task": "regression"} if labels == "numbers" else {"task": "classification", "labels": labels}
    config = Config.parse({"algorithm": "rls", **task})
    with pytest.raises(Invalid) as refused:
        changed(config, {"add_labels": added})
    assert refused.value.problems[0].field.startswith("add_labels")
    assert problem in str(refused.value)
