"""What one model is given to do, no other waits for; and what a replica owes when it has left memory."""

import asyncio

import numpy as np
import pytest

from core.entry import Rows
from core.model import cost
from service.errors import ModelDown, NotFound, QueueFull, TooLarge
from service.runtime import threads
from service.runtime.commit.actor import LITTLE_ROWS
from service.runtime.commit.jobs import TICK_FLOPS_MAX
from service.runtime.replicas.replica import Replica

LINE = {"algorithm": "rls", "task": "regression", "features": ["a", "b"], "watch": None}


async def _model(api, name):
    engine = api.engine
    await api.client.put(f"/models/{name}", json=LINE)
    return engine, await engine.models.get(name)


def _row(replica, *values, ids=()):
    return Rows(replica.model.prediction_schema.id, None, np.array([values]), np.array([1.0]), ids=ids)


async def test_a_model_that_is_held_keeps_no_other_waiting(api):
    """Somebody reads A in a thread: its row waits, B's is learned, and A's follows when it is let go."""
    _, first = await _model(api, "held")
    _, second = await _model(api, "free")
    async with first.held():
        waiting = first.inbox.submit(_row(first, 1.0, 2.0))
        assert 1 == (await second.inbox.submit(_row(second, 1.0, 2.0))).answer.rows
        assert not waiting.done()
    assert 1 == (await waiting).answer.rows


async def test_a_model_whose_work_is_long_keeps_no_other_waiting(api, monkeypatch):
    """A's row is learned in a thread that does not end: B's is answered meanwhile."""
    _, first = await _model(api, "long")
    _, second = await _model(api, "short")
    go_on, in_thread = asyncio.Event(), threads.in_thread_if_long

    async def held_up(flops, work, *args):
        await go_on.wait()
        return await in_thread(flops, work, *args)

    monkeypatch.setattr("service.runtime.replicas.replica.in_thread_if_long", held_up)
    flops = cost.flops_to_apply
    monkeypatch.setattr(cost, "flops_to_apply", lambda *of: 1e12 if of[0] is first.model else flops(*of))
    waiting = first.inbox.submit(_row(first, 1.0, 2.0))
    assert 1 == (await second.inbox.submit(_row(second, 1.0, 2.0))).answer.rows
    assert not waiting.done()
    go_on.set()
    assert 1 == (await waiting).answer.rows


async def test_rows_that_would_be_learned_for_hours_are_refused(api, monkeypatch):
    """Nothing ends the work of an entry once it is committed; a single row is always taken."""
    _, wide = await _model(api, "wide")
    monkeypatch.setattr(cost, "flops_to_apply", lambda *_: 2 * threads.WORK_FLOPS_MAX)
    two = Rows(wide.model.prediction_schema.id, None, np.ones((2, 2)), np.ones(2), ids=())
    with pytest.raises(TooLarge, match="send fewer rows") as refused:
        wide.inbox.submit(two)
    assert ("data", "<= 1 rows") == (refused.value.problems[0].field, refused.value.problems[0].allowed)
    assert 1 == (await wide.inbox.submit(_row(wide, 1.0, 2.0))).answer.rows


async def test_an_append_takes_so_much_work_and_no_more(api, monkeypatch):
    """Requests that wait go with several entries, each of them short; one that is long goes alone."""
    engine, model = await _model(api, "busy")
    each = TICK_FLOPS_MAX / 2
    monkeypatch.setattr(cost, "flops_to_apply", lambda _, segments: each * len(segments))
    before = engine.stats.entries
    async with model.held():
        waiting = [model.inbox.submit(_row(model, float(at), 1.0)) for at in range(6)]
    versions = [(await reply).answer.version for reply in waiting]
    assert sorted(versions) == versions
    assert 2 == max(map(versions.count, versions))
    assert 3 == engine.stats.entries - before


async def test_a_model_whose_append_cannot_be_made_harms_no_other(api, monkeypatch):
    """What goes wrong while an append is put together takes its own model out of service, not the committer."""
    engine, first = await _model(api, "unmade")
    _, second = await _model(api, "made")
    monkeypatch.setattr(Replica, "due_summary", _failing_for(first, Replica.due_summary))
    with pytest.raises(ModelDown, match="out of service"):
        await first.inbox.submit(_row(first, 1.0, 2.0))
    assert 1 == (await second.inbox.submit(_row(second, 1.0, 2.0))).answer.rows
    assert engine.ready()[1]["tasks"]


def _failing_for(replica, method):
    def due(model, now):
        if model is replica:
            raise RuntimeError("planted")
        return method(model, now)

    return due


async def test_a_row_for_a_replica_that_has_left_memory_is_in_the_next_one(api):
    """Whoever got the replica before it was evicted appends through the one that was loaded since."""
    engine, before = await _model(api, "evicted")
    engine.models._drop("evicted")
    after = await engine.models.get("evicted")
    assert after is not before
    assert 1 == (await before.inbox.submit(_row(before, 1.0, 2.0))).answer.version
    assert (0, 1) == (before.version, after.version)


async def test_a_replica_that_has_left_memory_comes_back_for_a_row(api):
    """Nobody has loaded the model since: the replica that is there takes the row, and is followed again."""
    engine, replica = await _model(api, "back")
    engine.models._drop("back")
    assert 1 == (await replica.inbox.submit(_row(replica, 1.0, 2.0))).answer.version
    assert replica is await engine.models.get("back")
    assert "back" in engine.notices._wanted


async def test_a_row_for_a_model_that_was_deleted_is_refused(api):
    """The replica that its caller holds is not taken back into memory."""
    engine, replica = await _model(api, "deleted")
    await engine.models.delete("deleted")
    with pytest.raises(NotFound):
        replica.inbox.submit(_row(replica, 1.0, 2.0))
    assert engine.models.peek("deleted") is None


@pytest.mark.parametrize("rows", [1, LITTLE_ROWS + 1])
async def test_what_waits_is_bounded_in_bytes(api, monkeypatch, rows):
    """Requests of all models count together until they are answered, also while they are encoded in a thread; one alone
    is taken whatever its size.
    """
    _, replica = await _model(api, f"bytes-{rows}")
    waiting = replica.inbox._shared.waiting
    monkeypatch.setattr("service.runtime.commit.jobs.WAITING_BYTES_MAX", 1)
    space = replica.model.prediction_schema.id
    segment = Rows(space, None, np.ones((rows, 2)), np.ones(rows))
    first = replica.inbox.submit(segment)
    with pytest.raises(QueueFull, match="of at most 1 for all models"):
        replica.inbox.submit(segment)
    assert not replica.inbox.idle
    assert rows == (await first).answer.rows
    assert 0 == waiting.used
    assert 2 * rows == (await replica.inbox.submit(segment)).answer.rows
    abandoned = replica.inbox.submit(segment)
    abandoned.cancel()
    await replica.inbox.sync()
    while not replica.inbox.idle:
        await asyncio.sleep(0.001)
    assert 0 == waiting.used


async def test_answers_that_a_snapshot_covers_are_dropped(api):
    """A replica holds the answers that its log alone has; a snapshot is published after them."""
    _, replica = await _model(api, "answers")
    held = replica.answers
    for number in range(5):
        held.put([(f"i:{number}", replica.version, b"answer")], own=False)
    assert (5, True) == (len(held), held.nbytes > 0)
    held.covered(replica.version - 1)
    assert 5 == len(held)
    held.covered(replica.version)
    assert (0, 0) == (len(held), held.nbytes)
