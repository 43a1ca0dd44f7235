"""What one model is given to do, no other waits for; rows that wait together; what a replica owes when it has left."""

import asyncio
import random

import numpy as np
import pytest

from core.config import Config
from core.entry import Outcome, Rows
from core.model import Model, cost
from service.errors import IdsFull, ModelDown, NotFound, QueueFull, Recreated, RequestConflict, StoreDown, TooLarge
from service.runtime import threads
from service.runtime.commit import answerer
from service.runtime.commit.actor import LITTLE_ROWS
from service.runtime.commit.answerer import Answerer
from service.runtime.commit.committer import CommitLimits, Committer, Ticket
from service.runtime.commit.jobs import TICK_FLOPS_MAX
from service.runtime.replicas.batches import MergedAnswer
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.store.log import codec
from service.store.log.appends import Append, Appended, SeenId, SegmentIn
from tests.simulator.clock import Loop

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
    with pytest.raises(QueueFull, match="the limit for all models together is 1"):
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
    await replica.drop_answers(replica.version - 1)
    assert 5 == len(held)
    await replica.drop_answers(replica.version)
    assert (0, 0) == (len(held), held.nbytes)


def _submit(model, label, identity=None, digest="d"):
    """One row whose feature is its label; futures of one turn of the loop go with one append."""
    ids = () if identity is None else (f"i:{identity}",)
    rows = Rows(model.model.prediction_schema.id, None, np.array([[label, 0.0]]), np.array([label]), ids=ids)
    return model.inbox.submit(rows, (digest,) if ids else ())


async def _segments(engine, model):
    """The segments of the last entry."""
    read = await engine.store.log.read_after(model.name, model.incarnation, 0, model.incarnation, 2**20, 1000)
    return codec.entry(read.entries[-1]).segments


async def test_rows_that_wait_together_are_one_segment(api):
    """Each is answered its own prediction, loss and number of rows."""
    engine, model = await _model(api, "together")
    committed = engine.stats.segments
    replies = await asyncio.gather(*[_submit(model, float(at)) for at in range(1, 6)])
    (segment,) = await _segments(engine, model)
    assert [1.0, 2.0, 3.0, 4.0, 5.0] == segment.y.tolist()
    assert [1, 2, 3, 4, 5] == [reply.answer.rows for reply in replies]
    assert [1.0] == replies[0].answer.losses
    assert len({reply.answer.predictions[0] for reply in replies}) > 1
    assert {1} == {reply.answer.version for reply in replies}
    assert committed + 5 == engine.stats.segments


async def test_rows_with_ids_and_without_are_segments_of_their_own(api):
    """A segment has an id for each row, or none."""
    engine, model = await _model(api, "mixed")
    await asyncio.gather(_submit(model, 1.0), _submit(model, 2.0), _submit(model, 3.0, "a"), _submit(model, 4.0, "b"))
    plain, named = await _segments(engine, model)
    assert ((), ("i:a", "i:b")) == (plain.ids, named.ids)


async def test_an_id_that_is_sent_twice_at_once_is_learned_once(api):
    """The second one is answered what the first one was."""
    _, model = await _model(api, "twice")
    first, other, again = await asyncio.gather(
        _submit(model, 1.0, "a"), _submit(model, 2.0, "b"), _submit(model, 1.0, "a")
    )
    assert 2 == model.model.rows
    assert (0, 0, 1) == (first.duplicates, other.duplicates, again.duplicates)
    assert (first.answer.predictions, first.answer.rows) == (again.answer.predictions, again.answer.rows)


async def test_a_conflict_is_of_its_own_request_alone(api):
    """The store takes nothing of the segment: the other rows go again, each by itself, and are learned."""
    _, model = await _model(api, "conflict")
    await _submit(model, 1.0, "a")
    replies = await asyncio.gather(
        _submit(model, 2.0, "b"),
        _submit(model, 3.0, "a", "another"),
        _submit(model, 4.0, "c"),
        _submit(model, 1.0, "a"),
        return_exceptions=True,
    )
    assert isinstance(replies[1], RequestConflict)
    assert [0, 0, 1] == [replies[at].duplicates for at in (0, 2, 3)]
    assert 3 == model.model.rows
    assert model.inbox.idle


async def test_room_for_some_ids_is_used(start):
    """Where not all ids of a segment find room, those that do are learned, and the others refused."""
    api = await start(ids_max=3)
    engine, model = await _model(api, "room")
    replies = await asyncio.gather(*[_submit(model, float(at), at) for at in range(5)], return_exceptions=True)
    assert [False, False, False, True, True] == [isinstance(reply, IdsFull) for reply in replies]
    assert 3 == model.model.rows
    assert 0 == engine.models.current(model).inbox.waiting


async def test_what_is_sent_with_other_rows_and_not_stored_waits_for_nothing(api):
    """Bytes that wait are counted once, however often a row is sent."""
    _, model = await _model(api, "counted")
    await _submit(model, 1.0, "a")
    await asyncio.gather(_submit(model, 2.0, "b"), _submit(model, 3.0, "a", "other"), return_exceptions=True)
    assert 0 == model.inbox._shared.waiting.used


