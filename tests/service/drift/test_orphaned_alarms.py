"""The search for alarms that a dead service has left unpublished: which models a service loads, and which not."""

import asyncio
from types import SimpleNamespace

import pytest

from service.errors import ModelDown, StoreDown
from service.monitor import orphaned_alarms
from service.monitor.orphaned_alarms import OrphanedAlarms
from tests.service.api_fixtures import DFOP
from tests.service.drift.test_api_drift import raise_alarms, told
from tests.service.waiting import until

pytestmark = pytest.mark.usefixtures("alarming")
ROWS = {"columns": ["a", "b"], "data": [[0.1, 0.2], [0.3, 0.1]], "labels": ["UP", "DOWN"]}


async def _learnt(api, name):
    """A model that a service has appended to and holds."""
    await api.client.put(f"/models/{name}", json=DFOP)
    await api.post(f"/models/{name}/feedback/batch", ROWS)
    await until(lambda: name in api.engine.notices._asked)


async def _left_behind(api, name):
    """A model whose process is gone, with an alarm that nobody has published."""
    await _learnt(api, name)
    engine = api.engine
    engine.models.peek(name).on_alarm = lambda _: None  # a process that dies before it publishes
    values = await raise_alarms(api, f"/models/{name}")
    engine.models._drop(name)
    await until(lambda: name not in engine.notices._asked)
    return values


async def _settled(api, name):
    """A model whose stored summary is that of its last version, and which nobody holds any more."""
    await _learnt(api, name)
    catalog = api.engine.store.catalog
    while name in (await catalog.behind(1000, None))[0]:
        await asyncio.sleep(0.01)
    api.engine.models._drop(name)
    await until(lambda: name not in api.engine.notices._asked)


async def _events(api, name):
    """The alarms of a model that are in the stream; asking for these loads no model."""
    listed = (await api.get("/drift", params={"limit": 1000}))["events"]
    return told({"events": [event for event in listed if event["model"] == name]})


async def test_a_service_that_starts_publishes_what_was_left_and_leaves_the_rest(start):
    """Models that a process holds, or whose summaries say that nothing is left, are not loaded."""
    first = await start()
    await _settled(first, "c-clean")
    values = await _left_behind(first, "a-left")
    await _learnt(first, "b-held")
    second = await start()
    async with asyncio.timeout(20):
        while await _events(second, "a-left") != values:
            await asyncio.sleep(0.01)
    await OrphanedAlarms(second.engine, second.engine.models.until_published).look()
    assert [None, None] == [second.engine.models.peek(name) for name in ("b-held", "c-clean")]


async def test_no_summary_is_stored_before_the_alarms_up_to_it_are_published(start):
    """Neither with an append nor by the writer, until they are: then the model is behind no more."""
    api = await start()
    engine = api.engine
    await _learnt(api, "waits")
    replica = engine.models.peek("waits")
    publish, replica.on_alarm = replica.on_alarm, lambda _: None
    await raise_alarms(api, "/models/waits")
    replica.summary.rode = float("-inf")
    await api.post("/models/waits/feedback/batch", ROWS)
    await engine.models.summaries.flush()
    assert replica.version == (await engine.store.catalog.behind(1000, None))[0]["waits"]
    replica.on_alarm = publish
    replica.notify()
    await until(lambda: not replica.unpublished)
    await engine.models.summaries.flush()
    assert "waits" not in (await engine.store.catalog.behind(1000, None))[0]


async def test_models_that_cannot_be_loaded_are_passed_over_until_they_have_moved(start):
    """Those that only a store which is away keeps from it are looked at again."""
    api, tried = await start(), []
    engine = api.engine
    await _left_behind(api, "down")
    await _left_behind(api, "away")

    async def get(name):
        tried.append(name)
        raise ModelDown("no") if name == "down" else StoreDown("away")

    orphans = OrphanedAlarms(
        SimpleNamespace(models=SimpleNamespace(get=get), store=engine.store, notices=engine.notices), None
    )
    for _ in range(2):
        await orphans.look()
    assert (1, 2) == (tried.count("down"), tried.count("away"))
    orphans._passed_over["down"] -= 1
    await orphans.look()
    assert 2 == tried.count("down")


async def test_a_first_look_that_fails_is_tried_again(start, monkeypatch):
    """A service may start before its store."""
    monkeypatch.setattr(orphaned_alarms, "AGAIN_S", 0.01)
    api, looks = await start(), []

    async def behind(*_):
        looks.append(1)
        if len(looks) == 1:
            raise StoreDown("the store does not answer")
        return {}, None

    store = SimpleNamespace(catalog=SimpleNamespace(behind=behind))
    own = SimpleNamespace(store=store, notices=api.engine.notices)
    task = asyncio.create_task(OrphanedAlarms(own, lambda _: asyncio.sleep(0)).run())
    await until(lambda: len(looks) == 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_does_not_tell_holds_nothing(start, monkeypatch):
    """Where PUBSUB is denied every model that is behind is looked at."""
    first = await start()
    await _learnt(first, "told")
    connection = first.engine.store.connection
    assert [1] == [count > 0 for count in await connection.listeners(["onepass:{told}:hints"])]

    async def denied(*commands):
        assert "PUBSUB" == commands[0][0]

    monkeypatch.setattr(connection, "_told", denied)
    assert set() == await first.engine.notices.held(["told"])
