"""The watch over rows whose labels are awaited: what it finds in features and predictions, and what it leaves alone."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, read, save
from core.model.apply import apply
from core.model.unlabelled_watch import SETTLED_ROWS, UnlabelledWatch, facts

FEATURES = ["a", "b", {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}]
tasks = pytest.mark.parametrize("task", ["classification", "regression"])


def machine(task="classification", **more):
    body = {"algorithm": "dfop", "task": task, "features": FEATURES, "watch": {"unlabelled": True}}
    return Model.first(Config.parse({**body, **more}))


def rows(count, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=count) + shift, rng.normal(size=count), rng.integers(0, 2, count)])


def learn(model, X, version=1):
    y = X[:, 0].copy() if model.regression else ["up" if row[0] > 0 else "down" for row in X]
    apply(model, Entry(version, 0, (Rows(model.prediction_schema.id, None, X, y),)))


def found(model, watch, X):
    """The events of these rows, each predicted and shown by itself."""
    served = [
        (X[i : i + 1], read.returned_prediction(model.own, read.predict(model.own, X[i : i + 1]), 0))
        for i in range(len(X))
    ]
    told = [watch.absorb(model, row, answer, 7, 1000) for row, answer in served]
    return [event for event in told if event is not None]


@tasks
def test_a_feature_that_moves_shows_without_a_label(task):
    """The event names it with its means, and says that nothing was done; the state knows nothing of it."""
    model = machine(task)
    watch, before = UnlabelledWatch(model), save.to_bytes(model)
    assert [] == found(model, watch, rows(1000))
    event, *_ = found(model, watch, rows(600, 1, shift=3.0))
    assert ("unlabelled", None, "report", 7, 1000) == (
        event.kind, event.label, event.action, event.version, event.time_ms,
    )  # fmt: skip
    assert "a" == event.features[0].name
    assert event.features[0].after - event.features[0].before > 1.0
    assert before == save.to_bytes(model)


@tasks
def test_predictions_are_watched_when_the_model_has_settled(task):
    """Before, they change because the model does."""
    model = machine(task)
    assert ("a", "b", "day=mon", "day=tue") == UnlabelledWatch(model).names
    learn(model, rows(SETTLED_ROWS))
    watch = UnlabelledWatch(model)
    found(model, watch, rows(800, 1))
    names = {change.name for event in found(model, watch, rows(600, 2, shift=3.0)) for change in event.features}
    assert {"a", "prediction" if task == "regression" else "prediction up"} <= names


def test_one_drift_is_told_once():
    """Alarms within an episode of such rows are not repeated."""
    model = machine(watch={"unlabelled": True, "episode_rows": 10_000})
    watch = UnlabelledWatch(model)
    found(model, watch, rows(1000))
    moved = [row for seed in range(5) for row in (rows(400, seed, shift=3.0 * seed),)]
    assert 1 == sum(len(found(model, watch, X)) for X in moved)


def test_rows_that_do_not_move_raise_nothing():
    """Twenty thousand of them."""
    model = machine()
    learn(model, rows(SETTLED_ROWS))
    assert [] == found(model, UnlabelledWatch(model), rows(5000, 3))


def test_another_model_needs_another_watch():
    """When it has settled, has another class, or other features, or another configuration."""
    model = machine()
    known = [facts(model)]
    learn(model, rows(SETTLED_ROWS))
    known.append(facts(model))
    apply(model, Entry(2, 0, (Rows(model.prediction_schema.id, None, rows(1), ["left"]),)))
    known.append(facts(model))
    known.append(facts(machine(watch={"unlabelled": True, "episode_rows": 5})))
    assert len(known) == len(set(map(repr, known)))


def test_wide_and_sparse_models_are_watched_by_their_predictions():
    """Whatever the number of columns, a row costs the same."""
    model = machine(features=[f"x{j}" for j in range(400)])
    assert () == UnlabelledWatch(model).names
    assert [] == found(model, UnlabelledWatch(model), np.zeros((3, 400)))
    sparse = machine("regression", algorithm="sparse_dfop", features=None)
    assert () == UnlabelledWatch(sparse).names
