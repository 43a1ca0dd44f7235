"""The search for alarms that a dead service has left unpublished: which models a service loads when it starts."""

import asyncio

import pytest

from service.monitor import left_alarms
from service.monitor.left_alarms import LeftAlarms
from tests.service.api_fixtures import DFOP

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROWS = {"columns": ["a", "b"], "data": [[0.1, 0.2], [0.3, 0.1]], "labels": ["UP", "DOWN"]}


def _engine(api):
    return api.app.context.engine


async def _until(condition):
    """Wait for what the tasks of a service do by themselves."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def _with_tail(api, name):
    """A model whose log goes on after its snapshots, held by a service."""
    await api.client.put(f"/models/{name}", json=DFOP)
    await api.post(f"/models/{name}/feedback/batch", ROWS)
    await _until(lambda: name in _engine(api).notices._asked)


async def test_models_that_nobody_holds_are_loaded_and_others_left(start):
    """A service that joins others loads what a dead one has left, and nothing that another one works on."""
    first = await start()
    for name in ("a-held", "b-left", "c-held"):
        await _with_tail(first, name)
    models = _engine(first).models
    models._drop("b-left")
    await _until(lambda: "b-left" not in _engine(first).notices._asked)
    second = await start()
    found = _engine(second).models
    await _until(lambda: found.peek("b-left") is not None)
    looked = LeftAlarms(_engine(second), lambda _: pytest.fail("nothing is left"))
    assert ["a-held", "c-held"] == await looked._look(["a-held", "b-left", "c-held"])
    assert [None, None] == [found.peek(name) for name in ("a-held", "c-held")]


async def test_held_models_are_looked_at_once_more(start, monkeypatch):
    """A process whose machine was cut off seems to hold its models until the store gives up its connection."""
    first = await start()
    with monkeypatch.context() as patch:
        patch.setattr(LeftAlarms, "run", lambda _: asyncio.sleep(0))  # no search of its own beside the one below
        second = await start()
        await asyncio.sleep(0)
    monkeypatch.setattr(left_alarms, "AGAIN_S", 0.05)
    await _with_tail(first, "held")
    engine, looks = _engine(second), []

    async def look_of_the_store(names, held=engine.notices.held):
        found = await held(names)
        looks.append(found)
        if len(looks) == 1:
            _engine(first).models._drop("held")
            await _until(lambda: "held" not in _engine(first).notices._asked)
        return found

    monkeypatch.setattr(engine.notices, "held", look_of_the_store)
    published = []

    async def publish(replica):
        published.append(replica.name)

    await LeftAlarms(engine, publish).run()
    assert ["held"] == published, looks
    assert "held" in looks[0], looks


async def test_a_store_that_does_not_tell_holds_nothing(start, monkeypatch):
    """Where PUBSUB is denied every model with a tail is loaded."""
    first = await start()
    await _with_tail(first, "told")
    connection = _engine(first).store.connection
    assert [1] == [count > 0 for count in await connection.listeners(["onepass:{told}:hints"])]

    async def denied(commands):
        assert "PUBSUB" == commands[0][0]

    monkeypatch.setattr(connection, "_if_allowed", denied)
    assert set() == await _engine(first).notices.held(["told"])
