"""How models treat their types of columns: scaled numbers, times, undeclared categories, and lags."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.config import Config
from core.contract import Spec
from core.drift.outbox import NO_ALARM
from core.entry import Configure, Reset, Rows, ServedPrediction, Switch
from core.features import parse_features
from core.features.columns import OTHER
from core.learners.catalogue import find
from core.model import plans, read, save
from core.model.unlabelled_watch import UnlabelledWatch
from core.problems import Invalid
from tests.core.learners.streams import state
from tests.core.switching.switch_streams import DAY, Driver, every_case, few
from tests.core.twin import Fed, Twin

ROWS, HOUR_S = 4000, 3600.0
RLS = {"algorithm": "rls", "task": "regression"}
TIMED = {**RLS, "features": [{"name": "sent", "type": "time"}, "x"]}
UNTIMED = {**RLS, "features": ["sent", "x"]}
DECLARED, PLAN = {"name": "day", "categories": ["mon", "tue"]}, {"name": "plan", "type": "categorical"}
CATEGORIES = {**RLS, "missing": "zero", "features": [DECLARED, "x", PLAN]}
RAW = np.array([[OTHER, 1.0, 3.0], [0.0, OTHER, 0.0], [np.nan, 2.0, 1.0], [OTHER, 0.5, 1.0], [1.0, 0.0, 2.0]])


def test_declared_limits_are_used_from_the_first_row():
    """A model with declared limits answers like one whose columns arrive scaled to between 0 and 1."""
    ends = [{"name": "a", "min": -1, "max": 1}, {"name": "b", "min": 20, "max": 80}]
    plain = Twin({**RLS, "features": ["a", "b"]})
    scaled = Twin({**RLS, "features": ends, "params": {"scaling": "minmax"}})
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.normal(size=120), 50 + 9 * rng.normal(size=120)])
    Z = np.clip((X - [-1, 20]) / [2, 60], 0, 1)
    y = X @ [1.0, 0.1]
    assert_allclose(plain.learn(Z, y).predictions, scaled.learn(X, y).predictions)
    weights = read.weights(scaled.machine.own).coefficients
    assert_allclose(read.weights(plain.machine.own).coefficients / [2, 60], weights)


# -- times


def hourly():
    """One row per hour of half a year; its label follows the time of day."""
    rng = np.random.default_rng(7)
    X = np.column_stack([1.7e9 + HOUR_S * np.arange(ROWS), rng.normal(size=ROWS)])
    y = np.sin(2 * np.pi * (X[:, 0] / 86_400 % 1)) + X[:, 1] + 0.05 * rng.normal(size=ROWS)
    return np.ascontiguousarray(X), y


def test_the_passing_of_time_is_no_drift():
    """A year later neither labelled nor unlabelled rows raise an alarm; a plain number of seconds would."""
    X, y = hourly()
    X[:, 0] = 1.7e9 + HOUR_S * np.random.default_rng(8).integers(0, 1000, ROWS)
    X[ROWS // 2 :, 0] += 9000 * HOUR_S
    for body, drifting in ((TIMED, False), (UNTIMED, True)):
        fed = Fed(body)
        fed.learn(X, y)
        machine = fed.machine
        named = {change.name for drift in machine.outbox.after(NO_ALARM) for change in drift.features}
        assert drifting == any(name.startswith("sent") for name in named)
        watch, served = UnlabelledWatch(machine), ServedPrediction(0.0)
        found = [watch.absorb(machine, X[at : at + 1], served, 1, 0) for at in range(ROWS // 2 - 600, ROWS // 2 + 600)]
        assert drifting == any(found)


# -- undeclared categories


def learned():
    model = Fed(CATEGORIES)
    model.learn(RAW, np.arange(5.0))
    return model


def test_learned_rows_are_counted_until_a_reset():
    """-1 counts if it stands for a category, not as a number or in a prediction; a saved state contains the counts."""
    model = learned()
    model.predict(RAW)
    assert {"day": 2} == read.unknown_categories(model.machine) == read.info(model.machine)["unknown"]
    model.machine, _ = save.from_bytes(save.to_bytes(model.machine))
    assert {"day": 2} == model.machine.unknown
    model.commit(Reset())
    assert {"day": 0} == read.unknown_categories(model.machine)


def test_a_switch_keeps_the_counts_of_kept_features():
    """The counts of dropped features go away."""
    model = learned()
    for step in (Switch("begin", parse_features(["x", "y"]), "linear"), Switch("complete")):
        model.commit(step)
    assert {} == model.machine.unknown


# -- lags


RATE = {"forgetting_rate": 0.01}


def fed(**more):
    return Fed({"algorithm": "dfop", "task": "regression", "params": RATE, "features": ["a", "b"], **more})


def series(rows=1500):
    """Labels that depend on their own past and on a feature three rows ago."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(rows, 2)), np.zeros(rows)
    for t in range(3, rows):
        y[t] = 0.8 * y[t - 1] - 0.3 * y[t - 2] + X[t - 3, 0] + rng.normal() / 20
    return X, y


