"""States and segments too large for one command: written in pieces, named by their entry, and like any other else."""

import asyncio

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, save
from core.model.apply import apply
from service.errors import StoreDown
from service.runtime.replicas import named_states
from service.store.keys import ModelKeys
from service.store.log import codec
from service.store.log.entries import name, name_of
from service.store.states.pieces import PIECE_BYTES, digest
from tests.service.api_fixtures import RLS, STATE, Api, features, problem

WIDE = {**RLS, "features": [f"x{i}" for i in range(900)]}


@pytest.fixture(scope="module")
def wide():
    """A state of several pieces."""
    model = Model.first(Config.parse(WIDE))
    X = np.random.default_rng(0).normal(size=(3, 900))
    apply(model, Entry(1, 0, (Rows(model.prediction_schema.id, None, X, np.arange(3.0)),)))
    state = save.to_bytes(model, {"version": 1})
    assert len(state) > PIECE_BYTES
    return state


def keys_of(service, path):
    """The keys of a model that a service has in memory."""
    replica = service.engine.models.peek(path.rpartition("/")[2])
    return ModelKeys(replica.name, replica.incarnation)


async def entries_of(service, path):
    """The entries of the log as they are stored."""
    keys, log = keys_of(service, path), service.engine.store.log
    return (await log.read_after(keys.name, keys.incarnation, 0, keys.incarnation, 10**9, 1000)).entries


async def log_of(service, path):
    """Their segments, decoded."""
    return [segment for raw in await entries_of(service, path) for segment in codec.entry(raw).segments]


async def test_an_import_of_several_pieces_reaches_every_replica(start, wide):
    """One writes it, the other reads it, and so does one that starts afterwards: all have the same bytes."""
    one, other = await start(), await start()
    path = await one.new(WIDE)
    await other.get(path)  # holds the model and follows it
    answer = await one.ask("PUT", f"{path}/state", content=wide, headers=STATE)
    assert (200, 1, 3) == (answer.status_code, answer.json()["version"], answer.json()["rows"])
    told = await one.post(f"{path}/feedback", {"features": dict.fromkeys(WIDE["features"], 1.0), "label": 2.0})
    late = await start()
    states = [await service.state(path) for service in (one, other, late)]
    assert states[0] == states[1] == states[2]
    assert (2, 4) == (told["version"], told["rows"])
    (segment, _) = await log_of(one, path)
    assert (b"", "import", digest(wide), len(wide)) == (segment.state, segment.source, segment.digest, segment.size)


async def test_a_restore_names_the_snapshot_by_digest(api, start):
    """Its entry is small; the state stays in the store while the log has the entry."""
    path = await api.learnt(RLS, rows=5)
    await api.post(f"{path}/snapshots", status=201)
    await api.post(f"{path}/feedback", {"features": features(9), "label": 1.0})
    await api.post(f"{path}/restore", {"version": 5})
    last = (await log_of(api, path))[-1]
    key, connection = keys_of(api, path).state(last.digest), api.engine.store.connection
    assert [-1] == await connection.ask(("PTTL", key))
    other = await start()
    assert await api.state(path) == await other.state(path)


async def test_a_state_whose_pieces_are_gone_is_not_acknowledged(api, monkeypatch):
    """They expired between writing and appending: 503, nothing changes, and the next attempt works."""
    path = await api.learnt(RLS)
    exported = await api.state(path)
    states, before = api.engine.store.states, await api.standing(path)
    with monkeypatch.context() as patch:

        async def lose(*_):
            return None

        patch.setattr(type(states), "write", lose)
        problem(await api.ask("PUT", f"{path}/state", content=exported, headers=STATE), 503)
    assert before == await api.standing(path)
    assert 200 == (await api.ask("PUT", f"{path}/state", content=exported, headers=STATE)).status_code


