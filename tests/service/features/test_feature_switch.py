"""What a change of features costs and what may be asked of it, judged before anything is queued."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Overlap, Rows, Switch
from core.features import Feature, Schema
from core.model import Model, cost, save
from core.model.apply import apply
from core.problems import Conflict, Invalid
from core.switching import structure
from core.switching.phases import mapping_bytes
from service.runtime import admission
from service.runtime.replicas import changes
from service.runtime.replicas.batches import SingleEntry
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.runtime.threads import THREAD_FLOPS

OLD = ["a", "b"]


def made(features=OLD, algorithm="rls", **more):
    return Model.first(Config.parse({"algorithm": algorithm, "task": "regression", "features": features, **more}))


def replica(model):
    return Replica("m", "i", 0, model, 0, "i", 0, Stats())


def step(model, *segments):
    return apply(model, Entry(1, 0, segments))


def begin(model, names, mapping="linear"):
    return step(model, Switch("begin", tuple(map(Feature, names)), mapping))


def rows(model, count):
    draw = np.random.default_rng(7)
    X = draw.normal(size=(count, model.feedback_schema.raw_width))
    return Rows(model.feedback_schema.id, None, X, X[:, 0].copy())


def overlap(model, count):
    return Overlap(model.feedback_schema.id, rows(model, count).X)


def anything(*_):
    """Every state fits."""


@pytest.mark.parametrize("mapping", ["linear", "kernel"])
def test_many_rows_of_an_overlap_are_much_work(mapping):
    """A row or ten are done at once; a thousand are not, labelled or not, though the model alone learns them so."""
    model = made()
    assert THREAD_FLOPS > cost.flops_to_apply(model, [rows(model, 1000)])
    begin(model, ["c", "d"], mapping)
    for make in (rows, overlap):
        assert THREAD_FLOPS > cost.flops_to_apply(model, [make(model, 10)])
        assert THREAD_FLOPS < cost.flops_to_apply(model, [make(model, 1000)])


def test_wide_mappings_are_much_work():
    """One row of 500 new features may solve the mapping of many rows, and so does its end; the first row does not, nor
    do rows after it was aborted.
    """
    model = made()
    begin(model, [f"n{at}" for at in range(500)])
    assert THREAD_FLOPS > cost.flops_to_apply(model, [overlap(model, 1)])
    step(model, overlap(model, 450))
    assert THREAD_FLOPS < cost.flops_to_apply(model, [overlap(model, 1)])
    assert THREAD_FLOPS < cost.flops_to_apply(model, [Switch("complete")])
    step(model, Switch("abort"))
    assert THREAD_FLOPS > cost.flops_to_apply(model, [rows(model, 10)])


def test_an_ensemble_costs_its_experts_and_the_recovery():
    """At least three times the steady work of a row, in the space of now."""
    model = made()
    steady = cost.flops_to_predict(model.own, 100)
    begin(model, ["c", "d"])
    step(model, rows(model, 20))
    step(model, Switch("complete"))
    assert 3 * steady < cost.flops_to_predict(model.own, 100)
    linear = cost.flops_to_predict(model.own, 100)
    other = made()
    begin(other, ["c", "d"], "kernel")
    step(other, Switch("complete"))
    assert linear < cost.flops_to_predict(other.own, 100)


def test_a_step_names_the_mapping():
    """What is asked for, else what the model's parameters say, else linear."""
    plain, kernel = made(), made(algorithm="fesl_c", params={"mapping": "kernel"})
    for model, other, usual in ((plain, "kernel", "linear"), (kernel, "linear", "kernel")):
        for asked in (None, other):
            assert (asked or usual) == changes.switch(model, anything, "begin", ["c"], asked).mapping


def test_nothing_is_asked_for_before_the_fields_are_right():
    """Fields before phases: 422 where both are wrong; and the limit is asked with both spaces."""
    model = made()
    with pytest.raises(Invalid):
        changes.switch(model, anything, "complete", ["c"], None)
    with pytest.raises(Conflict):
        changes.switch(model, anything, "complete", None, None)
    asked = []
    changes.switch(model, asked.append, "begin", ["b", "c"], "kernel")
    following = Schema([Feature("b"), Feature("c")])
    assert [admission.of_switch(following, cost.bytes_to_switch(model, following, "kernel"))] == asked


