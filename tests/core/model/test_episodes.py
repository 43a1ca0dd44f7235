"""Episodes in the state machine: one drift is one event with one action, however rows are cut."""

import numpy as np
import pytest

from core.entry import Entry, Reset, Restore
from core.model import save
from core.model.apply import apply
from tests.core.model.test_drift_response import ROWS, WATCH, alarms, both, learn, marked, stream
from tests.core.model.test_drift_response import machine as watched


def machine(task="classification", action="report", **watch):
    return watched(task, action, watch={**WATCH, "episode_rows": 2 * ROWS, **watch})


def three_times(task):
    """A stream that drifts, repeated three times."""
    X, y = stream(task, 1200)
    return np.concatenate([X] * 3), [*y] * 3 if task == "classification" else np.concatenate([y] * 3)


def acts(model):
    """Count the rows at which a model acts on a drift."""
    counted = []
    act = model.own.drift_response._act
    model.own.drift_response._act = lambda phase: (counted.append(model.rows), act(phase))
    return counted


@both
def test_one_drift_is_one_event(task):
    """Every alarm after the first, of either test and any class, joins its event, and none is lost."""
    X, y = stream(task)
    apart, together = machine(task, episode_rows=0), machine(task)
    for model in (apart, together):
        learn(model, X, y, range(0, ROWS, 10))
    each = [one for event in alarms(apart) for one in (event, *event.alarms)]
    (event,) = alarms(together)
    assert len(each) > 1
    assert [(one.kind, one.label, one.row, one.features) for one in each] == [
        (one.kind, one.label, one.row, one.features) for one in (event, *event.alarms)
    ]
    assert len(each) - 1 == event.joined
    assert [(event.row, event.kind, event.label, "report")] == marked(together)


@pytest.mark.parametrize("action", ["reset", "forget"])
@both
def test_an_episode_triggers_one_action(task, action):
    """At its first alarm; later ones trigger nothing."""
    X, y = three_times(task)
    often, once = machine(task, action, episode_rows=0), machine(task, action, episode_rows=10_000)
    counted = [acts(model) for model in (often, once)]
    for model in (often, once):
        learn(model, X, y, range(0, len(X), 50))
    assert 1 == len(counted[1]) == len(alarms(once))
    assert len(counted[0]) == len(alarms(often)) > 2
    assert alarms(once)[0].joined > 0


def test_the_cool_down_holds_back_the_action_but_not_the_event():
    """An episode within the cool-down is an event marked as held back, and only reported."""
    X, y = three_times("classification")
    model = machine(action="reset", episode_rows=100, cooldown_rows=1500)
    counted = acts(model)
    learn(model, X, y, range(0, len(X), 50))
    found = alarms(model)
    held_back = [event.held_back for event in found]
    assert {True, False} == set(held_back)
    assert not held_back[0]
    assert {(True, "report"), (False, "reset")} == {(event.held_back, event.action) for event in found}
    assert len(counted) == held_back.count(False)


@pytest.mark.parametrize("segment", ["reset", "restore"])
def test_a_reset_and_a_restore_end_the_episode(segment):
    """The next alarm is another drift: rows count from 0 again, and the model is another one."""
    X, y = stream("classification")
    model = machine(episode_rows=10**9, cooldown_rows=10**9)
    young = save.to_bytes(model)
    version = learn(model, X, y)
    (first,) = alarms(model)
    held = save.to_bytes(model)
    for at, state in enumerate((young, held) if segment == "restore" else (None,), start=1):
        apply(model, Entry(version + at, 0, (Restore(state) if state else Reset(),)))
    learn(model, X, y, version=version + 2)
    events = alarms(model)
    assert [first] == events[:1]
    assert (2, False) == (len(events), events[1].held_back)
