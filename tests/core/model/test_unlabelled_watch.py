"""The watch over rows whose labels are awaited: what it finds in features and predictions, and what it ignores."""

import numpy as np
import pytest

from core.model import save
from core.model.unlabelled_watch import SETTLED_ROWS, UnlabelledWatch, facts
from tests.core.twin import Fed

FEATURES = ["a", "b", {"name": "day", "type": "categorical", "categories": ["mon", "tue"]}]
tasks = pytest.mark.parametrize("task", ["classification", "regression"])


def model_of(task="classification", **more):
    body = {"algorithm": "dfop", "task": task, "features": FEATURES, "watch": {"unlabelled": True}}
    return Fed({**body, **more})


def rows(count, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=count) + shift, rng.normal(size=count), rng.integers(0, 2, count)])


def learn(model, X):
    model.learn(X, X[:, 0].copy() if model.machine.regression else ["up" if row[0] > 0 else "down" for row in X])


def found(model, watch, X):
    """The events of these rows, each predicted and shown alone."""
    told = [watch.absorb(model.machine, row[None], model.served(row[None]), 7, 1000) for row in X]
    return [event for event in told if event is not None]


@tasks
def test_a_shifted_feature_is_found_without_labels(task):
    """The event names the feature with its means and reports only; the state does not change."""
    model = model_of(task)
    watch, before = UnlabelledWatch(model.machine), save.to_bytes(model.machine)
    assert [] == found(model, watch, rows(1000))
    event, *_ = found(model, watch, rows(600, 1, shift=3.0))
    assert ("unlabelled", None, "report", 7, 1000) == (
        event.kind, event.label, event.action, event.version, event.time_ms,
    )  # fmt: skip
    assert "a" == event.features[0].name
    assert event.features[0].after - event.features[0].before > 1.0
    assert before == save.to_bytes(model.machine)


@tasks
def test_predictions_are_watched_when_the_model_has_settled(task):
    """Before that they change because the model does. Stationary rows raise no alarm."""
    model = model_of(task)
    assert ("a", "b", "day=mon", "day=tue") == UnlabelledWatch(model.machine).names
    learn(model, rows(SETTLED_ROWS))
    watch = UnlabelledWatch(model.machine)
    assert [] == found(model, watch, rows(5000, 1))
    names = {change.name for event in found(model, watch, rows(600, 2, shift=3.0)) for change in event.features}
    assert {"a", "prediction" if task == "regression" else "prediction up"} <= names


def test_one_drift_is_reported_once():
    """Alarms within an episode of unlabelled rows are not repeated."""
    model = model_of(watch={"unlabelled": True, "episode_rows": 10_000})
    watch = UnlabelledWatch(model.machine)
    found(model, watch, rows(1000))
    moved = [row for seed in range(5) for row in (rows(400, seed, shift=3.0 * seed),)]
    assert 1 == sum(len(found(model, watch, X)) for X in moved)


def test_later_drifts_of_a_cool_down_are_held_back():
    """They are events, but webhooks do not get them."""
    model = model_of(watch={"unlabelled": True, "episode_rows": 0, "cooldown_rows": 10_000})
    watch = UnlabelledWatch(model.machine)
    events = [event for shift in (0.0, 3.0, 6.0) for event in found(model, watch, rows(600, 1, shift))]
    assert [False] + [True] * (len(events) - 1) == [event.held_back for event in events]
    assert len(events) > 1


def test_another_model_needs_another_watch():
    """After it has settled, and with another class, other features or another configuration."""
    model = model_of()
    known = [facts(model.machine)]
    learn(model, rows(SETTLED_ROWS))
    known.append(facts(model.machine))
    model.learn(rows(1), ["left"])
    known.append(facts(model.machine))
    known.append(facts(model_of(watch={"unlabelled": True, "episode_rows": 5}).machine))
    assert len(known) == len(set(map(repr, known)))


def test_wide_and_sparse_models_are_watched_by_their_predictions():
    """Whatever the number of columns, a row costs the same."""
    model = model_of(features=[f"x{j}" for j in range(400)])
    assert () == UnlabelledWatch(model.machine).names
    assert [] == found(model, UnlabelledWatch(model.machine), np.zeros((3, 400)))
    sparse = model_of("regression", algorithm="sparse_dfop", features=None)
    assert () == UnlabelledWatch(sparse.machine).names
