"""A time as a feature of a model: it is learned from, and that it passes is no drift."""

import numpy as np

from core.entry import ServedPrediction
from core.model.unlabelled_watch import UnlabelledWatch
from tests.core.twin import Fed

ROWS = 4000
HOUR_S = 3600.0
FEATURES = [{"name": "sent", "type": "time"}, "x"]


def model(features):
    return Fed({"algorithm": "rls", "task": "regression", "features": features})


def hourly():
    """A row each hour of half a year, whose label follows the time of the day."""
    rng = np.random.default_rng(7)
    X = np.column_stack([1.7e9 + HOUR_S * np.arange(ROWS), rng.normal(size=ROWS)])
    y = np.sin(2 * np.pi * (X[:, 0] / 86_400 % 1)) + X[:, 1] + 0.05 * rng.normal(size=ROWS)
    return np.ascontiguousarray(X), y


def test_the_time_of_the_day_is_learned():
    """A linear model sees it as sine and cosine; as a plain number of seconds it would tell nothing of it."""
    X, y = hourly()
    error = (model(FEATURES).learn(X, y).predictions[1000:] - y[1000:]) ** 2
    plain = (model(["sent", "x"]).learn(X, y).predictions[1000:] - y[1000:]) ** 2
    assert error.mean() < 0.01
    assert plain.mean() > 0.3


def test_that_time_passes_is_no_drift():
    """A year later neither labelled rows nor those that wait for labels raise an alarm; a plain number would."""
    X, y = hourly()
    X[:, 0] = 1.7e9 + HOUR_S * np.random.default_rng(8).integers(0, 1000, ROWS)
    X[ROWS // 2 :, 0] += 9000 * HOUR_S
    for features, drifting in ((FEATURES, False), (["sent", "x"], True)):
        fed = model(features)
        fed.learn(X, y)
        machine = fed.machine
        named = {change.name for drift in machine.outbox.after((0, 0, 0)) for change in drift.features}
        assert drifting == any(name.startswith("sent") for name in named)
        watch, served = UnlabelledWatch(machine), ServedPrediction(0.0)
        found = [watch.absorb(machine, X[at : at + 1], served, 1, 0) for at in range(ROWS // 2 - 600, ROWS // 2 + 600)]
        assert drifting == any(found)
