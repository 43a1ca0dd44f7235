"""The index of models that may have unpublished alarms: what appends put in front of themselves, and who removes it."""

import asyncio

import pytest

from service.errors import StoreDown
from service.store.keys import DRIFT_UNPUBLISHED
from service.store.log import alarm_index
from service.store.log.alarm_index import Entered
from service.store.log.appends import Appended
from service.store.log.log import Log
from service.store.redis.connection import Connection
from tests.service.store_fixtures import INCARNATION

MINE = Entered("m", INCARNATION, "w1")


async def members(connection):
    return (await connection.ask(("ZRANGE", DRIFT_UNPUBLISHED, 0, -1)))[0]


async def aged(connection, by_ms):
    """Let everything in the index be older."""
    for member in await members(connection):
        await connection.ask(("ZINCRBY", DRIFT_UNPUBLISHED, -by_ms, member))


async def test_a_model_is_entered_before_its_first_append(connection, model, monkeypatch):
    """In front of it, and no more until the entry has to be renewed; so does a large append that travels apart."""
    sent = []
    run = connection.run

    async def noted(calls, **how):
        sent.append([call.script is alarm_index._ENTER for call in calls])
        return await run(calls, **how)

    monkeypatch.setattr(connection, "run", noted)
    for _ in range(2):
        await model.append()
    assert [[True, False], [False]] == sent
    assert [str(MINE).encode()] == await members(connection)
    monkeypatch.setattr(alarm_index, "RENEWED_S", 0)
    sent.clear()
    assert isinstance((await model.log.append([model.asks()], large_bytes=1))[0], Appended)
    assert [[True, False]] == sent


async def test_what_could_not_be_entered_is_entered_with_the_next_append(connection, model, monkeypatch):
    """A lost reply, or a store that was away."""

    async def lost(calls, **_):
        return [StoreDown("away") for _ in calls]

    with monkeypatch.context() as patch:
        patch.setattr(connection, "run", lost)
        (answer,) = await model.log.append([model.asks()])
    assert isinstance(answer, StoreDown)
    assert [] == await members(connection)
    await model.append()
    assert [str(MINE).encode()] == await members(connection)


async def test_an_append_that_may_still_come_keeps_its_model_in_the_index(connection, model, monkeypatch):
    """Its process does not remove it: in the end somebody looks at the log."""
    await model.append()
    index = model.log.alarm_index

    async def late(calls, **_):
        return [StoreDown("no answer in time") for _ in calls]

    with monkeypatch.context() as patch:
        patch.setattr(connection, "run", late)
        await model.log.append([model.asks()])
    assert ([], [MINE]) == (index.covered(0), await index.left(0))
    await model.append()
    assert [MINE] == index.covered(0)


async def test_where_the_index_is_on_another_server_no_append_waits_for_it(connection, model, monkeypatch):
    """It is entered all the same; and again with the next append where that server was away."""
    index, run, free = model.log.alarm_index, connection.run, asyncio.Event()
    monkeypatch.setattr(connection, "node_key", lambda key: "a" if key == DRIFT_UNPUBLISHED else "b")

    async def slow(calls, **how):
        if calls[0].script is alarm_index._ENTER:
            await free.wait()
        return await run(calls, **how)

    monkeypatch.setattr(connection, "run", slow)
    await model.append()
    assert [] == await members(connection)
    free.set()
    await asyncio.gather(*index._tasks)
    assert [str(MINE).encode()] == await members(connection)

    async def away(calls, **how):
        return [StoreDown("away")] if calls[0].script is alarm_index._ENTER else await run(calls, **how)

    monkeypatch.setattr(alarm_index, "RENEWED_S", 0)
    monkeypatch.setattr(connection, "run", away)
    await model.append()
    await asyncio.gather(*index._tasks)
    assert [] == index.covered(0)


async def test_what_was_renewed_meanwhile_stays(connection, model):
    """Whoever removes a model has looked at it before: an append may have renewed it, through whichever connection."""
    await model.append()
    index = model.log.alarm_index
    assert ([MINE], []) == (index.covered(0), index.covered(60))
    await index.remove([MINE], 60)
    assert [MINE] == await index.left(0)
    await model.append()  # this process does not count on the entry any more
    await aged(connection, 61_000)
    assert ([MINE], []) == (await index.left(60), await index.left(62))
    await index.remove([MINE], 60)
    assert [] == await index.left(0)


async def test_a_process_that_ends_removes_all_at_once(connection, model):
    """However young they are; those of others stay."""
    await model.append()
    await connection.ask(("ZADD", DRIFT_UNPUBLISHED, 5, "n inc2 w2"))
    index = model.log.alarm_index
    await index.remove(index.covered(0), 0)
    assert [Entered("n", "inc2", "w2")] == await index.left(0)
    await index.remove([], 0)


async def test_an_index_that_does_not_answer_is_told(server):
    """To who looks at it."""
    away = Connection(f"unix://{server.socket}-none", 0.2)
    with pytest.raises(StoreDown):
        await Log(away).alarm_index.left(0)
    await away.close()
