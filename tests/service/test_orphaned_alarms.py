"""The search for alarms that a dead service has left unpublished: which models a service loads, and which not."""

import asyncio

import pytest

from service.errors import StoreDown
from service.monitor import orphaned_alarms
from service.monitor.orphaned_alarms import OrphanedAlarms
from service.store.keys import DRIFT_UNPUBLISHED
from service.store.log import alarm_index
from service.store.log.alarm_index import ABANDONED_S, Entered
from tests.service.api_fixtures import DFOP
from tests.service.test_api_drift import raise_alarms, told

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("alarming")]
ROWS = {"columns": ["a", "b"], "data": [[0.1, 0.2], [0.3, 0.1]], "labels": ["UP", "DOWN"]}


def _engine(api):
    return api.app.context.engine


def _index(api):
    return _engine(api).store.log.alarm_index


async def _until(condition):
    """Wait for what the tasks of a service do by themselves."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def _learnt(api, name):
    """A model that a service has appended to and holds."""
    await api.client.put(f"/models/{name}", json=DFOP)
    await api.post(f"/models/{name}/feedback/batch", ROWS)
    await _until(lambda: name in _engine(api).notices._asked)


async def _left_behind(api, name, *, age_s=0):
    """A model in the index whose process is gone, with an alarm that nobody has published."""
    await _learnt(api, name)
    engine, path = _engine(api), f"/models/{name}"
    replica = engine.models.peek(name)
    replica.on_alarm = None  # a process that dies before it publishes
    values = await raise_alarms(api, path)
    engine.models._drop(name)
    await _until(lambda: name not in engine.notices._asked)
    entered = Entered(name, replica.incarnation, "dead")
    (now, _) = (await engine.store.connection.ask(("TIME",)))[0]
    await engine.store.connection.ask(("ZADD", DRIFT_UNPUBLISHED, 1000 * (int(now) - age_s), str(entered)))
    await _index(api).remove(_index(api).covered(0), 0)
    return values


async def _events(api, name):
    """The alarms of a model that are in the stream; asking for these loads no model."""
    listed = (await api.get("/drift", params={"limit": 1000}))["events"]
    return told({"events": [event for event in listed if event["model"] == name]})


async def test_a_service_that_starts_publishes_what_was_left_and_leaves_the_rest(start):
    """Of the models in the index those that nobody holds; others are neither loaded nor looked at."""
    first = await start()
    values = await _left_behind(first, "a-left")
    for name in ("b-held", "c-clean"):
        await _learnt(first, name)
    clean = Entered("c-clean", _engine(first).models.peek("c-clean").incarnation, _index(first).covered(0)[0].writer)
    _engine(first).models._drop("c-clean")
    await _index(first).remove([clean], 0)
    second = await start()
    while await _events(second, "a-left") != values:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert [None, None] == [_engine(second).models.peek(name) for name in ("b-held", "c-clean")]


async def test_what_has_not_been_renewed_for_long_is_published_by_whoever_looks(start, monkeypatch):
    """By the next look of a service that runs; it leaves the index then, and what is young stays."""
    api = await start()
    values = await _left_behind(api, "old", age_s=ABANDONED_S + 1)
    await _left_behind(api, "young", age_s=1)
    orphans = OrphanedAlarms(_engine(api), api.app.context.engine.models.alarms.until_published)
    await orphans._publish_for(await _index(api).left(ABANDONED_S))
    assert (values, []) == (await _events(api, "old"), await _events(api, "young"))
    assert "old" not in [entered.name for entered in await _index(api).left(0)]
    assert "young" in [entered.name for entered in await _index(api).left(0)]


async def test_models_that_cannot_be_loaded_leave_the_index(start):
    """Deleted ones; those that only a store which is away keeps from it stay for the next look."""
    api = await start()
    gone, away = Entered("nobody", "i1", "w"), Entered("away", "i2", "w")
    await _learnt(api, "away")
    for entered in (gone, away):
        await _engine(api).store.connection.ask(("ZADD", DRIFT_UNPUBLISHED, 1, str(entered)))

    async def publish(_):
        raise StoreDown("the store does not answer")

    await OrphanedAlarms(_engine(api), publish)._publish_for([gone, away])
    assert [away] == [entered for entered in await _index(api).left(ABANDONED_S) if entered in (gone, away)]


async def test_what_is_settled_leaves_the_index_and_nothing_else(start, monkeypatch):
    """Once the entry is old: with alarms that are not published, or something on its way, it stays."""
    api = await start()
    for name in ("d-idle", "d-busy", "d-alarm"):
        await _learnt(api, name)
    engine, index = _engine(api), _index(api)
    orphans = OrphanedAlarms(engine, lambda _: pytest.fail("nothing is left"))
    assert [] == orphans._settled(alarm_index.RENEWED_S)
    monkeypatch.setattr(type(engine.models.peek("d-busy").inbox), "idle", property(lambda own: own.name != "d-busy"))
    monkeypatch.setattr(type(engine.models.peek("d-alarm")), "unpublished", property(lambda own: own.name == "d-alarm"))
    settled = [entered.name for entered in orphans._settled(0)]
    assert ("d-idle" in settled, "d-busy" in settled, "d-alarm" in settled) == (True, False, False)
    await index.remove(orphans._settled(0), 0)
    left = [entered.name for entered in await index.left(0)]
    assert ("d-idle" in left, "d-busy" in left, "d-alarm" in left) == (False, True, True)


async def test_a_service_that_stops_leaves_nothing_in_the_index(start):
    """So that the next one has nothing to look for."""
    api = await start()
    await _learnt(api, "e-stops")
    store = _engine(api).store
    orphans = OrphanedAlarms(_engine(api), lambda _: asyncio.sleep(0))
    task = asyncio.create_task(orphans.run())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "e-stops" not in [entered.name for entered in await store.log.alarm_index.left(0)]


async def test_a_first_look_that_fails_is_tried_again(start, monkeypatch):
    """A service may start before its store."""
    monkeypatch.setattr(orphaned_alarms, "AGAIN_S", 0.01)
    api, looks = await start(), []

    async def left(_):
        looks.append(1)
        if len(looks) == 1:
            raise StoreDown("the store does not answer")
        return []

    monkeypatch.setattr(_index(api), "left", left)
    task = asyncio.create_task(OrphanedAlarms(_engine(api), lambda _: asyncio.sleep(0)).run())
    await _until(lambda: len(looks) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_does_not_tell_holds_nothing(start, monkeypatch):
    """Where PUBSUB is denied every model in the index is looked at."""
    first = await start()
    await _learnt(first, "told")
    connection = _engine(first).store.connection
    assert [1] == [count > 0 for count in await connection.listeners(["onepass:{told}:hints"])]

    async def denied(*commands):
        assert "PUBSUB" == commands[0][0]

    monkeypatch.setattr(connection, "_told", denied)
    assert set() == await _engine(first).notices.held(["told"])
