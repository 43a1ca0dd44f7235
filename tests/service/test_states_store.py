"""States in the store: written in pieces, referred to by entries, gone with the last entry that names them."""

import os

import pytest

from service.errors import Recreated
from service.store.catalog import Catalog
from service.store.keys import TOMBSTONES
from service.store.log.appends import NamedState
from service.store.states.pieces import PIECE_BYTES, digest
from service.store.states.snapshots import SnapshotInfo, Snapshots
from service.store.states.states import StateLost, States
from tests.service.store_fixtures import INCARNATION, SegmentIn

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
async def test_what_is_written_is_read(model, size):
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


async def test_an_append_sent_again_adds_the_state_once(model):
    """As after a lost reply."""
    await write(model)
    first = await model.append(names(STATE))
    assert first.made == (await model.again()).made == 1
    assert [1] == await states(model)


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
