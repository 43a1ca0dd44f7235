"""Entries that are merged give the state, alarms, answers and path of the same entries one by one."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.config import Config
from core.entry import Entry, Overlap, Restore, Rows, Switch
from core.features import parse_features
from core.learners.catalogue import ALGORITHMS
from core.model import Model, save
from core.model.apply import apply
from core.switching.space_model import SpaceModel
from service.errors import ModelDown
from service.runtime.replicas import batches, loader
from service.runtime.replicas.batches import SingleEntry, UnstoredAnswers
from service.runtime.replicas.loader import Loader
from service.runtime.replicas.named_states import with_states
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.store.log import codec, entry_runs
from service.store.log.entries import RawEntry
from service.store.states.pieces import digest
from tests.core.life.logs import single_rows, written
from tests.core.life.steps import STORY, WHOLE_LIFE
from tests.core.life.streams import bodies, plain_body

CASES = [(algorithm, task) for algorithm, entry in ALGORITHMS.items() for task in entry.tasks]
READ = (1, 2, 3, 10, 40, 100)
"""Entries in one reading."""


def replica(config):
    """A replica that has applied nothing."""
    return Replica("m", "inc", 0, Model.first(config), 0, "uid 0", 0, Stats())


class States:
    """The states that entries name."""

    def __init__(self):
        self._held = {}

    def named(self, segment):
        """A segment as the log names its state."""
        if not isinstance(segment, Restore):
            return segment
        state = bytes(segment.state)
        self._held[digest(state)] = state
        return replace(segment, digest=digest(state), size=len(state))

    async def read(self, _name, _incarnation, named, _size):
        """A state, as the store has it."""
        return self._held[named]


STATES = States()


def raw(entry):
    """An entry as it is read from the log."""
    segments = []
    for at, segment in enumerate(entry.segments):
        skip = segment.skip if isinstance(segment, Rows | Overlap) else ()
        segments.append((at, codec.encode(STATES.named(segment)), skip))
    return RawEntry(entry.version, f"uid {entry.version}", entry.time_ms, tuple(segments))


def one_by_one(config, raws, wanted):
    """Every entry by itself; what is visible at the versions that are wanted."""
    found, seen = replica(config), {}
    for each in raws:
        entry = asyncio.run(with_states(STATES, "m", "inc", codec.entry(each)))
        found.apply_now(SingleEntry(entry, each.uid, each.size))
        if each.version in wanted:
            seen[each.version] = visible(found)
    return seen


def visible(model):
    """State, alarms among it; answers as they are stored; path; what is counted."""
    held = (model.version, model.uid, model.time_ms, [*model.path], model.saved.log_bytes, model.stats)
    return save.to_bytes(model.model), sorted(model.answers.of(model.answers.up_to(model.version))), repr(held)


def merged(config, raws, seed):
    """The same in several readings, merged as they come, between small bounds; how many entries were merged.

    Without a seed everything is one reading, and the bounds are as they are.
    """
    rng = np.random.default_rng(seed)
    model, seen, counts = replica(config), {}, Counter()
    apply_merged = batches.apply_merged

    def counted(own, rows, first):
        stop, learned = apply_merged(own, rows, first)
        counts["entries"] += stop - first
        return stop, learned

    reader = Loader(SimpleNamespace(states=STATES), Stats())
    while model.version < len(raws):
        count, bounds = len(raws), {"MERGED_ENTRIES_MAX": entry_runs.MERGED_ENTRIES_MAX}
        if seed is not None:
            count = int(rng.choice(READ))
            bounds = {
                "MERGED_ENTRIES_MAX": int(rng.choice([2, 5, 1000])),
                "MERGED_BYTES_MAX": int(rng.choice([400, 2000, 10**6])),
            }
        with mock.patch.multiple(entry_runs, **bounds), mock.patch.object(batches, "apply_merged", counted):
            asyncio.run(reader.apply(model, raws[model.version : model.version + count]))
        seen[model.version] = visible(model)
    return seen, counts["entries"]


def agree(config, entries, seed):
    """Compare after every reading; how many entries were merged."""
    raws = [raw(entry) for entry in entries]
    seen, count = merged(config, raws, seed)
    expected = one_by_one(config, raws, seen)
    for version, found in seen.items():
        alike = expected[version] == found  # compared here: explaining how wide states differ takes minutes
        assert alike, f"they differ between the reading before and version {version}"
    return count


@pytest.mark.slow_but("auto-c*", "dfop-r*", "fesl_c-c*")
@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_a_life_that_meets_everything_is_the_same(algorithm, task):
    """Late labels, new classes, switches, resets, restores and drifts between rows, with one of the actions in turn."""
    entry, seed = ALGORITHMS[algorithm], CASES.index((algorithm, task))
    actions = ("report", "reset", "forget") if entry.forgets else ("report", "reset")
    body = plain_body(entry, task, actions[seed % len(actions)])
    log = single_rows(written(body, WHOLE_LIFE), seed)
    assert agree(Config.parse(body), log, seed) > len(log) / 10


@pytest.mark.slow_but("rls-r*", "vigo-c*", "fesl_s-r*")
@pytest.mark.parametrize(("algorithm", "task"), CASES)
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_life_is_the_same(algorithm, task, data, seed):
    """Whatever is written, with any configuration."""
    body = data.draw(bodies(ALGORITHMS[algorithm], task))
    steps = data.draw(st.lists(STORY, min_size=10, max_size=25))
    agree(Config.parse(body), single_rows(written(body, steps), seed), seed)


WIDE = 300


def wide(algorithm, columns=WIDE):
    """The configuration of a model of many columns, and three entries of enough rows for a block."""
    names = [f"x{column}" for column in range(columns)]
    config = Config.parse({"algorithm": algorithm, "task": "regression", "features": names, "watch": None})
    Z = np.random.default_rng(3).normal(size=(3, 20, 2))
    return config, [Entry(at + 1, 0, (_rows(config.space, Z[at]),)) for at in range(3)]


def _rows(space, Z):
    """Rows whose columns, and labels, are mixtures of two hidden ones (n, 2)."""
    mix = np.random.default_rng(space.width).normal(size=(2, space.width))
    return Rows(space.id, None, Z @ mix, Z[:, 0] - Z[:, 1])


def together(config, log):
    """Compare one reading, merged between bounds so large that only the model limits it; how many were merged."""
    with mock.patch.object(loader, "MERGED_FLOPS", 1e12), mock.patch.object(entry_runs, "MERGED_BYTES_MAX", 10**9):
        return agree(config, log, None)


@pytest.mark.parametrize("algorithm", ["dfop", "gdfop", "rls"])
def test_wide_models_of_least_squares_are_never_merged(algorithm):
    """Where a block is its rows to round-off only, entries stay blocks of their own; merging would show in the bits."""
    config, log = wide(algorithm)
    assert 0 == together(config, log)
    with mock.patch.object(SpaceModel, "row_exact", True), pytest.raises(AssertionError, match="differ"):
        together(config, log)


@pytest.mark.parametrize(("columns", "expected"), [(254, 3), (255, 0)])
def test_the_bias_is_a_column(columns, expected):
    """Blocks begin at 256 columns with it."""
    assert expected == together(*wide("rls", columns))


def test_other_wide_models_are_merged():
    """Their rows are learned one by one, however many columns there are."""
    assert 3 == together(*wide("fesl_s"))


def test_a_wide_model_that_a_change_of_features_has_kept_is_not_merged():
    """The old model goes on learning the columns that it was built for, behind two narrow spaces."""
    config, log = wide("rls")
    model, rng = Model.first(config), np.random.default_rng(4)
    for entry in log:
        apply(model, entry)

    def step(*segments):
        log.append(Entry(len(log) + 1, 0, segments))
        apply(model, log[-1])

    for names in (["a", "b"], ["c", "d"]):
        step(Switch("begin", parse_features(names)))
        step(Overlap(model.feedback_schema.id, _rows(model.feedback_schema, rng.normal(size=(30, 2))).X))
        step(Switch("complete"))
    for _ in range(3):
        step(_rows(model.feedback_schema, rng.normal(size=(20, 2))))
    assert {WIDE, 2} == {expert.width for expert in model.pipeline.experts.values()}
    assert 0 == together(config, log)


NARROW = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a", "b"], "watch": None})


def narrow(count, **changed):
    """Entries of one row each, with ids; ``changed`` are the raw rows of some, by their versions."""
    Z = np.random.default_rng(5).normal(size=(count, 1, 2))
    rows = [
        Rows(NARROW.space.id, None, changed.get(f"v{at + 1}", Z[at]), Z[at, :, 0], ids=(f"i:{at + 1}",))
        for at in range(count)
    ]
    return [raw(Entry(at + 1, 1000 * at, (segment,))) for at, segment in enumerate(rows)]


def read(model, raws):
    """Apply a reading."""
    asyncio.run(Loader(SimpleNamespace(states=STATES), Stats()).apply(model, raws))


def test_every_id_is_told_of_its_own_entry():
    """Its version, and the rows that the model had learned after it."""
    model = replica(NARROW)
    read(model, narrow(5))
    answers = [codec.decode_answer(model.answers.get(f"i:{at}")) for at in range(1, 6)]
    assert [(at, at, 1) for at in range(1, 6)] == [(each.version, each.rows, len(each.losses)) for each in answers]
    assert 5 == len({each.losses[0] for each in answers})


def test_answers_take_memory_until_the_store_has_them():
    """They take some until they are stored or covered by a snapshot, and nothing after that; others stay."""
    model = replica(NARROW)
    read(model, narrow(5))
    empty, answers = UnstoredAnswers(), model.answers
    first = answers.nbytes
    items = answers.of(answers.up_to(2))
    assert ["i:1", "i:2"] == [identity for identity, _, _ in items]
    answers.stored([*items[:1], ("i:2", 2, b"another answer"), ("i:3", 1, answers.get("i:3")), ("nobody", 1, b"")])
    assert (4, 5 * answers.nbytes) == (len(answers), 4 * first)
    answers.drop(answers.up_to(5), 4)
    assert ([("i:5", 5)], 5 * answers.nbytes) == ([item[:2] for item in answers.of(["i:4", "i:5"])], first)
    answers.drop(answers.up_to(5), 5)
    assert (0, empty.nbytes) == (len(answers), answers.nbytes)


def test_few_ids_do_not_keep_the_rows_of_a_block():
    """Their answers are bytes at once; those of many become bytes when they are asked for."""
    rows = [Rows(NARROW.space.id, None, np.full((1, 2), float(at)), np.ones(1), ids=("i:1",)[at:]) for at in range(5)]
    few, many = replica(NARROW), replica(NARROW)
    read(few, [raw(Entry(at + 1, 0, (segment,))) for at, segment in enumerate(rows)])
    read(many, narrow(5))
    assert [True, False] == [type(model.answers._held["i:1"][1]) is bytes for model in (few, many)]
    assert 1 == codec.decode_answer(few.answers.get("i:1")).rows


def test_the_ids_of_an_observer_are_told_that_nothing_was_learned():
    """Merged or one by one."""
    config = Config.parse({"algorithm": "observer", "task": "regression", "features": ["a", "b"]})
    rows = [Rows(config.space.id, None, np.ones((2, 2)), np.ones(2), ids=(f"i:{at}",)) for at in range(3)]
    assert 3 == agree(config, [Entry(at + 1, 0, (segment,)) for at, segment in enumerate(rows)], None)


def test_readers_of_a_version_within_wake_once_it_is_applied():
    """They see the version at the end of the run, which has theirs."""

    async def wait():
        model = replica(NARROW)
        waiting = [asyncio.create_task(model.wait_for_version(version)) for version in (2, 5, 6)]
        await asyncio.sleep(0)
        await Loader(SimpleNamespace(states=STATES), Stats()).apply(model, narrow(5))
        await asyncio.sleep(0)
        assert [True, True, False] == [task.done() for task in waiting]
        assert (5, 5) == (model.version, model.model.rows)
        waiting[2].cancel()

    asyncio.run(wait())


def test_an_error_names_the_entries_it_came_up_in():
    """And its kind, not what it says: those of the block, or the one by itself; only those before them are applied."""
    model = replica(NARROW)
    with (
        mock.patch("core.model.apply._learn", side_effect=ZeroDivisionError("no")),
        pytest.raises(ModelDown, match="applying one of the entries 1 to 4 failed: ZeroDivisionError$"),
    ):
        read(model, narrow(4))
    assert 0 == model.version
    model, wide_row = replica(NARROW), np.ones((1, 3))
    with pytest.raises(ModelDown, match="applying entry 4 failed: ValueError$"):
        read(model, narrow(6, v4=wide_row))
    assert 3 == model.version


def test_an_entry_that_cannot_be_decoded_is_left_to_the_end():
    """What stands before it is applied; where it is decoded by itself, it is named by the next version."""
    model, raws = replica(NARROW), narrow(4)
    raws[2] = msgspec.structs.replace(raws[2], segments=((0, b"\x93rubbish", ()),))
    with pytest.raises(ValueError, match="log segment is corrupt"):
        read(model, raws)
    assert (2, 2) == (model.version, model.model.rows)


def test_blocks_are_bounded():
    """By entries, by bytes and by work; one entry always goes on, however large."""
    raws = narrow(10)

    def cut(most=10**9, **bounds):
        with mock.patch.multiple(entry_runs, **{"MERGED_ENTRIES_MAX": 1000, **bounds}):
            return [len(run) for run in entry_runs.entry_runs(raws, lambda: most)]

    assert [10] == cut()
    assert [4, 4, 2] == cut(MERGED_ENTRIES_MAX=4)
    assert [3, 3, 3, 1] == cut(MERGED_BYTES_MAX=3 * raws[0].size)
    assert [1] * 10 == cut(MERGED_BYTES_MAX=1)
    assert [7, 3] == cut(most=7)
    assert [1] * 10 == cut(most=0)
