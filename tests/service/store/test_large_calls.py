"""Large calls: more time, in proportion to their bytes, over connections of their own; they fail alone."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from service.errors import StoreDown
from service.runtime.replicas.loader import LOADS_MAX
from service.runtime.snapshots import AT_ONCE
from service.settings import Settings
from service.store.log.appends import LARGE_APPEND_BYTES, SegmentIn
from service.store.redis.connection import Call, Connection, Safety, Script
from service.store.redis.node import LARGE_BYTES_PER_S, Pool
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo, Snapshots
from service.store.states.states import States
from tests.listening import listening
from tests.service.store_fixtures import INCARNATION, many, next_command

TIMEOUT_S = 1.0
SLOW = Script("slow")
FAST = Script("fast")


@asynccontextmanager
async def slow_server(delay_s: float | None) -> AsyncIterator[str]:
    """Answers every call at once, but one of SLOW after a while; None: never."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while words := await next_command(reader):
                if SLOW.sha.encode() in words:
                    await asyncio.sleep(600 if delay_s is None else delay_s)
                writer.write(b"+OK\r\n")

    async with listening(talk) as port:
        yield f"redis://127.0.0.1:{port}"


async def test_a_large_call_has_more_time_than_a_small_one():
    """A delay that fails a small call is in time for one that carries many bytes."""
    async with slow_server(TIMEOUT_S + 0.5) as url:
        connection = Connection(url, TIMEOUT_S)
        call = Call(SLOW, ("k",), ())
        (small,) = await connection.run([call])
        (large,) = await connection.run([call], large_bytes=10 * LARGE_BYTES_PER_S)
        assert (StoreDown, b"OK") == (type(small), large)
        await connection.close()


async def test_large_calls_that_hang_do_not_concern_the_others():
    """Neither those on the connection of the rows nor those of the pool wait for them; they fail by themselves."""
    async with slow_server(None) as url:
        connection = Connection(url, TIMEOUT_S, connections_max=1)
        hanging = [
            asyncio.create_task(connection.run([Call(SLOW, ("k",), ())], large_bytes=LARGE_BYTES_PER_S))
            for _ in range(8)
        ]
        await asyncio.sleep(0.1)
        for quick in (True, False) * 3:
            assert [b"OK"] == await connection.run([Call(FAST, ("k",), ())], quick=quick)
        assert not any(task.done() for task in hanging)
        async with asyncio.timeout(10 * TIMEOUT_S):
            results = await asyncio.gather(*hanging)
        assert [StoreDown] * 8 == [type(result) for (result,) in results]
        assert [b"OK"] == await connection.run([Call(FAST, ("k",), ())], large_bytes=1)
        await connection.close()


async def test_large_states_and_logs_travel_over_a_slow_link(model, monkeypatch):
    """As many as travel together: each call's share is in time, at the rate that large calls are given time for."""
    most, call = 0, Pool.call

    async def watched(pool, commands, timeout_s):
        nonlocal most
        replies = await call(pool, commands, timeout_s)
        words = [word for part in (*commands, *replies) for word in _words(part)]
        most = max(most, sum(len(word) for word in words if isinstance(word, bytes)))
        return replies

    snapshots, states, state = Snapshots(model.connection), States(model.connection), os.urandom(5_000_000)
    info = SnapshotInfo(0, INCARNATION, 0, 0, len(state), digest(state))
    for _ in range(50):
        await model.append(SegmentIn(bytes(100_000)))
    monkeypatch.setattr(Pool, "call", watched)
    assert (await snapshots.write("m", INCARNATION, info, state)).held
    assert state == await snapshots.read("m", INCARNATION, info)
    await states.write("m", INCARNATION, digest(state), state)
    assert 0 < AT_ONCE * most / LARGE_BYTES_PER_S < Settings().store_timeout_s
    most = 0
    assert (await model.log.read_after("m", INCARNATION, 0, INCARNATION, 2**30, 1000)).entries
    assert 0 < LOADS_MAX * most / LARGE_BYTES_PER_S < Settings().store_timeout_s


def _words(part):
    return itertools.chain.from_iterable(map(_words, part)) if isinstance(part, (list, tuple)) else [part]


async def test_an_append_that_travels_apart_is_like_any_other(model):
    """Made once, however often it is sent; its ids are remembered, and its size is what decides where it travels."""
    request = model.asks(many("a", "b", blob=bytes(2 * LARGE_APPEND_BYTES)), SegmentIn(b"x"))
    assert 2 * LARGE_APPEND_BYTES < request.nbytes < 2 * LARGE_APPEND_BYTES + 100
    (first,) = await model.log.append([request], large_bytes=request.nbytes)
    assert ("ok", 1) == (first.code, first.made)
    assert [first] == await model.log.append([request], large_bytes=request.nbytes)
    assert first == (await model.log.append([request]))[0]
    assert (1, 2, 2, 0, 0) == await model.shape()
    assert first.safe
    assert not (await model.log.append([request], Safety(1, 10), large_bytes=1))[0].safe
    (gone,) = await model.log.append([replace(request, incarnation="inc0")], large_bytes=1)
    assert ("gone", None) == (gone.code, gone.made)


@pytest.mark.parametrize("size", [0, 32 * 2**20])
async def test_a_large_entry_comes_back_as_it_was(model, size):
    """The largest body is one entry, written apart and fetched by itself."""
    blob = bytes(range(256)) * (size // 256)
    await model.log.append([model.asks(SegmentIn(blob))], large_bytes=max(1, size))
    read = await model.log.read_after("m", model.asks().incarnation, 0, model.uid, 1 << 20, 10, soon=True)
    assert [((0, blob, ()),)] == [entry.segments for entry in read.entries]
