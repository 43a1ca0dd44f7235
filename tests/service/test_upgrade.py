"""Newer code takes over models of older code: its first append names the state as it has it, and all adopt that."""

import asyncio
from contextlib import contextmanager

import pytest

from core.entry import UPGRADE, Restore
from core.machine import STATE_VERSION
from core.state import envelope
from service.errors import StoreDown
from service.runtime import actor, loader, replica, snapshots
from service.store import codec, entries
from service.store.keys import ModelKeys
from tests.service.api_fixtures import RLS, features, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")
NEWER = STATE_VERSION + 1


def _otherwise(arrays, header):
    """A newer format whose states differ a little from what the older one would have become."""
    name = next(name for name in arrays if name.endswith("weights"))
    return {**arrays, name: arrays[name] * (1.0 + 1e-9)}, {**header}


@contextmanager
def newer_code():
    """This code, as if it were of the next state version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "FORMAT", NEWER)
        patch.setattr(envelope, "UPGRADERS", {STATE_VERSION: _otherwise})
        for module in (actor, entries, loader, replica, snapshots):
            patch.setattr(module, "STATE_VERSION", NEWER)
        yield


def engine_of(service):
    return service.app.state.context.engine


async def rows(service, path, numbers):
    answers = []
    for row in numbers:
        answers.append(await service.post(f"{path}/feedback", {"features": features(row), "label": float(row)}))
    return answers


async def segments(service, path):
    """Kinds of the segments of the log, by version."""
    name, store = path.rpartition("/")[2], engine_of(service).store
    meta = await store.catalog.read(name)
    kept = await store.snapshots.list(name, meta.incarnation)
    version, uid = (kept[-1].version, kept[-1].uid) if kept else (0, meta.incarnation)
    read = await store.log.read_after(name, meta.incarnation, version, uid, 10**9, 1000)
    return {raw.version: [type(s) for s in codec.entry(raw).segments] for raw in read.entries}


def bytes_of(service, path):
    held = engine_of(service).models.peek(path.rpartition("/")[2])
    return held.version, held.machine.to_bytes()


async def test_replicas_from_different_snapshots_end_with_equal_bytes(start):
    """One begins with an old snapshot and its tail, the other with a newer one: they differ until the first append."""
    old = await start(snapshots_kept=3)
    path = await old.new(RLS)
    await rows(old, path, range(5))
    await old.post(f"{path}/snapshots", status=201)
    await rows(old, path, range(5, 10))
    await old.post(f"{path}/snapshots", status=201)
    name = path.rpartition("/")[2]
    incarnation = engine_of(old).models.peek(name).incarnation
    with newer_code():
        one, other = await start(), await start()
        await one.get(path)
        key, ask = ModelKeys(name, incarnation).snapshots, engine_of(old).store.connection.ask
        info, _ = await ask(("HGET", key, 10), ("HDEL", key, 10))
        await other.get(path)  # has the older one only
        await ask(("HSET", key, 10, info))
        assert (10, 10) == (bytes_of(one, path)[0], bytes_of(other, path)[0])
        assert bytes_of(one, path) != bytes_of(other, path)  # what the upgrade is for
        assert engine_of(one).models.peek(name).outdated
        answers = await rows(other, path, (10,))
        assert (12, 11) == (answers[0]["version"], answers[0]["rows"])
        states = [await service.state(path) for service in (one, other)]
        assert states[0] == states[1]
        assert NEWER == envelope.load(states[0])[1]["format"]
        assert not engine_of(one).models.peek(name).outdated
        assert 13 == (await rows(one, path, (11,)))[0]["version"]  # once is enough
        late = await start()
        assert [await one.state(path)] * 2 == [await service.state(path) for service in (other, late)]
        log = await segments(one, path)
        assert [Restore] == log[11]
        assert 1 == sum(kinds == [Restore] for kinds in log.values())


async def test_two_that_upgrade_at_once_upgrade_once(start):
    """Whose state comes second finds that the head has moved on, and adopts the other's; nobody's rows are lost."""
    old = await start()
    path = await old.new(RLS)
    await rows(old, path, range(4))
    with newer_code():
        services = [await start() for _ in range(3)]
        for service in services:
            await service.get(path)
        told = await asyncio.gather(*(rows(service, path, (10 + at,)) for at, service in enumerate(services)))
        assert {5, 6, 7} == {answers[0]["rows"] for answers in told}
        states = [await service.state(path) for service in services]
        assert states[0] == states[1] == states[2]
        assert 1 == sum(kinds == [Restore] for kinds in (await segments(services[0], path)).values())


async def test_rows_of_older_code_that_come_in_between_are_kept(start, monkeypatch):
    """The state names the version that it follows: behind another it is not added, and is made again."""
    old = await start()
    path = await old.new(RLS)
    await rows(old, path, range(3))
    made = []

    async def slow(states, held):
        found = await prepare(states, held)
        if not made:
            with pytest.MonkeyPatch.context() as patch:  # older code appends meanwhile
                for module in (actor, entries, loader, replica, snapshots):
                    patch.setattr(module, "STATE_VERSION", STATE_VERSION)
                patch.setattr(envelope, "FORMAT", STATE_VERSION)
                await rows(old, path, (7,))
        made.append(found[0])
        return found

    with newer_code():
        prepare = actor.upgrade
        monkeypatch.setattr(actor, "upgrade", slow)
        newer = await start()
        await newer.get(path)
        (answer,) = await rows(newer, path, (9,))
        assert (6, 5) == (answer["version"], answer["rows"])
        assert [UPGRADE] * 2 == [segment.source for segment in made]
        kinds = await segments(newer, path)
        assert [[Restore]] == [kind for version, kind in kinds.items() if version == 5]


async def test_a_new_model_needs_no_upgrade(start):
    """Nothing of older code is in a model without entries."""
    with newer_code():
        newer = await start()
        path = await newer.new(RLS)
        assert 1 == (await rows(newer, path, (1,)))[0]["version"]


async def test_an_upgrade_that_the_store_does_not_take_is_503(start, monkeypatch):
    """Nothing of the row is kept; the next one tries again."""
    old = await start()
    path = await old.new(RLS)
    await rows(old, path, range(2))

    async def down(*_):
        raise StoreDown("the store does not answer")

    with newer_code():
        newer = await start()
        states = engine_of(newer).store.states
        with monkeypatch.context() as patch:
            patch.setattr(type(states), "write", down)
            problem(await newer.ask("POST", f"{path}/feedback", json={"features": features(0), "label": 1.0}), 503)
        with monkeypatch.context() as patch:

            async def lose(*_):
                return None

            patch.setattr(type(states), "write", lose)  # the pieces are never there
            problem(await newer.ask("POST", f"{path}/feedback", json={"features": features(0), "label": 1.0}), 503)
        shown = await newer.get(path)
        assert (2, 2) == (shown["version"], shown["rows"])
        (answer,) = await rows(newer, path, (5,))
        assert (4, 3) == (answer["version"], answer["rows"])
