"""Alarms of a model whose log has gone back, while the stream has kept its events or has gone back as well."""

import asyncio

import pytest

from service.errors import ModelLost, NotFound, Recreated
from service.runtime.commit.actor import Actor
from service.store.drift.drift import DriftStream
from service.store.keys import DRIFT_PUBLISHED, ModelKeys
from service.store.redis.connection import Connection
from tests.service.drift.test_api_drift import all_pages, raise_alarms, told
from tests.service.waiting import until

pytestmark = pytest.mark.usefixtures("alarming")


@pytest.fixture
async def store(store_url):
    connection = Connection(store_url, 2.0)
    yield connection
    await connection.close()


async def _events(api, path):
    listed, _ = await all_pages(api, "/drift", limit=1000)
    return told({"events": [event for event in listed if path == f"/models/{event['model']}"]})


class Older:
    """The store's present data of a model; ``published``: how far its alarms are in the stream."""

    def __init__(self, store, api, path):
        self._store, self._replica = store, api.engine.models.peek(path.rpartition("/")[2])
        self._member = ModelKeys(self._replica.name, self._replica.incarnation).member()

    async def noted(self):
        keys = await self._keys()
        self._dumps = dict(zip(keys, await self._store.ask(*[("DUMP", key) for key in keys]), strict=True))
        self._published = await self.published()
        return self

    async def _keys(self):
        return (await self._store.ask(("KEYS", f"onepass:{{{self._replica.name}}}:*")))[0]

    async def published(self):
        return (await self._store.ask(("HGET", DRIFT_PUBLISHED, self._member)))[0]

    async def put_back(self, *, stream):
        """Go back; ``stream``: so does what the store knows to be published."""
        await self._store.ask(*[("DEL", key) for key in await self._keys() if key not in self._dumps], ("TIME",))
        await self._store.ask(*[("RESTORE", key, 0, dump, "REPLACE") for key, dump in self._dumps.items()])
        if stream:
            await self._store.ask(("HSET", DRIFT_PUBLISHED, self._member, self._published))


async def _published(api, path, count):
    """Raise alarms, each by an entry of its own, and wait until they are published."""
    values = [(await raise_alarms(api, path))[0] for _ in range(count)]
    replica = api.engine.models.peek(path.rpartition("/")[2])
    await until(lambda: not replica.unpublished)
    return values


async def test_a_replica_that_has_not_noticed_publishes_no_alarm_of_a_lost_row(start, store):
    """The store comes back older: the replica reads on before it publishes, and later alarms are events again."""
    api = await start()
    path = await api.new()
    kept = await _published(api, path, 2)
    older = await Older(store, api, path).noted()
    lost = await _published(api, path, 5)
    await older.put_back(stream=True)
    api.app.context.broadcast.on_return()
    replica = api.engine.models.peek(path.rpartition("/")[2])
    await until(lambda: not replica.unpublished)
    assert b"2-0" == await older.published()
    new = await _published(api, path, 1)
    assert [*kept, *lost, *new] == await _events(api, path)
    assert b"3-0" == await older.published()


@pytest.mark.parametrize("kept", [0, 2])
async def test_alarms_of_lost_rows_keep_no_later_ones_out_of_the_stream(start, store, kept):
    """In a cluster only the model's server went back: two services take back what is published, and repeat nothing."""
    api, other = await start(), await start()
    path = await api.new()
    first = await _published(api, path, kept)
    older = await Older(store, api, path).noted()
    lost = await _published(api, path, 5)
    await other.get(path, params={"consistency": "strong"})
    await older.put_back(stream=False)
    new = await _published(other, path, 1)
    new += await _published(api, path, 2)
    assert [*first, *lost, *new] == await _events(api, path)
    assert b"%d-0" % (kept + 3) == await older.published()
    again = await start()
    await again.get(path)
    await asyncio.sleep(0.05)
    assert [*first, *lost, *new] == await _events(again, path)


@pytest.mark.parametrize("why", [ModelLost, NotFound, Recreated])
async def test_a_model_that_is_gone_is_not_published(start, caplog, monkeypatch, why):
    """No bug is logged, and nothing is tried again."""
    api = await start()
    path = await api.new()
    await _published(api, path, 1)
    tried = []

    def sync(_):
        tried.append(1)
        raise why("m")

    monkeypatch.setattr(Actor, "sync", sync)
    api.app.context.broadcast.on_return()
    await until(lambda: tried)
    await asyncio.sleep(0.3)
    assert [1] == tried
    assert [] == [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


async def test_a_slow_publisher_takes_nothing_back_that_was_published_anew(start, store, monkeypatch):
    """The position of the lost alarm may be that of a new one by the time that the stream has been searched."""
    api, other = await start(), await start()
    path = await api.new()
    values = await _published(api, path, 2)
    older = await Older(store, api, path).noted()
    values += await _published(api, path, 1)
    await other.get(path, params={"consistency": "strong"})
    await older.put_back(stream=False)
    go_on, waiting, real = asyncio.Event(), asyncio.Event(), DriftStream.last

    async def last(stream, sought, until="+"):
        found = await real(stream, sought, until)
        if stream is api.app.context.drift and "known" in sought.__code__.co_freevars and not waiting.is_set():
            waiting.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(DriftStream, "last", last)
    api.app.context.broadcast.on_return()
    await asyncio.wait_for(waiting.wait(), 10)
    other.app.context.broadcast.on_return()
    await asyncio.sleep(0.3)
    values += await _published(other, path, 1)
    go_on.set()
    await asyncio.sleep(0.5)
    values += await _published(other, path, 1)
    assert values == await _events(api, path)


async def test_models_without_alarms_are_not_behind_after_a_failover(start):
    """Nothing would end the suspicion but reading on: ``/readyz`` would be 503 while rows keep coming."""
    api = await start()
    path = await api.new()
    api.app.context.broadcast.on_return()
    assert not api.engine.models.peek(path.rpartition("/")[2]).progress.suspect
