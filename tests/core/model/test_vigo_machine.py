"""VIGO in the state machine: its own alarms are the model's, once, at the exact row, whatever is done about them."""

import numpy as np
import pytest

from core.config import Config
from core.contract import Spec
from core.drift.detector import WatchTest as Settings
from core.learners.catalogue import find
from core.model import Model
from tests.core.model.test_drift_response import alarms, learn

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
