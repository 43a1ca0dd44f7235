"""A change of the configuration as an entry of the log: what it changes at its row, and what it leaves alone."""

import json

import numpy as np
import pytest

from core.entry import Challenge, Outcome, Promote, Reset, Restore, Switch, Withdraw
from core.features import Feature, parse_features
from core.model import read, save
from core.model.plans import plan_change, plan_switch, refuse_on_arrival
from core.problems import Invalid
from tests.core.twin import Twin

NAMES = ["a", "b"]
EACH = {"episode_rows": 0}
"""Every alarm is an event."""
WATCH = {"class_mean": {"batch_size": 40, "delta": 0.2}, "error_rate": {"batch_size": 40, "delta": 0.2}, **EACH}
JUMP, ROWS = 400, 700


def stream(rows=ROWS):
    """Rows whose labels flip at row JUMP, where the second feature jumps, too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    after = np.arange(rows) >= JUMP
    X[:, 1] += 3.0 * after
    return X, np.where(np.where(after, -1.0, 1.0) * X[:, 0] > 0, "up", "down").tolist()


class Model(Twin):
    """A classifier with two features and some changes to its configuration."""

    def __init__(self, **changes):
        body = {"algorithm": "dfop", "task": "classification", "features": NAMES, "watch": WATCH}
        super().__init__({**body, **changes})

    @property
    def alarms(self):
        """Kind, row and action of every alarm."""
        return [(one.kind, one.row, one.action) for one in self.machine.outbox.after((0, -1))]


def test_a_change_is_a_mark_and_nothing_else():
    """The configuration is the new one; rows, learner and metrics stay; a mark names the changed fields."""
    X, y = stream(50)
    model, other = Model(), Model()
    model.learn(X, y)
    other.learn(X, y)
    assert Outcome(50) == model.change(on_drift="reset", tags={"team": "a"}, missing="error")
    assert ("reset", {"team": "a"}) == (model.machine.config.on_drift, model.machine.config.tags)
    assert [{"row": 50, "kind": "configure", "fields": ["on_drift", "tags"]}] == model.marks
    assert np.array_equal(other.predict(X).probabilities, model.predict(X).probabilities)
    loaded, _ = save.from_bytes(save.to_bytes(model.machine))  # its marks have their keys in the same order
    assert json.dumps(model.report) == json.dumps(read.metrics_report(loaded))


@pytest.mark.parametrize("lags", [{}, {"lags": 1}], ids=["challenger", "former learner"])
def test_labels_are_added_only_if_no_learner_has_a_column_per_label(lags):
    """A challenger with lags is an obstacle, also one that was the model's own learner; without it they are added."""
    X, y = stream(20)
    model = Model(labels=["up", "down"], **lags)
    model.commit(Challenge("other", {"algorithm": "rls", "lags": 0 if lags else 1}, 8))
    model.learn(X, y)
    name = "previous" if lags else "other"
    if lags:
        model.commit(Promote("other"))
    assert f"challenger {name} has lags" in model.change(add_labels=["left"]).refusal
    assert ["up", "down"] == [*model.machine.config.labels]
    model.commit(Withdraw(name))
    assert model.change(add_labels=["left"]).refusal is None
    model.learn(X, y)


def test_the_action_on_drift_changes_at_its_row():
    """Earlier alarms are only reported, later ones reset the learner."""
    X, y = stream()
    model = Model()
    model.learn(X[:500], y[:500])
    before = len(model.alarms)
    model.change(on_drift="reset")
    model.learn(np.vstack([X[500:], X[:JUMP]]), y[500:] + y[:JUMP])
    assert {"report"} == {action for _, _, action in model.alarms[:before]}
    assert {"reset"} == {action for _, _, action in model.alarms[before:]}


@pytest.mark.parametrize("row", [0, 1, 300, 401, 450])
def test_a_test_that_stays_keeps_its_windows(row):
    """The error test raises the same alarms as in a model that had only this test from the first row on."""
    X, y = stream()
    changed, always = Model(), Model(watch={"error_rate": WATCH["error_rate"], **EACH})
    for model in (changed, always):
        if row:
            model.learn(X[:row], y[:row])
    changed.change(watch={"error_rate": WATCH["error_rate"], **EACH})
    for model in (changed, always):
        model.learn(X[row:], y[row:])
    assert [one for one in always.alarms if one[1] > row] == [one for one in changed.alarms if one[1] > row]
    assert always.alarms


def test_a_new_test_starts_empty():
    """It finds only drifts after its first row and compares nothing with rows before."""
    X, y = stream()
    late, young = Model(watch=None), Model(watch={"class_mean": WATCH["class_mean"], **EACH})
    late.learn(X[:300], y[:300])
    late.change(watch={"class_mean": WATCH["class_mean"], **EACH})
    late.learn(X[300:], y[300:])
    young.learn(X[300:], y[300:])
    assert young.alarms
    assert [(kind, row + 300) for kind, row, _ in young.alarms] == [(kind, row) for kind, row, _ in late.alarms]


