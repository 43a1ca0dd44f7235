"""How models treat their types of columns: scaled numbers, times, and undeclared categories."""

import numpy as np
from numpy.testing import assert_allclose

from core.entry import Reset, ServedPrediction, Switch
from core.features import parse_features
from core.features.columns import OTHER
from core.model import read, save
from core.model.unlabelled_watch import UnlabelledWatch
from tests.core.twin import Fed, Twin

ROWS, HOUR_S = 4000, 3600.0
RLS = {"algorithm": "rls", "task": "regression"}
TIMED = {**RLS, "features": [{"name": "sent", "type": "time"}, "x"]}
UNTIMED = {**RLS, "features": ["sent", "x"]}
DAY, PLAN = {"name": "day", "categories": ["mon", "tue"]}, {"name": "plan", "type": "categorical"}
CATEGORIES = {**RLS, "missing": "zero", "features": [DAY, "x", PLAN]}
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


def test_the_time_of_day_is_learned():
    """A linear model sees sine and cosine; a plain number of seconds carries no such information."""
    X, y = hourly()
    timed, plain = (((Fed(body).learn(X, y).predictions - y)[1000:] ** 2).mean() for body in (TIMED, UNTIMED))
    assert timed < 0.01
    assert plain > 0.3


def test_the_passing_of_time_is_no_drift():
    """A year later neither labelled nor unlabelled rows raise an alarm; a plain number of seconds would."""
    X, y = hourly()
    X[:, 0] = 1.7e9 + HOUR_S * np.random.default_rng(8).integers(0, 1000, ROWS)
    X[ROWS // 2 :, 0] += 9000 * HOUR_S
    for body, drifting in ((TIMED, False), (UNTIMED, True)):
        fed = Fed(body)
        fed.learn(X, y)
        machine = fed.machine
        named = {change.name for drift in machine.outbox.after((0, 0, 0)) for change in drift.features}
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