class Forgetful:
    """A log that has no answers, as that of a model that was deleted."""

    async def lookup(self, name, incarnation, ids):
        return [None for _ in ids]


def _replica(incarnation):
    return Replica("m", incarnation, 0, Model.first(Config.parse(LINE)), 0, incarnation, 0, Stats())


async def test_the_answer_of_a_namesake_is_not_given():
    """The model is deleted and created again while the answer is looked for; the new one knows the id as well."""
    namesake = _replica("new")
    answer = codec.encode_answer(Outcome(1, [0.5], [0.25], version=1))
    namesake.answers.put([("i:a", 1, answer)], own=False)

    async def load(name, before):
        return namesake

    with pytest.raises(Recreated):
        await Answerer(Forgetful(), load, Stats()).first_answers(_replica("old"), [("i:a", SeenId(1, 0, 0, "d", None))])


async def test_a_snapshot_waits_for_all_answers(monkeypatch):
    """They are stored piece by piece, also those of merged rows; an id that is learned again meanwhile is left out."""
    monkeypatch.setattr(answerer, "ITEMS_MAX", 2)
    model, asked = _replica("new"), []
    block = Outcome(4, [0.5, 0.25], [0.25, 0.0625])
    merged = [(f"i:{at}", 3 + at, MergedAnswer(block, 3 + at, at, at + 1)) for at in range(2)]
    whole = [(f"i:w{at}", at, codec.encode_answer(Outcome(at, [0.5], [0.25], version=at))) for at in (1, 2)]
    model.answers.put([*whole, *merged, ("i:later", 5, b"")], own=False)

    class Store:
        async def record_answers(self, sets):
            asked.extend(item for answers in sets for item in answers.items)
            model.answers.put([("i:1", 5, b"learned anew")], own=False)
            return [True] * len(sets)

    await answerer.AnswerWriter(Store()).record(model, 4)
    expected = codec.encode_answer(Outcome(3, [0.5], [0.25], version=3))
    assert [*whole, ("i:0", 3, expected)] == asked
    assert {"i:1", "i:later"} == set(model.answers.up_to(5))


TIMEOUT_S = 2.0
LIMITS = CommitLimits(100, 100, id_ttl_ms=1000, ids_max=100, read_bytes_max=1000, timeout_s=TIMEOUT_S)


class FrozenLog:
    """A store that takes everything and answers nothing."""

    def node_key(self, name: str) -> str:
        return ""

    async def append(self, appends, safety, large_bytes):
        await asyncio.sleep(TIMEOUT_S)
        return [StoreDown("the store did not answer in time")] * len(appends)


class WaitingModel:
    """A model with one request."""

    name = "m"

    def __init__(self) -> None:
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def next_append(self) -> Ticket:
        append = Append("m", "inc", 0, "inc", "w", 1, "w-1", (SegmentIn(b"row"),), 1000, 100, 1000)
        return Ticket(self, append)

    def lost(self, error: StoreDown) -> None:
        self.ended.set_result(asyncio.get_running_loop().time())


def waits() -> float:
    """How long a request waits that comes half a second after the store has frozen."""

    async def run() -> float:
        async def ping() -> None:
            await asyncio.sleep(TIMEOUT_S)
            raise StoreDown("the store did not answer in time")

        committer = Committer(FrozenLog(), Stats(), LIMITS, ping=ping)
        running = asyncio.create_task(committer.run())
        await asyncio.sleep(0.5)
        model = WaitingModel()
        committer.ready(model)
        ended = await model.ended
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return ended - 0.5

    loop = Loop(random.Random(0), thread_s=0.0)
    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


class TakingLog(FrozenLog):
    """A store that takes everything at once."""

    async def append(self, appends, safety, large_bytes):
        return [Appended("ok", 1, "w-1", 1, 0, ())] * len(appends)


class Broken(WaitingModel):
    """A model that fails when it is told that its request has been appended."""

    def landed(self, result: Appended) -> None:
        raise ZeroDivisionError


class Sound(WaitingModel):
    """A model that does not."""

    def landed(self, result: Appended) -> None:
        self.ended.set_result(0.0)


async def test_a_model_that_fails_leaves_none_behind_it_waiting():
    """Those before it have their answers; it and those behind it are told that nothing will come."""
    committer = Committer(TakingLog(), Stats(), LIMITS, ping=None)
    models = [Sound(), Broken(), Sound()]
    for model in models:
        committer.ready(model)
    running = asyncio.create_task(committer.run())
    async with asyncio.timeout(5):
        ended = [await model.ended for model in models]
        assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], ZeroDivisionError)
    assert [True, False, False] == [at == 0.0 for at in ended]


def test_a_request_waits_for_the_store_as_long_as_the_setting_says():
    """Once, not twice."""
    assert TIMEOUT_S <= waits() < TIMEOUT_S + 0.1
