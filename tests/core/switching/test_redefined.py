"""A switch that redeclares a kept name: the overlap has one value for it, read both ways."""

import numpy as np
import pytest

from core.entry import Overlap, Switch
from core.features import Schema, parse_features
from core.learners.catalogue import ALGORITHMS
from core.model import read, save
from core.model.plans import plan_switch
from core.problems import Invalid
from tests.core.twin import Twin

OLD = ["a", {"name": "day", "type": "categorical", "categories": ["mon", "tue", "sun"]}]
NEW = [{"name": "a", "max": 1, "outside": "clip"}, {"name": "day", "type": "categorical", "categories": ["wed", "mon"]}]
WIDER = ["a", {"name": "day", "type": "categorical", "categories": ["mon", "tue", "sun", "wed"]}]
DENSE = [name for name, entry in ALGORITHMS.items() if not entry.sparse]


class Model(Twin):
    """A classifier that gets categories by name."""

    def __init__(self, features=OLD, algorithm="rls"):
        super().__init__({"algorithm": algorithm, "task": "classification", "features": features})

    def learn(self, rows, space=None):
        """Learn (a, day) pairs with their labels, in a space."""
        schema = space or self.machine.feedback_schema
        raw = np.vstack([schema.row({"a": a, "day": day}, False) for a, day in rows])
        return super().learn(raw, ["up" if a > 0 else "down" for a, _ in rows], schema)

    def switch(self, action, features=None):
        """Plan a step and commit it."""
        return self.commit(plan_switch(self.machine, action, features, None, force=True))


def rows(count, days, seed=0):
    """Rows with some of these days."""
    rng = np.random.default_rng(seed)
    numbers, codes = rng.normal(size=count).tolist(), rng.integers(0, len(days), count)
    return [(a, days[code]) for a, code in zip(numbers, codes, strict=True)]


@pytest.mark.slow_but("others-dfop", "others-odm", "others-fesl_s", "others-vigow", "others-auto", "more-rls")
@pytest.mark.parametrize("algorithm", DENSE)
@pytest.mark.parametrize("following", [NEW, WIDER], ids=["others", "more"])
def test_a_kept_name_is_redeclared(algorithm, following):
    """Rows of the overlap may use the categories of both; before and after, each space has its own; all are learned."""
    model = Model(algorithm=algorithm)
    model.learn(rows(30, ["mon", "tue", "sun"]))
    old = model.machine.prediction_schema
    model.switch("begin", following)
    union = model.machine.feedback_schema
    assert ("mon", "tue", "sun", "wed") == union.features[1].categories
    assert model.learn(rows(30, ["mon", "tue", "sun", "wed"], 1)).learned
    raw = np.vstack([union.row({"a": a, "day": day}, False) for a, day in rows(10, ["mon", "wed"], 2)])
    assert 10 + 30 == model.commit(Overlap(union.id, raw)).overlap_rows
    assert model.learn(rows(5, ["mon", "sun"], 3), old).learned
    model.switch("complete")
    assert model.learn(rows(30, ["mon", "wed"], 4)).learned
    for space in (union, old):
        assert model.learn(rows(5, ["mon", "sun"], 5), space).learned
    assert Schema(parse_features(following)).columns == model.machine.prediction_schema.columns


@pytest.mark.parametrize("algorithm", ["rls", "fesl_c", "vigo"])
def test_the_old_model_reads_values_its_own_way(algorithm):
    """Rows of the overlap teach it what rows of its own space would: a new category is unknown to it."""
    known = [(a, day if day != "wed" else "other") for a, day in rows(40, ["mon", "tue", "wed"], 1)]
    changed, always = Model(algorithm=algorithm), Model(algorithm=algorithm)
    for model in (changed, always):
        model.learn(rows(30, ["mon", "tue", "sun"]))
    changed.switch("begin", NEW)
    told = changed.learn(rows(40, ["mon", "tue", "wed"], 1))
    assert told.predictions == always.learn(known).predictions
    changed.switch("abort")
    raw = np.array([[0.3, code] for code in range(3)])
    assert np.array_equal(
        read.predict(changed.machine.own, raw).probabilities, read.predict(always.machine.own, raw).probabilities
    )
    both = changed.machine.own.switching.in_flight
    later = rows(20, ["mon", "wed"], 2)
    own = [(a, day if day == "mon" else "x") for a, day in later]
    assert always.learn(own).predictions == changed.learn(later, both).predictions


