"""Snapshots in the store: published whole or not at all, kept few, checked when read; states that entries name."""

import os
from dataclasses import dataclass

import msgspec
import pytest

from core.model import STATE_VERSION
from service.errors import Recreated
from service.store.catalog import Catalog
from service.store.keys import TOMBSTONES
from service.store.log.appends import NamedState
from service.store.states.pieces import PIECE_BYTES, digest
from service.store.states.snapshots import SnapshotInfo, Snapshots, Written
from service.store.states.states import StateLost, States
from tests.service.store_fixtures import INCARNATION, Model, SegmentIn

STATE = b"the whole state"


def names(state: bytes, size: int | None = None) -> SegmentIn:
    """A segment that names a state."""
    return SegmentIn(b"named", state=NamedState(digest(state), len(state) if size is None else size))


async def write(model, state=STATE, incarnation=INCARNATION):
    await States(model.connection).write("m", incarnation, digest(state), state)


async def read(model, state=STATE):
    return bytes(await States(model.connection).read("m", INCARNATION, digest(state), len(state)))


async def life_ms(model, state=STATE):
    return (await model.connection.ask(("PTTL", model.keys.state(digest(state)))))[0]


async def snapshot(model, keep):
    info = SnapshotInfo(model.version, model.uid, 0, 0, 1, digest(b"x"))
    assert await Snapshots(model.connection).write("m", INCARNATION, info, b"x", keep)


async def states(model):
    """Versions of the entries that name a state."""
    (found,) = await model.connection.ask(("HKEYS", model.keys.states))
    return sorted(int(place.split(b"-")[0]) for place in found)


