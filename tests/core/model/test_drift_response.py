"""The watch inside the state machine: its alarms, and the model's response to them, at the exact row."""

from itertools import pairwise

import numpy as np
import pytest

from core.config import Config
from core.contract import Spec
from core.drift.detector import WatchTest
from core.drift.outbox import NO_ALARM
from core.entry import Challenge, Entry, Promote, Reset, Restore, Rows
from core.learners.catalogue import find
from core.model import Model, read, save
from core.model.apply import apply
from tests.core.learners.streams import state

D, ROWS, JUMP = 3, 600, 300
NAMES = ("a", "b", {"name": "c", "min": 0, "max": 10})
TEST = {"batch_size": 40, "delta": 0.2}
WATCH = {"class_mean": TEST, "error_rate": TEST, "episode_rows": 0}
EPISODES = {"episode_rows": 60, "cooldown_rows": 150}
OF_ITS_OWN = {"algorithm": "vigod", "params": {"batch_size": 40, "reset_on": "both"}}
TASKS = ["classification", "regression"]
ACTIONS = ["report", "reset", "forget"]
every = pytest.mark.parametrize("action", ACTIONS)
both = pytest.mark.parametrize("task", TASKS)


def machine(task="classification", action="report", **changes):
    body = {"algorithm": "dfop", "task": task, "params": {"forgetting_rate": 1e-3}, "features": list(NAMES)}
    return Model.first(Config.parse({**body, "watch": WATCH, "on_drift": action, **changes}))


def stream(task, rows=ROWS):
    """At row JUMP the labels flip and the second feature's mean moves; a third class is rare and late."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, D))
    after = np.arange(rows) >= JUMP
    X[:, 1] += 3.0 * after
    score = np.where(after, -1.0, 1.0) * (X[:, 0] + 0.3 * rng.normal(size=rows))
    if task == "regression":
        return X, 10.0 * score
    labels = np.where(score > 0, "up", "down").tolist()
    for i in range(90, rows, 30):
        labels[i] = 0
    return X, labels


def learn(model, X, y, cuts=(), version=0):
    """Learn rows in entries that end at ``cuts``."""
    for i, j in pairwise(sorted({0, *cuts, len(X)})):
        version += 1
        rows = Rows(model.prediction_schema.id, None, X[i:j], y[i:j])
        apply(model, Entry(version, 1_000 * version, (rows,)))
    return version


def alarms(model):
    return model.outbox.after(NO_ALARM)


def marked(model):
    """Row, test, label and action of every drift mark."""
    marks = [mark for mark in model.own.metrics.report()["marks"] if mark["kind"] == "drift"]
    return [(mark["row"], mark["test"], mark["label"], mark["action"]) for mark in marks]


@both
@every
def test_an_alarm_says_what_where_and_when(task, action):
    """Position, row, time, test, label of the class, names of the features, windows, and the action.

    Both tests see the jump within three batches of each class, and every alarm leaves a mark in the metrics.
    """
    X, y = stream(task)
    model = machine(task, action)
    learn(model, X[:JUMP], y[:JUMP])
    assert [] == alarms(model)
    learn(model, X[JUMP:], y[JUMP:], version=1)
    found = alarms(model)
    assert [(2, index) for index in range(len(found))] == [drift.place for drift in found]
    assert sorted(drift.row for drift in found) == [drift.row for drift in found]
    assert {(2_000, action)} == {(drift.time_ms, drift.action) for drift in found}
    for drift in found:
        assert JUMP < drift.row <= ROWS
        assert (drift.label is None) == (task == "regression")
        assert drift.rows_before >= 40 >= drift.rows_after
        if drift.kind == "error_rate":
            assert ((), True) == (drift.features, drift.after - drift.before >= drift.epsilon_cut > 0)
    for change in [change for drift in found for change in drift.features if action == "report"]:
        assert abs(change.after - change.before) > 0.5
    if action == "report":
        assert {"b"} <= {change.name for drift in found for change in drift.features}
        for kind in ("class_mean", "error_rate"):
            assert JUMP < min(drift.row for drift in found if drift.kind == kind) <= JUMP + 250
    assert [(d.row, d.kind, d.label, action) for d in found] == marked(model)
    assert ROWS == model.own.metrics.rows == model.rows


@both
def test_a_reset_gives_the_learner_its_first_state(task):
    """After the alarm's row the learner is new, with the known classes; encoder and metrics go on."""
    X, y = stream(task)
    model = machine(task, "reset")
    learn(model, X, y)
    row = alarms(model)[0].row
    model = machine(task, "reset")
    learn(model, X[:row], y[:row])
    fresh = machine(task).pipeline.own.learner
    for _ in model.labels.labels:
        fresh.add_class()
    assert state(fresh) == state(model.pipeline.own.learner)
    assert (row, row) == (model.rows, model.own.metrics.rows)
    before = machine(task, "reset")
    learn(before, X[: row - 1], y[: row - 1])
    assert state(fresh) != state(before.pipeline.own.learner)