@pytest.mark.parametrize("outside", ["clip", "refuse"])
@pytest.mark.parametrize("features", [["a", "c"], [{"name": "a", "max": 2000, "outside": "clip"}, "c"]])
@pytest.mark.parametrize("lags", [0, 1])
def test_the_recovered_model_reads_values_its_own_way(outside, features, lags):
    """A number that the new space takes, but the old one clipped or refused, is held within the old range."""
    rng = np.random.default_rng(1)
    a, b = rng.random(300), rng.normal(size=300)
    a[rng.random(300) < 0.1] = 1000.0
    own, y = np.column_stack([np.clip(a, 0, 1), b]), 10 * np.clip(a, 0, 1) + b
    old = [{"name": "a", "min": 0, "max": 1, "outside": outside}, "b"]
    model = Twin({"algorithm": "rls", "task": "regression", "features": old, "lags": lags})
    model.learn(own[:200], y[:200])
    model.commit(Switch("begin", parse_features(features), "linear"))
    model.learn(np.column_stack([a, b, 2 * b + 1])[200:240], y[200:240])
    model.commit(Switch("complete"))
    now = model.machine.own.switching.now
    assert 0.9 < now.report()[0]["weight"]
    assert np.mean(model.learn(np.column_stack([a, 2 * b + 1])[240:], y[240:]).losses[5:]) < 0.1
    found = now.recovery.recover(np.full((1, len(now.recovery.sources)), -1000.0))[0]
    assert {0.0} == {value for name, value in zip(now.recovery.targets, found, strict=True) if name.startswith("a")}


def test_an_expert_that_is_kept_reads_values_its_own_way():
    """Also in rows of the space after the next."""
    labels, raw = ["up", "down"] * 10, np.random.default_rng(0).random((20, 3))
    model = Model([{"name": "a", "min": 0, "outside": "clip"}, "b"], "vigo")
    Twin.learn(model, raw[:, :2], labels)
    for later in "cd":
        model.switch("begin", [{"name": "a", "max": 9, "outside": "clip"}, later])
        Twin.learn(model, raw, labels)
        model.switch("complete")
        model.machine.learners[0].switching.now.mixture.weights[:] = [0.9, 0.1]  # the old model is the one to be kept
    recovery = model.machine.own.switching.now.recovery
    assert ("a", "b") == recovery.targets
    assert 0.0 == recovery.recover(np.array([[-5.0, 1.0]]))[0, 0]


@pytest.mark.parametrize(("limits", "read"), [({}, 50.0), ({"max": 5, "outside": "clip"}, 5.0)])
@pytest.mark.parametrize("how", ["complete", "abort"])
def test_rows_of_an_earlier_overlap_are_read_within_the_limits_of_the_next(limits, read, how):
    """Its rows hold both feature sets, with other limits for a feature that comes back, or none now."""
    model, clipped = Model(["b"]), {"name": "a", "max": 99, "outside": "clip"}
    Twin.learn(model, np.ones((20, 1)), ["up", "down"] * 10)
    model.switch("begin", [clipped, "c"])
    union, other = model.machine.feedback_schema, "b" if how == "complete" else "c"
    Twin.learn(model, np.ones((20, 3)), ["up", "down"] * 10)
    model.switch(how)
    model.switch("begin", [{"name": "a", **limits}, other])
    assert Twin.learn(model, np.full((1, 3), 50.0), ["up"], union).mapped
    assert read == model.machine.own.switching.now.new.sample.held[-1, 0]


@pytest.mark.parametrize("buckets", [3, 4])
def test_rows_of_an_earlier_overlap_are_not_read_as_another_type(buckets):
    """A bucket of four is none of three: rows with it do not train the next change."""
    model, labels = Model(["b"]), ["up", "down"] * 10
    Twin.learn(model, np.ones((20, 1)), labels)
    model.switch("begin", [{"name": "a", "type": "categorical", "buckets": 4}, "c"])
    union = model.machine.feedback_schema
    model.switch("abort")
    model.switch("begin", [{"name": "a", "type": "categorical", "buckets": buckets}, "c"])
    outcome = Twin.learn(model, np.full((20, 3), 3.0), labels, union)
    assert (buckets == 4) == (outcome.refusal is None)


HASHED, NUMBER, BOOLEAN = {"type": "categorical", "buckets": 4}, {"type": "numeric"}, {"type": "boolean"}


@pytest.mark.parametrize(
    ("read", "other"),
    [(HASHED, {"buckets": 3}), (HASHED, {"buckets": 5}), (NUMBER, BOOLEAN), (BOOLEAN, NUMBER)],
    ids=["fewer buckets", "more buckets", "boolean", "number"],
)
def test_a_type_that_an_expert_still_reads_stays(read, other):
    """A feature that left and comes back has its type and buckets, or another name: b#0 of 3 is not b#0 of 4."""
    space, labels = ["a", {"name": "day", **read}], ["up", "down"] * 10
    feature = parse_features(space)[1]
    model, raw = Model(space, "vigo"), np.random.default_rng(0).integers(0, 2, (20, 3)).astype(float)
    Twin.learn(model, raw[:, :2], labels)
    for later in "cd":
        model.switch("begin", ["a", later])
        Twin.learn(model, raw, labels)
        model.switch("complete")
        model.machine.learners[0].switching.now.mixture.weights[:] = [0.9, 0.1]  # the old model is the one to be kept
        for machine in (model.machine, save.from_bytes(save.to_bytes(model.machine))[0]):
            with pytest.raises(Invalid) as refused:
                plan_switch(machine, "begin", ["a", {"name": "day", **other}])
            assert [("features[1]", feature.to_json())] == [(one.field, one.allowed) for one in refused.value.problems]
    model.switch("begin", space)
    assert {*feature.columns} <= {*model.machine.own.switching.now.recovery.targets}
    assert plan_switch(model.machine, "abort")
    model.switch("abort")
    model.switch("begin", ["a", {"name": "weekday", **other}])
