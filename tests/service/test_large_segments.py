"""Segments too large for one command of the store: written in pieces, named by their entry, and like any other else."""

import asyncio

import numpy as np
import pytest

from service.runtime.replicas import named_states
from service.store.keys import ModelKeys
from service.store.log.entries import RawEntry, name, name_of
from tests.service.api_fixtures import RLS, Api

ROWS = 4000
BYTES = ROWS * 3 * 8


@pytest.fixture
def small_pieces(monkeypatch):
    """What is large, and the pieces: a hundredth of what they are."""
    monkeypatch.setattr(named_states, "NAMED_BYTES", 20_000)
    monkeypatch.setattr("service.runtime.commit.actor.LITTLE_BYTES", 10_000)
    monkeypatch.setattr("service.store.states.pieces.PIECE_BYTES", 10_000)


async def _learn(api: Api, path: str, rows: int = ROWS, start: int = 0, **headers: str):
    x = np.sin(np.arange(start, start + 2 * rows).reshape(rows, 2))
    body = {"columns": ["a", "b"], "data": x.tolist(), "labels": (x @ [1.0, -2.0]).tolist()}
    return await api.post(f"{path}/feedback/batch", body, headers=headers)


def _keys(path: str, incarnation: str) -> ModelKeys:
    return ModelKeys(path.rpartition("/")[2], incarnation)


async def _entries(api: Api, path: str) -> tuple[RawEntry, ...]:
    incarnation = (await api.get(path))["incarnation"]
    log = api.engine.store.log
    return (await log.read_after(path.rpartition("/")[2], incarnation, 0, incarnation, 1 << 30, 100)).entries


async def test_an_entry_names_a_large_segment(small_pieces, api, start):
    """It is small itself; its size counts; whoever reads it learns the same rows, at once or after a restart."""
    path, reader = await api.new(RLS), await start()
    await reader.get(path)
    first, answer = await _learn(api, path, 50), await _learn(api, path)
    assert (50, ROWS + 50, 2) == (first["rows"], answer["rows"], answer["version"])
    small, large = await _entries(api, path)
    ((_, blob, _),) = large.segments
    assert (None, True) == (name_of(small.segments[0][1]), len(blob) < 60)
    assert BYTES < name_of(blob)[1] == large.size < BYTES + 1000
    replica = await api.engine.replica(path.rpartition("/")[2])
    assert small.size + large.size == replica.saved.log_bytes
    for other in (reader, await start()):
        assert await api.state(path) == await other.state(path)


async def test_a_large_batch_with_a_key_is_learned_once(small_pieces, api):
    """Its retry, whose pieces are written again, gets the same answer and adds nothing."""
    path, headers = await api.new(RLS), {"Idempotency-Key": "once"}
    first, again = await _learn(api, path, **headers), await _learn(api, path, **headers)
    assert {**first, "duplicate": True, "duplicates": ROWS} == again
    shown = await api.get(path)
    assert (1, ROWS) == (shown["version"], shown["rows"])


async def test_the_pieces_leave_with_the_entries_that_name_them(small_pieces, api):
    """When a snapshot trims the log, and when the model is deleted; what two entries name stays for the second."""
    path = await api.new(RLS)
    keys, connection = _keys(path, (await api.get(path))["incarnation"]), api.engine.store.connection
    for _ in range(2):
        await _learn(api, path)
    (noted,) = await connection.ask(("HVALS", keys.states))
    assert (2, 1) == (len(noted), len({*noted}))
    piece = keys.state(noted[0].decode())
    for _ in range(3):
        await api.post(f"{path}/snapshots", status=201)
        await _learn(api, path, 10)
        await api.post(f"{path}/snapshots", status=201)
        (noted,), (found,) = await connection.ask(("HVALS", keys.states)), await connection.ask(("EXISTS", piece))
    assert (0, 0) == (len(noted), found)
    await _learn(api, path)
    assert 204 == (await api.ask("DELETE", path)).status_code
    (left,) = await connection.ask(("KEYS", f"onepass:{{{keys.name}}}*"))
    # A snapshot that was under way leaves a chunk that was never published; it expires.
    assert [keys.deleted.encode()] == [key for key in left if b":chunks:" not in key]


async def test_a_model_stays_in_memory_while_a_large_segment_is_written(small_pieces, api, monkeypatch):
    """It would be appended through a replica that nobody reads any more."""
    path, engine = await api.new(RLS), api.engine
    replica, written, go_on = await engine.replica(path.rpartition("/")[2]), asyncio.Event(), asyncio.Event()
    write = engine.store.states.write

    async def slowly(*given):
        await write(*given)
        written.set()
        await go_on.wait()

    monkeypatch.setattr(engine.store.states, "write", slowly)
    learning = asyncio.create_task(_learn(api, path))
    await written.wait()
    assert not replica.idle
    monkeypatch.setattr(engine.models, "_budget_bytes", 0)
    engine.models.shrink()
    assert replica is engine.models.peek(replica.name)
    go_on.set()
    assert ROWS == (await learning)["rows"]
    assert (1, True) == (replica.version, replica.inbox.idle)


def test_a_name_is_not_taken_for_a_segment():
    """Nor a segment for a name; a corrupt name is refused."""
    named = name("ab", 3_000_000)
    assert ("ab", 3_000_000) == name_of(named) == name_of(memoryview(named))
    assert [None, None] == [name_of(b""), name_of(b"\x93\xa5reset\x01\x90")]
    with pytest.raises(ValueError):
        name_of(named[:-1])
