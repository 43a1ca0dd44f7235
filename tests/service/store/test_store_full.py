"""A store without room for another write: it is full, not down, and everything that only reads goes on."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.errors import StoreDown, StoreFull
from service.store.catalog import Catalog
from service.store.keys import TOMBSTONES, ModelKeys
from service.store.log import append_notices
from service.store.log.append_notices import AppendNotice, AppendNotices
from service.store.log.log import Head
from service.store.pending import Pending
from service.store.redis.connection import Connection
from service.store.states.pieces import PIECE_BYTES, digest
from service.store.states.snapshots import SnapshotInfo, Snapshots
from tests.service.api_fixtures import features, problem
from tests.service.store.test_pending_store import track
from tests.service.store_fixtures import INCARNATION, Model, Server, one

ROW = {"features": features(0), "label": "UP"}


@asynccontextmanager
async def without_memory(url: str) -> AsyncIterator[None]:
    connection = Connection(url, 5)
    try:
        await connection.ask(("CONFIG", "SET", "maxmemory", "1"))
        yield
    finally:
        await connection.ask(("CONFIG", "SET", "maxmemory", "0"))
        await connection.close()


async def test_a_full_store_refuses_writes_and_nothing_else(start, store_url):
    """Feedback is told what is full and what to do, each time; predictions, reads and loads go on; nothing is lost."""
    api, reader = await start(), await start()
    path = await api.learnt()
    async with without_memory(store_url):
        for _ in range(10):
            refused = await api.ask("POST", f"{path}/feedback", json={**ROW, "id": "once"})
            assert "out of memory" in problem(refused, 503)["detail"]
            assert "/problems/store-full" == refused.json()["type"]
            assert "10" == refused.headers["retry-after"]
            await api.post(f"{path}/predict", {"features": features(1)})
            assert 3 == (await api.get(path, params={"consistency": "strong"}))["rows"]
        assert 3 == (await reader.get(path))["rows"]
        for how in (
            {"method": "POST", "path": f"{path}/predict", "json": {"features": features(1), "track": True}},
            {"method": "POST", "path": f"{path}/snapshots"},
            {"method": "PUT", "path": "/models/another", "json": {"algorithm": "rls", "task": "regression"}},
        ):
            assert "/problems/store-full" == problem(await api.ask(**how), 503)["type"]
        ready = await api.get("/readyz")
        assert (True, "up", False) == (ready["ready"], ready["store"], ready["checks"]["room"])
        assert "onepass_store_full 1.0" in (await api.ask("GET", "/metrics")).text
        assert not api.engine.committer.store_down
    answer = await api.post(f"{path}/feedback", {**ROW, "id": "once"})
    assert (4, False) == (answer["rows"], answer["duplicate"])
    assert 4 == (await reader.get(path, params={"consistency": "strong"}))["rows"]


@pytest.mark.parametrize("again", [False, True])
async def test_what_a_full_store_refuses_has_changed_nothing(model, again):
    """Every write of the store; with deletions and answers that need no room it is the same."""
    await model.append(one("a"))
    before = await model.contents()
    await model.connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    blob = b"state"
    info = SnapshotInfo(1, "w1-1", 1, 1, len(blob), digest(blob))
    if again:
        assert isinstance(await model.append(one("b")), StoreFull)
        assert ["seen"] == [segment.status for segment in (await model.append(one("a"))).segments]
    with pytest.raises(StoreFull):
        await Snapshots(model.connection).write("m", INCARNATION, info, blob)
    (recorded,) = await model.log.record_answers([model.answered([("a", 1, b"told")])])
    (tracked,) = await Pending(model.connection).track_many([track("p")])
    assert [StoreFull] * 2 == [type(recorded), type(tracked)]
    with pytest.raises(StoreFull):
        await Catalog(model.connection).create("n", "inc2", b"{}")
    assert [False] == await Catalog(model.connection).judge([("n", "inc2")])
    assert before == await model.contents()
    assert model.connection.full
    assert await Catalog(model.connection).delete("m")
    assert {ModelKeys("m", INCARNATION).deleted.encode(), TOMBSTONES.encode()} == {*await model.contents()}


async def test_a_snapshot_without_room_leaves_the_room_that_there_was(model):
    """The pieces that did fit do not stay for an hour, in which nothing else could be written."""
    await model.append(one("a"))
    before, blob = await model.contents(), os.urandom(6 * PIECE_BYTES)
    info = SnapshotInfo(1, "w1-1", 1, 1, len(blob), digest(blob))
    (memory,) = await model.connection.ask(("INFO", "memory"))
    used = int(re.search(rb"used_memory:(\d+)", memory)[1])
    await model.connection.ask(("CONFIG", "SET", "maxmemory", used + 4 * PIECE_BYTES))
    with pytest.raises(StoreFull):
        await Snapshots(model.connection).write("m", INCARNATION, info, blob)
    assert before == await model.contents()
    assert 2 == (await model.append(one("b"))).made


async def test_a_snapshot_that_was_published_stays_though_its_reply_got_lost(model, monkeypatch):
    """Its writer cannot know, and drops only what is not published."""
    await model.append(one("a"))
    blob, store = b"state", Snapshots(model.connection)
    info = SnapshotInfo(1, "w1-1", 1, 1, len(blob), digest(blob))
    publish = store._publish

    async def unheard(*args):
        await publish(*args)
        raise StoreDown("no reply")

    monkeypatch.setattr(store, "_publish", unheard)
    with pytest.raises(StoreDown):
        await store.write("m", INCARNATION, info, blob)
    assert blob == await store.read("m", INCARNATION, info)


@pytest.fixture
async def stuck(server: Server) -> AsyncIterator[Connection]:
    """A store that cannot write its snapshots, and so takes no writes."""
    own = Server(server.binary, "--save", "900", "1", "--dbfilename", "taken", "--stop-writes-on-bgsave-error", "yes")
    connection = Connection(own.url, 2.0)
    await Catalog(connection).create("m", INCARNATION, b"{}")
    await Model(connection).append(one("a"))
    (own.directory / "taken").mkdir()
    await connection.ask(("BGSAVE",))
    async with asyncio.timeout(20):
        while b"rdb_last_bgsave_status:err" not in (await connection.ask(("INFO", "persistence")))[0]:
            await asyncio.sleep(0.02)
    yield connection
    await connection.close()
    (own.directory / "taken").rmdir()  # a server that cannot save does not stop
    own.end()


async def test_a_store_that_cannot_write_to_its_disk_is_read_on(stuck, monkeypatch):
    """It answers, though it refuses even a ping; heads, entries and notices come from it as ever."""
    monkeypatch.setattr(append_notices, "QUIET_S", 0.02)
    notices, heard, begun = AppendNotices(stuck, "w1"), asyncio.Queue(), asyncio.Event()
    notices.want("m")
    listening = asyncio.create_task(notices.listen(heard.put_nowait, lambda _: begun.set()))
    async with asyncio.timeout(10):
        await begun.wait()
        await asyncio.sleep(0.2)
        model = Model(stuck)
        model.version, model.uid, model.sequence = 1, "w1-1", 1
        refused = await model.append(one("b"))
        assert (StoreFull, True) == (type(refused), "disk" in refused.detail)
        await stuck.ping()
        assert [Head(INCARNATION, 1, "w1-1")] == await model.log.heads(["m"])
        assert 1 == len((await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1000, 10)).entries)
        await stuck.ask(("PUBLISH", model.keys.notices, f"{INCARNATION} 2 w2-1"))
        assert AppendNotice("m", INCARNATION, 2, "w2-1") == await heard.get()
    assert not listening.done()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
