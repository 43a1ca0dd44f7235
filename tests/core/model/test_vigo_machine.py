"""VIGO in the state machine: its own alarms are the model's, once, at the exact row, whatever is done about them."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.config import Config
from core.config.watch import WatchTest as Settings
from core.contract import Spec
from core.entry import Entry, Rows
from core.learners.catalogue import find
from core.model import Model, save
from core.model.apply import apply

D, ROWS, JUMP = 3, 900, 500
NAMES = ["a", "b", "c"]
PARAMS = {"batch_size": 40}


def machine(action="report", **params):
    body = {"algorithm": "vigod", "params": PARAMS | params, "features": NAMES, "on_drift": action}
    return Model.first(Config.parse(body))


def stream():
    """Two classes that change places at one row."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, ROWS)
    side = np.where(np.arange(ROWS) < JUMP, labels, 1 - labels)
    return rng.normal(size=(ROWS, D)) + 3.0 * side[:, None], ["up" if label else "down" for label in labels]


def learn(model, X, y, cuts=()):
    """Learn rows in entries that end at ``cuts``; the a-priori labels."""
    told = []
    ends = sorted({*cuts, len(X)} - {0})
    for version, (i, j) in enumerate(zip([0, *ends[:-1]], ends, strict=True), start=1):
        (outcome,) = apply(model, Entry(version, 1000, (Rows(model.prediction_schema.id, None, X[i:j], y[i:j]),)))
        told += outcome.predictions
    return told


def alarms(model):
    """The alarms in the outbox, without what depends on how the rows were cut."""
    return [replace(drift, version=0, index=0, time_ms=0) for drift in model.outbox.after((0, 0, -1))]


@pytest.mark.parametrize("action", ["report", "reset", "forget"])
@pytest.mark.parametrize("reset_on", ["class_mean", "both"])
def test_how_rows_are_cut_does_not_matter(action, reset_on):
    """In one entry, in pieces or row by row: the same answers, alarms and learner."""
    X, y = stream()
    whole, cut, single = (machine(action, reset_on=reset_on) for _ in range(3))
    expected = learn(whole, X, y)
    assert expected == learn(cut, X, y, range(0, ROWS, 37))
    assert expected == learn(single, X, y, range(ROWS))
    assert alarms(whole)
    for other in (cut, single):
        assert alarms(whole) == alarms(other)
        other.outbox = whole.outbox
        assert save.to_bytes(whole) == save.to_bytes(other)


def test_the_model_s_own_test_is_the_only_one_of_its_kind():
    """Moved class means are told by VIGOd itself and by nobody else: each of its alarms is told once."""
    X, y = stream()
    model = machine()
    learn(model, X, y)
    algorithm = find("vigod")
    learner = algorithm.build(Spec("classification", D, algorithm.complete(PARAMS)))
    indices = {label: k for k, label in enumerate(dict.fromkeys(y))}
    expected, known = [], 0
    for row in range(ROWS):
        while known <= indices[y[row]]:
            learner.add_class()
            known += 1
        learner.learn(X[row : row + 1], np.array([indices[y[row]]]))
        expected += [(row + 1, y[row]) for _ in learner.take_alarms()]
    raised = [one for drift in alarms(model) for one in (drift, *drift.alarms)]
    found = [(one.row, one.label) for one in raised if one.kind == "class_mean"]
    assert expected == found
    assert {"up", "down"} == {label for _, label in found}


@pytest.mark.parametrize("action", ["report", "reset", "forget"])
@pytest.mark.parametrize("reset_on", ["class_mean", "both"])
def test_an_alarm_says_that_the_class_starts_anew(action, reset_on):
    """VIGOd answers its own alarms, whatever else the model does; what it leaves to the watch does what was asked."""
    X, y = stream()
    model = machine(action, reset_on=reset_on)
    learn(model, X, y)
    watch = model.config.watch.model_copy(update={"class_mean": Settings(), "error_rate": Settings(batch_size=10_000)})
    blind = Model.first(model.config.model_copy(update={"watch": watch}))
    learn(blind, X, y)
    assert {("class_mean", "reset")} <= {(d.kind, d.action) for d in alarms(blind)}
    own = ("class_mean",) if reset_on == "class_mean" else ("class_mean", "error_rate")
    expected = [(d.row, d.kind, "reset" if d.kind in own else action) for d in alarms(model)]
    assert expected == [(d.row, d.kind, d.action) for d in alarms(model)]
    marks = [mark for mark in model.own.metrics.report()["marks"] if mark["kind"] == "drift"]
    assert expected == [(mark["row"], mark["test"], mark["action"]) for mark in marks]


def test_too_many_classes_are_refused_with_the_bound():
    """The row that would be of one class too many is refused, and the model says how many it learns."""
    model = machine()
    bound = find("vigod").class_bound
    learn(model, np.zeros((bound, D)), list(range(bound)))
    (refused,) = apply(model, Entry(2, 1000, (Rows(model.prediction_schema.id, None, np.zeros((1, D)), [bound]),)))
    assert str(bound) in refused.refusal