def test_a_mapping_that_learns_no_more_counts_as_it_is():
    """A model does not count as large for the rest of its life because a mapping might have become so."""
    model, found = made([f"a{at}" for at in range(500)], "fesl_c"), list[int]()

    def count():
        return cost.bytes_with(model.learners, model.configs, 500, 2)

    steady, following = count(), [f"b{at}" for at in range(500)]
    announced = cost.bytes_to_switch(model, Schema([*map(Feature, following)]), "linear")
    begin(model, following)
    assert count() == announced > 4 * model.nbytes
    step(model, overlap(model, 6), Switch("complete"))
    assert 3 * steady + model.own.switching.now.recovery.nbytes == count()
    save.from_bytes(save.to_bytes(model), lambda learners: found.append(admission.of_state(learners).bytes))
    assert 0.9 * count() <= found[0] <= count()


@pytest.mark.parametrize("mapping", ["linear", "kernel"])
def test_a_state_in_a_change_counts_as_the_change_did(mapping):
    """A service takes in what it gives out: the same mapping between the same spaces."""
    model = made([f"a{at}" for at in range(1000)], "fesl_c")
    asked: list[int] = []
    for name in ("b", "c"):
        names = [f"{name}{at}" for at in range(1000)]
        begin = changes.switch(model, lambda demand: asked.append(demand.bytes), "begin", names, mapping)
        for steps in ((begin, overlap), (Switch("complete"),)):
            for one in steps:
                step(model, one if isinstance(one, Switch) else one(model, 6))
            save.from_bytes(save.to_bytes(model), lambda found: asked.append(admission.of_state(found).bytes))
    assert asked[0] == asked[1] > asked[2]  # the rows of the overlap are gone
    assert asked[3] == max(asked[3:])  # experts that began to predict before were counted then as they were
    step(model, changes.switch(model, anything, "begin", ["d"], mapping))
    wrong = {**structure.describe(model.own.switching), "mapping": "none"}
    with pytest.raises(ValueError, match="no such mapping"):
        structure.spaces_of(model.config, wrong, {}, "")


async def test_the_memory_of_a_change_is_counted_at_once():
    """Two models and a mapping take the room of several: that is known as soon as they are there, and when they go."""
    model = made()
    own = replica(model)
    await own.apply(SingleEntry(Entry(1, 0, (rows(model, 3),)), "u1", 10))
    before = own.nbytes
    wide = Switch("begin", tuple(Feature(f"n{at}") for at in range(200)), "linear")
    await own.apply(SingleEntry(Entry(2, 0, (wide,)), "u2", 10))
    assert 8 * 200**2 < own.nbytes - before
    await own.apply(SingleEntry(Entry(3, 0, (Switch("abort"),)), "u3", 10))
    flying = model.own.switching.in_flight  # rows of the union may still arrive
    assert 1000 > own.nbytes - before - flying.object_bytes  # two marks


@pytest.mark.parametrize("mapping", ["linear", "kernel"])
@pytest.mark.parametrize("count", [3, 40, 700])
def test_the_bytes_of_a_mapping_are_bounded(mapping, count):
    """By what is counted before it begins, at every number of rows."""
    model = made(["a", "b", "c"])
    names = ["c", *(f"n{at}" for at in range(20))]
    bound = mapping_bytes(2, len(names), mapping)
    begin(model, names, mapping)
    step(model, overlap(model, count))
    assert bound >= model.pipeline.recovery.nbytes


@pytest.mark.slow
def test_a_change_of_twenty_thousand_columns_is_cheap():
    """Fifty rows that have all columns of two spaces: what is counted before, and what is held, fits in 64 MB."""
    columns, most = 20_000, 64 * 10**6
    config = {"algorithm": "fesl_c", "task": "classification", "labels": ["no", "yes"], "watch": None}
    model = Model.first(Config.parse({**config, "features": [f"a{at}" for at in range(columns)]}))
    hidden, draw = np.random.default_rng(1).normal(size=(2, 3, columns)), np.random.default_rng(2)
    following = tuple(Feature(f"b{at}") for at in range(columns))
    assert most > cost.bytes_to_switch(model, Schema(following), "linear")
    step(model, Switch("begin", following, "linear"))
    factors = draw.normal(size=(50, 3))
    old, new = factors @ hidden[0], factors @ hidden[1]
    step(model, Overlap(model.feedback_schema.id, np.hstack([old, new])))
    assert most > model.nbytes
    period = model.own.switching.now
    recovered = period.recovery.recover(new[:5])
    assert 0.02 > np.abs(recovered - old[:5]).mean() / np.abs(old[:5]).mean()
    (outcome,) = step(model, Switch("complete"))
    assert outcome.refusal is None
    labels = ["yes" if one > 0 else "no" for one in factors[:, 0]]
    (learned,) = step(model, Rows(model.feedback_schema.id, None, new, labels))
    assert 35 < sum(one == other for one, other in zip(learned.predictions, labels, strict=True))
    assert most > model.nbytes
    restored, _ = save.from_bytes(save.to_bytes(model))
    assert save.to_bytes(model) == save.to_bytes(restored)
