"""Single rows that wait together are one segment; each is answered as if it came alone, also when it comes again."""

import asyncio

import numpy as np
import pytest

from core.config import Config
from core.entry import Outcome, Rows
from core.model import Model
from service.errors import IdsFull, Recreated, RequestConflict
from service.runtime.commit.answerer import Answerer
from service.runtime.replicas.replica import Replica
from service.runtime.stats import Stats
from service.store.log import codec
from service.store.log.appends import SeenId

LINE = {"algorithm": "rls", "task": "regression", "features": ["a"], "watch": None}


async def _model(api, name):
    engine = api.engine
    await api.client.put(f"/models/{name}", json=LINE)
    return engine, await engine.models.get(name)


def _submit(model, label, identity=None, digest="d"):
    """One row whose feature is its label; futures of one turn of the loop go with one append."""
    ids = () if identity is None else (f"i:{identity}",)
    rows = Rows(model.model.prediction_schema.id, None, np.array([[label]]), np.array([label]), ids=ids)
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


CONFIG = Config.parse({"algorithm": "rls", "task": "regression", "features": ["a"]})


class Forgetful:
    """A log that has no answers, as that of a model that was deleted."""

    async def lookup(self, name, incarnation, ids):
        return [None for _ in ids]


def _replica(incarnation):
    return Replica("m", incarnation, 0, Model.first(CONFIG), 0, incarnation, 0, Stats())


async def test_the_answer_of_a_namesake_is_not_given():
    """The model is deleted and created again while the answer is looked for; the new one knows the id as well."""
    namesake = _replica("new")
    answer = codec.encode_answer(Outcome(1, [0.5], [0.25], version=1))
    namesake.answers.put([("i:a", 1, answer)], own=False)

    async def load(name, before):
        return namesake

    with pytest.raises(Recreated):
        await Answerer(Forgetful(), load, Stats()).first_answers(_replica("old"), [("i:a", SeenId(1, 0, 0, "d", None))])