@pytest.mark.parametrize("labels", [None, ["up", "down", 0, "new"]])
def test_after_a_reset_answers_rest_on_the_rows_learned_since(labels):
    """As in a new model, all labels are equally probable at first, and n rows later none is below 1 / K (n + 1).

    So it is for rows in one entry and row by row, and in a saved state.
    """
    X, y = stream("classification")
    model, whole = (machine(action="reset", labels=labels) for _ in range(2))
    learn(whole, X, y)
    row, K = alarms(whole)[0].row, len(whole.own.answers.labels)
    learn(model, X[:row], y[:row])
    assert np.allclose(1 / K, read.predict(model.own, X).probabilities, rtol=1e-12)
    saved, _ = save.from_bytes(save.to_bytes(model))
    for n in range(20):
        at = slice(row + n, row + n + 1)
        said, p_true = read.judge(model.own, X[at], y[at])
        assert said.probabilities.min() > (1 - 1e-9) / (K * (n + 1))
        if labels is None:
            assert np.allclose(1 / ((K + 1) * (n + 1)), read.judge(model.own, X[at], ["new"])[1], rtol=1e-12)
        for one in (model, saved):
            (outcome,) = apply(one, Entry(n + 2, 0, (Rows(one.prediction_schema.id, None, X[at], y[at]),)))
            assert [*p_true] == outcome.p_true
    whole = machine(action="reset", labels=labels)
    learn(whole, X[: row + 20], y[: row + 20])
    assert save.to_bytes(whole) == save.to_bytes(model) == save.to_bytes(saved)


def test_a_learner_counts_the_rows_since_its_own_last_reset():
    """Also a challenger, which starts and is reset at rows of its own; a reset by the user begins again."""
    X, y = stream("classification")
    model = machine(action="reset")
    learn(model, X[:50], y[:50])
    vigo = {"algorithm": "vigo", "params": {}, "watch": WATCH, "on_drift": "reset"}
    apply(model, Entry(2, 0, (Challenge("vigo", vigo, 1),)))
    learn(model, X[50:], y[50:], version=2)
    learners = [(None, model.own), ("vigo", model.challengers["vigo"].parts)]
    for name, parts in learners:
        acted = [drift.row for drift in alarms(model) if (drift.challenger, drift.action) == (name, "reset")]
        assert acted[-1] == parts.rows_before_start + parts.answers.reset_row
    assert learners[0][1].answers.reset_row != learners[1][1].answers.reset_row + 50
    apply(model, Entry(4, 0, (Reset(),)))
    assert [0, 0] == [parts.answers.reset_row for parts in model.learners]


def test_alarms_outlive_resets_and_restores():
    """They are facts of the log: no reset or older state takes them back, and new ones follow them."""
    X, y = stream("classification")
    model = machine()
    young = save.to_bytes(model)
    version = learn(model, X, y)
    seen = alarms(model)
    assert seen
    for segment in (Reset(), Restore(young)):
        version += 1
        apply(model, Entry(version, 0, (segment,)))
        assert (0, seen) == (model.rows, alarms(model))
    learn(model, X, y, version=version)
    again = alarms(model)[len(seen) :]
    assert [drift.row for drift in seen] == [drift.row for drift in again]
    assert seen[-1].place < again[0].place


