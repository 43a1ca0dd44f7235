"""States with a valid seal and impossible content: the digest finds damage, not nonsense; all are refused."""

from functools import reduce

import numpy as np
import pytest

from core.features import Feature, Schema
from core.model import save
from core.state import envelope
from tests.core.model.test_columns import CATEGORIES
from tests.core.switching.switch_streams import Driver
from tests.core.twin import Fed

CLASSES = {"algorithm": "dfop", "task": "classification", "features": ["a", "b", "c"]}
LEARNER = "pipeline.learner"
GONE = object()


def fed(y, **more):
    """A model that has learned rows with these labels."""
    model = Fed(CLASSES | more)
    model.learn(np.random.default_rng(0).normal(size=(len(y), 3)), y)
    return model


def retired():
    model = fed(["u", "v", "w"], labels=["u", "v", "w"])
    model.change(retire_labels=["v"])
    return model


def ensemble():
    driver = Driver()
    driver.learn(100)
    driver.live(1)
    return driver


MODELS = {
    "classes": lambda: fed([*"uvuvwuvw"]),
    "declared": lambda: fed(["u", "v"], labels=["u", "v"]),
    "retired": retired,
    "categories": lambda: Fed(CATEGORIES),
    "ensemble": ensemble,
}
HEADERS = [
    *(("classes", "rows", value) for value in (7, -1, True, 8.0)),
    *(("classes", "labels.labels", labels) for labels in (["u", "v", "w", "x"], ["u", "v"], ["u", "v", "u"])),
    *(("classes", "switching.model.features", names) for names in (["a", "b", "d"], None)),
    *(("classes", LEARNER, header) for header in ({"classes": 2}, None)),
    ("classes", "metrics", GONE),
    ("declared", "labels.labels", ["u", "other"]),
    *(("retired", "retired", {"labels": labels}) for labels in (["x"], ["u", "v"], "u")),
    *(("categories", "unknown", counts) for counts in (None, [], {"day": 0}, {"day": True}, {"day": "2"})),
    *(("ensemble", "switching.phase", phase) for phase in ("steady", "overlap", "nowhere")),
    ("ensemble", "switching.switches", -1),
    ("ensemble", "switching.retired", [1]),
    *(("ensemble", "switching.experts", names) for names in (["new", "recovered"], ["recovered", "new"])),
    ("ensemble", "switching.next", ["a", "b"]),
    ("ensemble", "switching.next", GONE),
    ("ensemble", "switching.front.kind", "cubic"),
    ("ensemble", "switching.front.targets", ["a"]),
    ("ensemble", "switching.model.front", {"kind": "linear", "paper": False, "targets": ["a"]}),
    ("ensemble", "switching.model.features", ["a"]),
    ("ensemble", "switching.aborted", ["of", "another", "space"]),
]
NAMED = {"declared": "declared", "retired": "label", "categories": "unknown"}
"""What the refusal mentions."""
ARRAYS = [
    ("stowaway", np.zeros(3)),
    (f"{LEARNER}.power", GONE),
    (f"{LEARNER}.precision", -1.0),
    (f"{LEARNER}.weights", np.nan),
    ("metrics.classes", 1e9),
]


def put(holder, name, value):
    if value is GONE:
        del holder[name]
    else:
        holder[name] = value


@pytest.mark.parametrize(("model", "field", "value"), HEADERS)
def test_an_impossible_header_is_refused(model, field, value):
    """Counts, labels, features, phases and experts that contradict each other or the configuration."""
    arrays, header = envelope.load(save.to_bytes(MODELS[model]().machine))
    *path, name = field.split(".")
    put(reduce(dict.get, path, header["state"]), name, value)
    with pytest.raises(ValueError, match=NAMED.get(model)):
        save.from_bytes(envelope.dump(arrays, header))


@pytest.mark.parametrize(("name", "value"), ARRAYS)
def test_impossible_arrays_are_refused(name, value):
    """One too many, one missing, and numbers out of range."""
    arrays, header = envelope.load(save.to_bytes(MODELS["classes"]().machine))
    put(arrays, name, np.full_like(arrays[name], value) if isinstance(value, float) else value)
    with pytest.raises(ValueError):
        save.from_bytes(envelope.dump(arrays, header))


def test_parts_of_different_models_are_refused():
    """Intervals with more rows than the model, and a drift watch of another space."""
    few, moved = Fed({"algorithm": "rls", "task": "regression", "features": ["a"]}), fed(["u", "v"])
    few.machine.own.answers.intervals.absorb(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="rows of the parts"):
        save.from_bytes(save.to_bytes(few.machine))
    moved.machine.own.drift_response.move(Schema([Feature("alone")]))
    with pytest.raises(ValueError):
        save.from_bytes(save.to_bytes(moved.machine))