@pytest.mark.parametrize("size", [1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
async def test_a_state_that_is_written_is_read(model, size):
    """In as many pieces as it takes; it expires until an entry names it, then it stays, written again or not."""
    state = os.urandom(size)
    await write(model, state)
    assert 0 < await life_ms(model, state) <= 3_600_000
    answer = await model.append(SegmentIn(b"rows"), names(state))
    assert ["added", "added"] == [segment.status for segment in answer.segments]
    assert -1 == await life_ms(model, state)
    await write(model, state)
    assert -1 == await life_ms(model, state)
    assert state == await read(model, state)
    assert [1] == await states(model)


@pytest.mark.parametrize("missing", ["all", "first", "last", "longer", "shorter"])
async def test_an_entry_whose_state_is_not_there_is_not_added(model, missing):
    """The segment alone is refused, and nothing of it is kept; so is an append that has no other."""
    state = os.urandom(2 * PIECE_BYTES + 10)
    key = model.keys.state(digest(state))
    if missing != "all":
        await write(model, state)
    if missing in {"first", "last"}:
        await model.connection.ask(("HDEL", key, 0 if missing == "first" else 2))
    size = len(state) + {"longer": 1, "shorter": -1}.get(missing, 0)
    answer = await model.append(names(state, size))
    assert ("ok", None, 0) == (answer.code, answer.made, answer.head)
    assert ["stateless"] == [s.status for s in answer.segments]
    answer = await model.append(names(state, size), SegmentIn(b"rows"))
    assert (1, ["stateless", "added"]) == (answer.made, [s.status for s in answer.segments])
    assert ["stateless", "added"] == [s.status for s in (await model.again()).segments]
    assert [] == await states(model)


@pytest.mark.parametrize("damage", [b"THE WHOLE STATE", b"the whole stat", b"the whole state.", None])
async def test_a_state_that_is_not_as_it_was_written_is_not_read(model, damage):
    """Other bytes, another length, nothing at all; a state that was never written, too."""
    await write(model)
    key = model.keys.state(digest(STATE))
    await model.connection.ask(("DEL", key) if damage is None else ("HSET", key, 0, damage))
    with pytest.raises(StateLost):
        await read(model)
    with pytest.raises(StateLost):
        await States(model.connection).read("m", INCARNATION, "00", 2**60)


async def test_a_state_goes_with_the_last_entry_that_names_it(model):
    """Trimming takes those that only trimmed entries name; one that is named again stays."""
    for state in (STATE, b"another", STATE):
        await write(model, state)
        await model.append(names(state))
    await snapshot(model, 2)
    await model.append()
    assert [1, 2, 3] == await states(model)
    model.version, model.uid = 2, "w1-2"
    await snapshot(model, 2)  # the log begins behind version 2 now
    assert [3] == await states(model)
    assert STATE == await read(model)
    with pytest.raises(StateLost):
        await read(model, b"another")
    await write(model, b"another")
    model.version, model.uid = 4, "w1-4"
    await model.append(names(b"another"))
    await snapshot(model, 1)
    assert [] == await states(model)
    assert {model.keys.meta, model.keys.log, model.keys.snapshots, model.keys.chunks(5)} == {
        key.decode() for key in await model.contents() if b"{m}" in key
    }


async def test_deleting_the_model_takes_its_states(model):
    """Those that no entry names expire by themselves; nobody writes for a model that is gone."""
    await write(model)
    await write(model, b"unused")
    await model.append(names(STATE))
    assert await Catalog(model.connection).delete("m")
    left = {TOMBSTONES, model.keys.deleted, model.keys.state(digest(b"unused"))}
    assert left == {key.decode() for key in await model.contents()}
    with pytest.raises(Recreated):
        await write(model)
    await Catalog(model.connection).create("m", "inc2", b"{}")
    with pytest.raises(Recreated):
        await write(model)


@dataclass
class Taker:
    """A replica that takes snapshots."""

    model: Model
    store: Snapshots

    def info(self, version: int, blob: bytes, uid: str | None = None) -> SnapshotInfo:
        uid = uid or (f"w1-{version}" if version else INCARNATION)
        return SnapshotInfo(version, uid, version * 10, 1234, len(blob), digest(blob), STATE_VERSION)

    async def take(self, version: int, blob: bytes = b"state", uid: str | None = None, **how: int) -> bool:
        return (await self.write(version, blob, uid, **how)).held

    async def write(self, version: int, blob: bytes = b"state", uid: str | None = None, **how: int) -> Written:
        return await self.store.write("m", INCARNATION, self.info(version, blob, uid), blob, **how)

    async def versions(self) -> list[int]:
        return [info.version for info in await self.store.list("m", INCARNATION)]

    async def log_begins(self) -> list[bytes]:
        (found,) = await self.model.connection.ask(("XRANGE", self.model.keys.log, "-", "+", "COUNT", 1))
        return [entry[0] for entry in found]

    async def keys(self) -> set[bytes]:
        return {key.rpartition(b":")[2] for key in await self.model.contents() if b":chunks:" in key}


@pytest.fixture
async def taker(model) -> Taker:
    """A model at version 6."""
    for _ in range(6):
        await model.append()
    return Taker(model, Snapshots(model.connection))


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES])
async def test_what_is_written_is_read(taker, size):
    """Any bytes, in as many pieces as they take, and nothing that expires once it is published."""
    blob = os.urandom(size)
    assert await taker.take(6, blob)
    (info,) = await taker.store.list("m", INCARNATION)
    assert taker.info(6, blob) == info
    assert blob == await taker.store.read("m", INCARNATION, info)
    (ttl, pieces) = await taker.model.connection.ask(
        ("PTTL", taker.model.keys.chunks(6)), ("HLEN", taker.model.keys.chunks(6))
    )
    assert (-1, max(1, -(-size // PIECE_BYTES))) == (ttl, pieces)


async def test_few_are_kept_and_the_log_goes_with_the_oldest(taker):
    """Beyond ``keep`` the oldest go with their pieces; from the second on the log begins behind the oldest kept."""
    for version, kept, begins in ((1, [1], b"1-0"), (3, [3, 1], b"2-0"), (5, [5, 3], b"4-0"), (6, [6, 5], b"6-0")):
        assert await taker.take(version, keep=2)
        assert (kept, [begins]) == (await taker.versions(), await taker.log_begins())
    assert {b"5", b"6"} == await taker.keys()
    assert await taker.take(6, keep=1)
    assert ([6], []) == (await taker.versions(), await taker.log_begins())
    assert 7 == (await taker.model.append()).made


async def test_one_is_kept_however_old_it_is(taker):
    """The guard, until there is another one; the log is trimmed as without it, and nothing else is kept for it."""
    assert await taker.take(1, keep=2)
    assert await taker.take(2, b"guard", keep=2, guard=True)
    for version, kept, begins in (
        (3, [3, 2], b"3-0"),  # among the newest it is one of them
        (4, [4, 3, 2], b"4-0"),
        (5, [5, 4, 2], b"5-0"),
    ):
        assert await taker.take(version, keep=2)
        assert (kept, [begins]) == (await taker.versions(), await taker.log_begins())
    assert b"guard" == await taker.store.read("m", INCARNATION, taker.info(2, b"guard"))
    assert "same" == (await taker.write(4, keep=2, guard=True)).outcome
    assert [5, 4] == await taker.versions()
    assert await taker.take(6, keep=2)
    await taker.model.append()
    assert await taker.take(7, keep=2)
    assert ([7, 6, 4], {b"7", b"6", b"4"}) == (await taker.versions(), await taker.keys())


async def test_a_late_snapshot_needs_a_place(taker):
    """Not published where as many newer ones are there as are kept: it would be dropped at once, as its pieces are."""
    for version in (2, 4, 6):
        assert await taker.take(version)
    assert not await taker.take(5, keep=1)
    assert not await taker.take(1)
    assert {b"2", b"4", b"6"} == await taker.keys()
    assert await taker.take(3)
    assert [6, 4, 3] == await taker.versions()


async def test_a_snapshot_that_does_not_join_the_log_is_refused(taker):
    """The uid is checked at the head and behind it; beyond the head there is none; a dead incarnation has none."""
    assert not await taker.take(6, uid="other")
    assert not await taker.take(3, uid="other")
    assert not await taker.take(7)
    assert not await taker.take(0, uid="other")
    dead = SnapshotInfo(6, "w1-6", 0, 0, 1, digest(b"x"))
    assert Written("refused") == await taker.store.write("m", "inc0", dead, b"x")
    assert ([], [b"1-0"]) == (await taker.versions(), await taker.log_begins())
    assert await taker.take(0)


async def test_two_replicas_write_the_same_snapshot(taker):
    """The second changes nothing, and is told whether its bytes are those of the first or, on another CPU, not."""
    assert Written("published", digest(b"state")) == await taker.write(6, b"state")
    before = await taker.model.contents()
    assert Written("same", digest(b"state")) == await taker.write(6, b"state")
    assert Written("differs", digest(b"state")) == await taker.write(6, b"State")
    assert before == await taker.model.contents()


async def test_snapshots_of_two_state_versions_are_not_compared(taker):
    """Their bytes differ by design. Nor is one whose description cannot be read: the others are still offered."""
    assert await taker.take(5)
    newer = msgspec.structs.replace(taker.info(6, b"newer"), state_version=STATE_VERSION + 1)
    assert "published" == (await taker.write(6)).outcome
    assert Written("not compared", digest(b"state")) == await taker.store.write("m", INCARNATION, newer, b"newer")
    await taker.model.connection.ask(("HSET", taker.model.keys.snapshots, 6, "{"))
    assert Written("not compared") == await taker.write(6)
    assert [5] == await taker.versions()


async def test_the_newest_published_version_is_told_with_the_head(taker):
    """Also where an older snapshot is published later."""
    assert [None] == [head.snapshot for head in await taker.model.log.heads(["m"])]
    for version, newest in ((5, 5), (3, 5), (6, 6)):
        await taker.take(version)
        await taker.take(version)
        assert [newest] == [head.snapshot for head in await taker.model.log.heads(["m"])]


async def test_pieces_of_two_writers_do_not_mix(taker):
    """Pieces of another digest lie beside the own ones until one of the two is published whole."""
    keys = taker.model.keys.chunks(6)
    await taker.model.connection.ask(("HSET", keys, "other:0", "x", "other:1", "y"))
    assert await taker.take(6, b"state")
    assert [[f"{digest(b'state')}:0".encode()]] == await taker.model.connection.ask(("HKEYS", keys))
    assert b"state" == await taker.store.read("m", INCARNATION, taker.info(6, b"state"))


async def test_nothing_is_published_while_pieces_are_missing(taker, monkeypatch):
    """The publishing script counts the bytes that are there."""

    async def lose(*_):
        return None

    monkeypatch.setattr(taker.store, "_send_pieces", lose)
    assert not await taker.take(6)
    assert [] == await taker.versions()


@pytest.mark.parametrize("damage", ["of another digest", "too short", "empty", "one missing", "all missing"])
async def test_damaged_pieces_are_found(taker, damage):
    """They are never taken for the state."""
    blob = os.urandom(PIECE_BYTES + 10)
    await taker.take(6, blob)
    info, key = taker.info(6, blob), taker.model.keys.chunks(6)
    field, last = f"{info.digest}:1", blob[PIECE_BYTES:]
    commands = {
        "of another digest": ("HSET", key, field, last[::-1]),
        "too short": ("HSET", key, field, last[:-1]),
        "empty": ("HSET", key, field, b""),
        "one missing": ("HDEL", key, field),
        "all missing": ("DEL", key),
    }
    await taker.model.connection.ask(commands[damage])
    with pytest.raises(ValueError, match="missing or damaged"):
        await taker.store.read("m", INCARNATION, info)


async def test_a_description_of_another_length_is_refused(taker):
    """Before anything is written."""
    before = await taker.model.contents()
    for wrong in ({"bytes": 4}, {"bytes": 6}):
        info = msgspec.structs.replace(taker.info(6, b"state"), **wrong)
        with pytest.raises(ValueError):
            await taker.store.write("m", INCARNATION, info, b"state")
    assert before == await taker.model.contents()