def test_a_tracked_row_is_learned_with_the_lags_of_its_prediction():
    """The learner equals one that gets rows, lag columns and labels in the order in which the labels came."""
    X, y = series(60)
    model = fed(lags=2)
    machine, alone = model.machine, find("dfop").build(Spec("regression", 8, model.machine.config.params))
    waiting, history, columns, labels = [], [], [], []

    def lagged(i):
        one, two = (history[-1:], history[-2:][:1]) if history else ([(X[i], 0.0)], [(X[i], 0.0)])
        return [*X[i], *one[0][0], *two[0][0], one[0][1], two[0][1]]

    for i in range(60):
        if i % 3 == 0:
            waiting.append((i, model.served(X[i : i + 1]), lagged(i)))
        late = waiting.pop(0) if len(waiting) > 4 else (i, None, lagged(i)) if i % 3 else None
        if late is None:
            continue
        at, served, own = late
        model.learn(X[at : at + 1], y[at : at + 1], served=served)
        columns.append(own)
        labels.append(y[at])
        history.append((X[at], y[at]))
    assert model.version > 40
    alone.learn(np.array(columns), np.array(labels))
    assert state(alone) == state(machine.pipeline.own.learner)


@few
@every_case
def test_a_row_of_a_batch_is_predicted_as_the_next_one(algorithm, task, classes):
    """It is also predicted as alone; feedback then returns the same; a block equals its rows."""
    one, whole = (Driver(algorithm, task, classes, lags=2) for _ in range(2))
    told = []
    for at in range(120):
        together = read.predict(one.machine.own, one.raw(one.machine.prediction_schema, at, at + 3))
        alone = read.predict(one.machine.own, one.raw(one.machine.prediction_schema, at + 2, at + 3))
        assert_array_equal(alone.value, together.value[2:])
        told.append(one.machine.own.answers.named(together.value)[0])
        assert [told[-1]] == one.learn(1).predictions
    blocks = whole.learn(120)
    if one.switching.now.row_exact:
        assert told == blocks.predictions
        assert save.to_bytes(one.machine) == save.to_bytes(whole.machine)


@pytest.mark.parametrize("labels", [None, ["class 0", "class 1", "class 2"]])
def test_classes_are_columns_of_zero_and_one(labels):
    """In order of appearance; with room for the declared labels, otherwise for ten."""
    driver = Driver("dfop", classes=3, lags=2, labels=labels)
    driver.learn(100)
    room = 3 if labels else 10
    last = [driver.machine.labels.index(label) for label in driver.labels[99:97:-1]]
    shown = np.array(driver.pipeline.lags.now())[-2 * room :].reshape(2, room)
    assert_array_equal(np.eye(room)[last], shown)
    assert "label (t-2) #2" in driver.machine.own.row_columns
    assert read.weights(driver.machine.own).coefficients.shape[1] == len(driver.machine.own.row_columns)


def test_old_rows_keep_their_lag_columns_after_a_change():
    """A row tracked in the old space trains the old model with the lags of its prediction."""
    driver = Driver("gdfop", "regression", rows=300, lags=2)
    driver.learn(50)
    old, served = driver.machine.prediction_schema, driver.served(60)
    driver.begin(1)
    driver.learn(30)
    driver.complete()
    driver.learn(5)
    found = []
    learner = driver.pipeline.former.own.learner
    taught, learner.learn = learner.learn, lambda X, *more: (found.append(X.copy()), taught(X, *more))[1]
    driver.apply(Rows(old.id, None, driver.raw(old, 60, 61), driver.labels[60:61], served=served))
    assert_array_equal(served.lags, found[0][0, old.width :])


def test_a_model_without_lags_is_unchanged():
    """Lags leave no trace in its state or configuration."""
    model = fed(lags=0)
    assert "lags" not in model.machine.config.to_json()
    assert save.to_bytes(fed().machine) == save.to_bytes(model.machine)
    assert None is model.served(np.zeros((1, 2))).lags


def test_combinations_that_lags_exclude_are_refused_by_name():
    """Sparse rows have no columns; more labels or categories would need more columns; the number itself is fixed."""
    with pytest.raises(Invalid, match="lags"):
        Config.parse({"algorithm": "sparse_dfop", "task": "regression", "lags": 1})
    driver = Driver("dfop", labels=["class 0", "class 1"], lags=1)
    driver.learn(10)
    more = {"day": [*DAY["categories"], "thu"]}
    for field, change, way in (
        ("lags", 2, "create another"),
        ("add_labels", ["class 2"], "create another"),
        ("add_categories", more, "switch"),
    ):
        with pytest.raises(Invalid, match=way) as refused:
            plans.plan_change(driver.machine, {field: change})
        assert field in str(refused.value)
        assert driver.commit(Configure({field: change})).refusal is not None
