"""The drift watch through a change of features: a switch is not drift, and later drift is still found."""

import numpy as np
import pytest

from core.contract import Alarm
from core.drift.outbox import NO_ALARM
from core.entry import Switch
from core.features import parse_features
from tests.core.learners.streams import state
from tests.core.switching.switch_streams import NAMES, SCHEMAS, Driver
from tests.core.twin import Twin

WATCH = {"class_mean": {"batch_size": 20}, "error_rate": {"batch_size": 20}}


def watched(algorithm="dfop", task="classification", rows=1500, **more):
    return Driver(algorithm, task, rows=rows, watch=WATCH, **more)


def drifts(driver):
    return [mark["row"] for mark in driver.marks if mark["kind"] == "drift"]


def windows(driver):
    """The whole state of the watch as bytes."""
    return state(driver.machine.own.drift_response.detector)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_switch_is_no_drift_and_a_drift_after_it_is_found(task):
    """The new columns have other means than the old ones; only a shift after the switch is an alarm."""
    driver = watched(task=task)
    driver.values[:, [NAMES.index(name) for name in ("p", "q", "r")]] += 1e3
    driver.learn(300)
    driver.live(1, after=300)
    assert [] == drifts(driver)
    driver.values[driver.at :, NAMES.index("r")] -= 500
    driver.learn(300)
    assert drifts(driver)


def test_the_watch_goes_on_in_the_overlap_and_after_an_abort():
    """It sees the old columns of every row that trains the old model."""
    driver, twin = watched(), watched()
    for one in (driver, twin):
        one.learn(100)
    driver.begin(1)
    driver.learn(30)
    driver.learn(10, SCHEMAS[0])
    driver.abort()
    driver.learn(30)
    twin.learn(70)
    assert windows(twin) == windows(driver)


def test_late_rows_of_the_old_space_are_not_shown():
    """They have other columns and belong to another time."""
    driver = watched()
    driver.learn(100)
    driver.live(1)
    before = windows(driver)
    driver.learn(5, SCHEMAS[0])
    assert before == windows(driver)


@pytest.mark.parametrize("algorithm", ["dfop", "fesl_c", "rls", "vigod"])
@pytest.mark.parametrize("phase", ["overlap", "ensemble"])
@pytest.mark.parametrize("action", ["reset", "report"])
def test_a_drift_is_the_same_however_rows_are_cut(algorithm, phase, action):
    """Learners start over at the exact row; the change of features goes on."""
    params = {"batch_size": 20} if algorithm == "vigod" else {}
    block, single = (watched(algorithm, on_drift=action, params=params) for _ in range(2))
    for driver in (block, single):
        driver.values[200:] = 20.0 - driver.values[200:]
        driver.values[:, NAMES.index("day")] = 1.0
        driver.learn(100)
        driver.begin(1)
        driver.learn(20)
        if phase == "ensemble":
            driver.complete()
    block.learn(200)
    for _ in range(200):
        single.learn(1)
    assert drifts(block)
    assert phase == block.machine.phase
    for part in ("pipeline", "watch", "episodes", "metrics"):  # the outbox names the entry of an alarm
        assert state(block.machine.own.parts()[part]) == state(single.machine.own.parts()[part])
    block.reborn().learn(20)
    if phase == "overlap":
        block.complete()
    block.begin(2)
    block.learn(20)


@pytest.mark.parametrize("phase", ["steady", "overlap", "ensemble"])
@pytest.mark.parametrize("action", ["reset", "forget"])
def test_the_action_of_a_drift_reaches_every_learner(phase, action):
    """Including the one shared by the old and the recovered expert."""
    driver = watched("dfop")
    driver.learn(100)
    if phase != "steady":
        driver.begin(1)
        driver.learn(20)
    if phase == "ensemble":
        driver.complete()
        driver.learn(20)
    now = driver.pipeline
    experts = {"steady": lambda: [now.own], "overlap": lambda: [now.old.own],
               "ensemble": lambda: [now.former.own, *now.experts.values()]}[phase]()  # fmt: skip
    before, in_force = [state(expert.learner) for expert in experts], driver.switching.in_force
    if action == "reset":
        in_force.reset_learner(2)
        assert all(expert.learner.rows == 0 for expert in experts)
    else:
        in_force.forget()
    assert all(one != state(expert.learner) for one, expert in zip(before, experts, strict=True))
    if phase == "ensemble":
        assert experts[0].learner is experts[1].learner
    driver.reborn().learn(20)


def test_alarms_of_an_ensemble_are_those_of_the_space_s_own_expert():
    """Whichever has the largest weight; columns behind a mapping are not those that clients send."""
    driver = watched()
    driver.learn(100)
    driver.live(1)
    now, alarm = driver.pipeline, Alarm("class_mean", 0, 0, (1,), (0.0,), (1.0,), 0.5, 10, 10)
    for expert in now.experts.values():
        expert.learner.take_alarms = lambda: [alarm]
    now.mixture.weights = np.array([0.9, 0.1])
    assert [alarm] == now.take_alarms()
    assert () == now.experts["recovered"].take_alarms()[0].columns


def test_vigod_lives_through_a_switch_and_a_drift():
    """Alarms of means are those of the new space's expert, which may name its columns."""
    rng = np.random.default_rng(0)
    model = Twin({"algorithm": "vigod", "task": "classification", "features": ["a"]})

    def learn(shift=0.0):
        truth = rng.integers(0, 2, 1000)
        a = rng.normal(size=1000) + 2 * truth
        columns = {"a": a, "b": 2 * a + 1 + shift}
        X = np.column_stack([columns[name] for name in model.machine.feedback_schema.names])
        model.learn(X, ["no" if y == 0 else "yes" for y in truth])

    learn()
    model.commit(Switch("begin", parse_features(["b"]), None))
    learn()
    model.commit(Switch("complete"))
    learn(shift=5.0)
    (event,) = model.machine.outbox.after(NO_ALARM)
    means = [one for one in (event, *event.alarms) if one.kind == "class_mean"]
    assert means
    assert {"b"} == {change.name for one in means for change in one.features}
    learn()
