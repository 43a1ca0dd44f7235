"""What is past its time leaves the store, also where nobody appends: by every process, in bounded pieces."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.runtime import sweeper
from service.runtime.stats import Stats
from service.runtime.sweeper import Sweeper
from service.store.catalog import Catalog
from service.store.expiry import Swept, sweep
from service.store.pending import Pending
from service.store.redis.connection import Connection
from tests.service.store_fixtures import INCARNATION, Model, many, one
from tests.service.test_pending_store import track
from tests.service.waiting import until

M = ("m", INCARNATION)


async def _past(model: Model, ids: int, predictions: int = 0) -> None:
    """Ids and tracked predictions that are past their time, beside one of each that is not."""
    await model.append(many(*[f"i{k}" for k in range(ids)]), id_ttl_ms=1, id_cap=10**6)
    await model.append(one("young"), id_cap=10**6)
    pending = Pending(model.connection)
    tracked = [track(f"p{k}", ttl_ms=1, id_cap=10**6) for k in range(predictions)]
    await pending.track_many([*tracked, track("young", id_cap=10**6)])
    await asyncio.sleep(0.01)


async def test_what_is_past_its_time_is_removed_in_pieces(model):
    """At most so many of each kind in one call; predictions are counted; the young stay."""
    await _past(model, 3000)
    await model.connection.ask(*[("ZADD", model.keys.pending_due, 1, f"p{k}") for k in range(5)])
    await model.connection.ask(*[("HSET", model.keys.pending, f"p{k}", "x") for k in range(5)])
    left = (await model.shape())[1] - 1
    assert [Swept(2, 2, True)] == await sweep(model.connection, [M], 2)
    assert [Swept(min(left - 2, 10_000), 3, False)] == await sweep(model.connection, [M], 10_000)
    assert [Swept(0, 0, False)] == await sweep(model.connection, [M], 10_000)
    assert (2, 1, 1, 1, 1) == await model.shape()
    assert 5 == (await Catalog(model.connection).read("m")).expired


async def test_of_a_model_that_is_gone_nothing_is_removed(model):
    """Nor of one that was created anew under its name."""
    await _past(model, 10)
    before = await model.contents()
    assert [Swept(0, 0, False)] * 2 == await sweep(model.connection, [("m", "inc0"), ("n", INCARNATION)], 10)
    assert [] == await sweep(model.connection, [], 10)
    assert before == await model.contents()


@asynccontextmanager
async def sweeping(connection: Connection, processes: int = 1) -> AsyncIterator[list[Stats]]:
    """Sweepers at work, each with its counters; none of them ends by itself."""
    counters = [Stats() for _ in range(processes)]
    tasks = [asyncio.create_task(Sweeper(connection, stats).run()) for stats in counters]
    try:
        yield counters
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def quick(monkeypatch) -> None:
    """Short pauses and small pieces."""
    for name, value in {"PAGE": 3, "STEP_S": 0.01, "WALK_S": 0.02, "VISIT_S": 0.0, "MOST": 100}.items():
        monkeypatch.setattr(sweeper, name, value)


async def test_a_store_without_traffic_forgets_what_is_past_its_time(model, quick):
    """All models, one page after the other; two processes, each of which removes what it finds."""
    models = [model]
    for k in range(7):
        await Catalog(model.connection).create(f"n{k}", INCARNATION, b"{}")
        models.append(Model(model.connection, name=f"n{k}"))
    for each in models:
        await each.append(many(*[f"i{k}" for k in range(950)]), id_ttl_ms=1)

    async def empty() -> bool:
        return {(1, 0, 0, 0, 0)} == {await each.shape() for each in models}

    async with sweeping(model.connection, 2) as both:
        await until(empty)
        assert 8 * 950 == sum(stats.swept for stats in both)


async def test_a_full_store_is_swept_all_the_same(model, quick):
    """Removing what has expired is what makes room."""
    await model.append(many(*[f"i{k}" for k in range(950)]), id_ttl_ms=1)
    await model.connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    async with sweeping(model.connection) as (stats,):
        await until(lambda: 950 == stats.swept)
    assert 0 == (await model.shape())[1]


async def test_a_store_that_does_not_answer_is_waited_for(quick, monkeypatch, tmp_path):
    """The sweeper goes on."""
    monkeypatch.setattr(sweeper, "BACKOFF_S", 0.01)
    connection = Connection(f"unix://{tmp_path}/nobody", 0.1)
    async with sweeping(connection):
        await asyncio.sleep(0.2)
    await connection.close()