async def test_a_store_that_fails_while_pieces_are_written_changes_nothing(api, wide, monkeypatch):
    """The model goes on; other models are not told that the store is down."""
    path, bystander = await api.new(WIDE), await api.new(RLS)
    before = await api.standing(path)
    connection = api.engine.store.connection
    key, sent = keys_of(api, path).state(digest(wide)), []

    async def failing(call):
        sent.extend(each for each in call.keys if each == key)  # the service asks for other things meanwhile
        raise StoreDown("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "one", failing)
        problem(await api.ask("PUT", f"{path}/state", content=wide, headers=STATE), 503)
        await api.post(f"{bystander}/feedback", {"features": features(0), "label": 1.0})
    assert [key] == sent
    assert not api.engine.committer.store_down
    assert before == await api.standing(path)


async def test_an_import_that_finds_no_room_creates_no_model(api, wide):
    """There is room for a new model, but not for its state: 503, the name stays free, and the next attempt works."""
    connection = api.engine.store.connection
    (memory,) = await connection.ask(("INFO", "memory"))
    used = int(memory.partition(b"used_memory:")[2].split()[0])
    await connection.ask(("CONFIG", "SET", "maxmemory", str(used + 2**20)))
    try:
        problem(await api.ask("PUT", "/models/roomless/state", content=wide, headers=STATE), 503)
    finally:
        await connection.ask(("CONFIG", "SET", "maxmemory", "0"))
    problem(await api.ask("GET", "/models/roomless"), 404)
    answer = await api.ask("PUT", "/models/roomless/state", content=wide, headers=STATE)
    assert (201, 0, 3) == (answer.status_code, answer.json()["version"], answer.json()["rows"])


async def test_imports_into_one_new_name_create_one_model(start, wide):
    """Two at the same moment, at two services: 201 for the one that created it, 200 for the other."""
    ask = [(await start()).ask("PUT", "/models/contested/state", content=wide, headers=STATE) for _ in range(2)]
    answers = await asyncio.gather(*ask)
    found = sorted((answer.status_code, answer.json()["version"]) for answer in answers)
    assert [(200, 1), (201, 0)] == found
    assert 1 == len({answer.json()["incarnation"] for answer in answers})


async def test_a_state_that_cannot_be_read_takes_its_model_out_of_service(start):
    """The log names it and no snapshot follows it: loudly, on every replica that would have to apply the entry."""
    one, other = await start(), await start()
    path = await one.learnt(RLS)
    await other.get(path)
    exported = await one.state(path)
    replica = other.engine.models.peek(path.rpartition("/")[2])
    async with replica.lock:  # does not apply what comes now
        assert 200 == (await one.ask("PUT", f"{path}/state", content=exported, headers=STATE)).status_code
        await one.engine.store.connection.ask(("DEL", keys_of(one, path).state(digest(exported))))
    fresh = await start()
    problem(await fresh.ask("GET", path), 503)
    problem(await other.ask("GET", path, params={"consistency": "strong"}), 503)
    assert 4 == (await one.get(path))["version"]
    await one.post(f"{path}/snapshots", status=201)  # whoever has the state brings the others back
    later = await start()
    assert await one.state(path) == await later.state(path)


async def test_a_state_trimmed_away_under_a_follower_is_passed_over(start):
    """A snapshot behind the entry has taken its place: the follower reloads and has the same bytes."""
    one, other = await start(snapshots_kept=1), await start()
    path = await one.learnt(RLS)
    await other.get(path)
    exported = await one.state(path)
    replica = other.engine.models.peek(path.rpartition("/")[2])
    async with replica.lock:
        assert 200 == (await one.ask("PUT", f"{path}/state", content=exported, headers=STATE)).status_code
        await one.post(f"{path}/snapshots", status=201)
        assert [0] == await one.engine.store.connection.ask(("EXISTS", keys_of(one, path).states))
    assert await one.state(path) == await other.state(path)
    assert replica.down is None


async def test_states_in_transfer_are_bounded(api):
    """One is taken however large; with others under way what exceeds the bound is 503, and is taken later."""
    path = await api.learnt(RLS)
    budget = api.engine.state_budget
    exported = await api.state(path)
    with budget.held(budget.most + 1):
        problem(await api.ask("PUT", f"{path}/state", content=exported, headers=STATE), 503)
        problem(await api.ask("GET", f"{path}/state"), 503)
        problem(await api.ask("POST", f"{path}/copy", json={"name": "never"}), 503)
    problem(await api.ask("GET", "/models/never"), 404)
    assert 200 == (await api.ask("PUT", f"{path}/state", content=exported, headers=STATE)).status_code
    assert 0 == budget.used


async def test_an_export_that_nobody_reads_is_given_back(api, monkeypatch):
    """A client that goes away in the middle leaves nothing counted."""
    path = await api.learnt(RLS)
    budget, app = api.engine.state_budget, api.app

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.body":
            raise OSError("gone")

    scope = {
        "type": "http", "method": "GET", "path": f"{path}/state", "raw_path": f"{path}/state".encode(), "headers": [],
        "query_string": b"", "client": ("127.0.0.1", 1), "server": ("onepass", 80), "scheme": "http",
        "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    with pytest.raises(OSError, match="gone"):
        await asyncio.wait_for(app({**scope, "state": {}}, receive, send), 10)
    assert 0 == budget.used


LARGE_ROWS = 4000
LARGE_BYTES = LARGE_ROWS * 3 * 8


@pytest.fixture
def small_pieces(monkeypatch):
    """What is large, and the pieces: a hundredth of what they are."""
    monkeypatch.setattr(named_states, "NAMED_BYTES", 20_000)
    monkeypatch.setattr("service.runtime.commit.actor.LITTLE_BYTES", 10_000)
    monkeypatch.setattr("service.store.states.pieces.PIECE_BYTES", 10_000)


async def _learn(api: Api, path: str, rows: int = LARGE_ROWS, start: int = 0, **headers: str):
    x = np.sin(np.arange(start, start + 2 * rows).reshape(rows, 2))
    body = {"columns": ["a", "b"], "data": x.tolist(), "labels": (x @ [1.0, -2.0]).tolist()}
    return await api.post(f"{path}/feedback/batch", body, headers=headers)


async def test_an_entry_names_a_large_segment(small_pieces, api, start):
    """It is small itself; its size counts; whoever reads it learns the same rows, at once or after a restart."""
    path, reader = await api.new(RLS), await start()
    await reader.get(path)
    first, answer = await _learn(api, path, 50), await _learn(api, path)
    assert (50, LARGE_ROWS + 50, 2) == (first["rows"], answer["rows"], answer["version"])
    small, large = await entries_of(api, path)
    ((_, blob, _),) = large.segments
    assert (None, True) == (name_of(small.segments[0][1]), len(blob) < 60)
    assert LARGE_BYTES < name_of(blob)[1] == large.size < LARGE_BYTES + 1000
    replica = await api.engine.replica(path.rpartition("/")[2])
    assert small.size + large.size == replica.saved.log_bytes
    for other in (reader, await start()):
        assert await api.state(path) == await other.state(path)


async def test_a_large_batch_with_a_key_is_learned_once(small_pieces, api):
    """Its retry, whose pieces are written again, gets the same answer and adds nothing."""
    path, headers = await api.new(RLS), {"Idempotency-Key": "once"}
    first, again = await _learn(api, path, **headers), await _learn(api, path, **headers)
    assert {**first, "duplicate": True, "duplicates": LARGE_ROWS} == again
    shown = await api.get(path)
    assert (1, LARGE_ROWS) == (shown["version"], shown["rows"])


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
    assert LARGE_ROWS == (await learning)["rows"]
    assert (1, True) == (replica.version, replica.inbox.idle)


def test_a_name_is_not_taken_for_a_segment():
    """Nor a segment for a name; a corrupt name is refused."""
    named = name("ab", 3_000_000)
    assert ("ab", 3_000_000) == name_of(named) == name_of(memoryview(named))
    assert [None, None] == [name_of(b""), name_of(b"\x93\xa5reset\x01\x90")]
    with pytest.raises(ValueError):
        name_of(named[:-1])