@both
def test_the_means_of_features_come_from_the_windows(task):
    """Before any drift they cover all rows; without the test of class means, or without rows, there are none."""
    X, y = stream(task, JUMP - 10)
    model, unwatched = machine(task), machine(task, watch=None)
    assert {} == read.feature_means(model.own)
    for one in (model, unwatched):
        learn(one, X, y, cuts=[3, 77])
    assert [] == alarms(model)
    means = read.feature_means(model.own)
    assert ["a", "b", "c"] == [*means]
    assert np.allclose(X.mean(axis=0), [*means.values()])
    assert {} == read.feature_means(unwatched.own)


def test_only_features_that_are_columns_have_means():
    """Numbers and booleans have means; columns of categories and times are not features of a row."""
    features = ["a", {"name": "day", "categories": ["mon", "tue"]}, {"name": "open", "type": "boolean"}]
    model = Model.first(Config.parse({"algorithm": "dfop", "task": "regression", "features": features}))
    X = np.array([[1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    apply(model, Entry(1, 0, (Rows(model.prediction_schema.id, None, X, np.ones(2)),)))
    assert {"a": 1.5, "open": 0.5} == read.feature_means(model.own)


# -- a learner that tests for drift itself


BATCH = {"batch_size": 40}


def swapping(rows=900, jump=500):
    """Two classes that swap places at row ``jump``."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, rows)
    side = np.where(np.arange(rows) < jump, labels, 1 - labels)
    return rng.normal(size=(rows, D)) + 3.0 * side[:, None], ["up" if label else "down" for label in labels]


def vigod(action="report", watch=None, **params):
    body = {"algorithm": "vigod", "params": BATCH | params, "features": ["a", "b", "c"], "on_drift": action}
    return Model.first(Config.parse(body | ({} if watch is None else {"watch": watch})))


def test_only_vigod_s_own_test_watches_class_means():
    """VIGOd alone reports moved class means: each of its alarms once, and none if the watch leaves out the test."""
    X, y = swapping()
    model = vigod()
    learn(model, X, y)
    algorithm = find("vigod")
    learner = algorithm.build(Spec("classification", D, algorithm.complete(BATCH)))
    indices = {label: k for k, label in enumerate(dict.fromkeys(y))}
    expected, known = [], 0
    for row, label in enumerate(y):
        while known <= indices[label]:
            learner.add_class()
            known += 1
        learner.learn(X[row : row + 1], np.array([indices[label]]))
        expected += [(row + 1, label) for _ in learner.take_alarms()]
    raised = [one for drift in alarms(model) for one in (drift, *drift.alarms)]
    found = [(one.row, one.label) for one in raised if one.kind == "class_mean"]
    assert expected == found
    assert {"up", "down"} == {label for _, label in found}
    silent = vigod(watch={"error_rate": {}})
    learn(silent, X, y)
    assert {"error_rate"} >= {one.kind for drift in alarms(silent) for one in (drift, *drift.alarms)}


@every
@pytest.mark.parametrize("reset_on", ["class_mean", "both"])
def test_an_alarm_of_vigod_reports_that_the_class_was_reset(action, reset_on):
    """VIGOd answers its own alarms, whatever else the model does; alarms of the watch trigger the action."""
    X, y = swapping()
    model = vigod(action, reset_on=reset_on)
    learn(model, X, y)
    tests = {"class_mean": WatchTest(), "error_rate": WatchTest(batch_size=10_000)}
    blind = Model.first(model.config.model_copy(update={"watch": model.config.watch.model_copy(update=tests)}))
    learn(blind, X, y)
    assert {("class_mean", "reset")} <= {(d.kind, d.action) for d in alarms(blind)}
    own = ("class_mean",) if reset_on == "class_mean" else ("class_mean", "error_rate")
    expected = [(d.row, d.kind, d.label, "reset" if d.kind in own else action) for d in alarms(model)]
    assert expected == [(d.row, d.kind, d.label, d.action) for d in alarms(model)] == marked(model)


@pytest.mark.parametrize("scaling", ["none", "standard", "robust", "minmax"])
def test_means_of_vigod_s_alarms_are_those_of_the_rows_before_scaling(scaling):
    """Exact although the scale moves inside the windows, and the same however rows are cut."""
    X, y = swapping()
    X[:, 0] *= np.linspace(1.0, 30.0, len(X))
    block, single = (vigod(scaling=scaling, watch={"class_mean": {}, "episode_rows": 0}) for _ in range(2))
    learn(block, X, y)
    learn(single, X, y, range(len(X)))
    found = alarms(block)
    assert [(one.row, one.features) for one in alarms(single)] == [(one.row, one.features) for one in found]
    reset = dict.fromkeys(y, 0)
    for one in found:
        own = [row for row in range(reset[one.label], one.row) if y[row] == one.label]
        parts = own[: one.rows_before], own[one.rows_before :]
        reset[one.label] = parts[1][0]
        assert one.rows_after == len(parts[1])
        for change in one.features:
            before, after = (X[part, "abc".index(change.name)].mean() for part in parts)
            assert np.allclose((before, after), (change.before, change.after))
    assert found


# -- episodes: one drift is one event with one action


def in_episodes(task="classification", action="report", **watch):
    return machine(task, action, watch={**WATCH, "episode_rows": 2 * ROWS, **watch})


def three_times(task):
    """A stream that drifts, repeated three times."""
    X, y = stream(task)
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
    apart, together = in_episodes(task, episode_rows=0), in_episodes(task)
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
    often, once = in_episodes(task, action, episode_rows=0), in_episodes(task, action, episode_rows=10_000)
    counted = [acts(model) for model in (often, once)]
    for model in (often, once):
        learn(model, X, y, range(0, len(X), 50))
    assert 1 == len(counted[1]) == len(alarms(once))
    assert len(counted[0]) == len(alarms(often)) > 2
    assert alarms(once)[0].joined > 0


def test_the_cool_down_holds_back_the_action_but_not_the_event():
    """An episode within the cool-down is an event marked as held back, and only reported."""
    X, y = three_times("classification")
    model = in_episodes(action="reset", episode_rows=100, cooldown_rows=750)
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
    model = in_episodes(episode_rows=10**9, cooldown_rows=10**9)
    young = save.to_bytes(model)
    version = learn(model, X, y)
    (first,) = alarms(model)
    held = save.to_bytes(model)
    for at, kept in enumerate((young, held) if segment == "restore" else (None,), start=1):
        apply(model, Entry(version + at, 0, (Restore(kept) if kept else Reset(),)))
    learn(model, X, y, version=version + 2)
    events = alarms(model)
    assert [first] == events[:1]
    assert (2, False) == (len(events), events[1].held_back)


def test_a_promotion_ends_the_episodes_of_all_learners():
    """The event of the model was that of another learner, and the former one has none under its new name."""
    X, y = stream("classification")
    model = in_episodes(episode_rows=10**9)
    other = {"algorithm": "dfop", "watch": {**WATCH, "episode_rows": 10**9}}
    apply(model, Entry(1, 1_000, (Challenge("other", other, 1),)))
    version = learn(model, X, y, version=1)
    before = alarms(model)
    apply(model, Entry(version + 1, 0, (Promote("other"),)))
    learn(model, X, y, version=version + 1)
    assert before == alarms(model)[: len(before)]
    assert {None, "other"} == {event.challenger for event in before}
    assert {None, "previous"} == {event.challenger for event in alarms(model)[len(before) :]}


@both
def test_a_challenger_takes_no_alarms_of_the_model(task):
    """They join the model's own event, whatever events the challenger has had since."""
    X, y = stream(task)
    alone, compared = machine(task, watch={**WATCH, **EPISODES}), machine(task, watch={**WATCH, **EPISODES})
    other = {"algorithm": "dfop", "params": {"forgetting_rate": 0.5}, "watch": {**WATCH, **EPISODES}}
    apply(compared, Entry(1, 1_000, (Challenge("other", other, 1),)))
    for model in (alone, compared):
        learn(model, X, y, cuts=range(10, ROWS, 10), version=1)
    own = [alarm for alarm in alarms(compared) if alarm.challenger is None]
    told = [
        [(event.row, event.joined, [one.row for one in event.alarms]) for event in of] for of in (alarms(alone), own)
    ]
    assert len(own) < len(alarms(compared))
    assert told[0] == told[1]
    assert any(joined for _, joined, _ in told[1])