def test_a_test_with_other_batches_starts_empty():
    """Windows of another length hold other rows; delta can change while the windows stay."""
    X, y = stream()
    model = Model()
    model.learn(X[:300], y[:300])
    counters = model.machine.own.drift_response.detector.to_arrays()[0]["tallies"]
    model.change(watch={"class_mean": {"batch_size": 41}, "error_rate": {"batch_size": 40, "delta": 0.01}})
    after = model.machine.own.drift_response.detector.to_arrays()[0]["tallies"]
    assert np.array_equal(counters[:, 2:], after[:, 2:])
    assert counters[:, 2:].any()
    assert not after[:, :2].any()


def test_costs_change_the_answers():
    """From the row of the change on, and back again; a label added in the same change can get a cost."""
    X, y = stream(200)
    model = Model(labels=["up", "down"], watch=None)
    model.learn(X, y)
    before = model.machine.own.answers.named(model.predict(X).value)
    assert model.change(class_costs={"same": 1e6}).refusal is not None
    model.change(class_costs={"down": 1e6})
    assert {"down"} == {*model.machine.own.answers.named(model.predict(X).value)}
    assert {"down"} == {*model.learn(X[:20], y[:20]).predictions}
    model.change(class_costs={"same": 1e9}, add_labels=["same"])
    assert {"same"} == {*model.machine.own.answers.named(model.predict(X).value)}
    model.change(class_costs=None)
    after = model.machine.own.answers.named(model.predict(X).value)
    assert 0.9 < np.mean([one == other for one, other in zip(before, after, strict=True)])


@pytest.mark.parametrize(("before", "fill"), [("zero", [0.0, 0.0]), ("mean", [2.0, 3.0])])
def test_a_row_on_its_way_is_learned_after_missing_values_are_refused(before, fill):
    """It was valid when it was sent, so its gap is filled as it would have been then; after a reset with 0."""
    model = Model(missing=before, watch=None)
    model.learn(np.array([[1.0, 2.0], [3.0, 4.0]]), ["up", "down"])
    model.change(missing="error")
    gap = np.full((1, 2), np.nan)
    assert [fill] == model.machine.pipeline.encoder.encode(gap).tolist()
    assert model.learn(gap, ["up"]).learned
    assert "error" == model.machine.config.missing
    model.commit(Reset())
    assert model.learn(gap, ["up"]).learned


def test_the_old_model_of_an_ensemble_is_configured():
    """Late rows of its space have their gaps filled by the new setting, as those of the new space have."""
    model = Model(watch=None)
    model.learn(*stream(30))
    old = model.machine.prediction_schema
    model.commit(Switch("begin", (Feature("b"), Feature("c")), "linear"))
    model.learn(np.random.default_rng(1).normal(size=(30, 3)), ["up", "down"] * 15)
    model.commit(Switch("complete"))
    model.change(missing="mean")
    for space in (old, None):
        assert model.learn(np.full((1, 2), np.nan), ["up"], space).learned
    assert "mean" == model.machine.pipeline.encoder.missing


def test_a_label_removed_by_a_restore_is_refused():
    """A row under way may carry a label that was declared when it was sent; learning it would make an invalid state."""
    few, more = (Model(labels=labels).machine for labels in (["up", "down"], ["up", "down", "same"]))
    model = Model(labels=["up", "down", "same"])
    assert model.commit(Restore(save.to_bytes(few), "restore")).refusal is None
    before = save.to_bytes(model.machine)
    assert model.learn(np.zeros((1, 2)), ["same"]).refusal is not None
    assert before == save.to_bytes(model.machine)
    assert model.commit(Restore(save.to_bytes(more), "restore")).refusal is None
    assert model.learn(np.zeros((1, 2)), ["same"]).learned


def test_a_name_that_a_switch_has_dropped_may_be_ignored():
    """Its state is read back, and copied. The other way round, what is ignored does not become a feature."""
    model = Model()
    model.learn(*stream(20))
    with pytest.raises(Invalid, match="is a declared feature"):
        plan_change(model.machine, {"ignore": ["a"]})
    for step in (Switch("begin", parse_features(["b", "c"]), "linear"), Switch("complete")):
        assert model.commit(step).refusal is None
    assert model.change(ignore=["a"]).refusal is None
    for copied in (False, True):
        loaded, _ = save.from_bytes(save.to_bytes(model.machine, copied=copied))
        assert (("a",), model.machine.config.canonical) == (loaded.config.ignore, loaded.config.canonical)
    with pytest.raises(Invalid, match="ignores") as refused:
        plan_switch(model.machine, "begin", ["c", "a"])
    assert ["features[1]"] == [one.field for one in refused.value.problems]
    assert model.commit(Switch("begin", parse_features(["b", "d"]), "linear")).refusal is None
    config = model.machine.config.model_copy(update={"ignore": ("d",)})
    with pytest.raises(Invalid, match="is a declared feature"):
        refuse_on_arrival(model.machine, config, ["ignore"])
