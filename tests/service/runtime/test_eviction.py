"""Models come into memory once and leave it by the budget alone, least recently used first."""

import asyncio
import gc
import logging
import weakref
from unittest import mock

import pytest

from core.problems import Invalid
from service.api.rows.idempotency import read_rows
from service.errors import ModelDown, StoreDown
from service.runtime import snapshots
from service.runtime.replicas import loader
from service.runtime.replicas.loader import LARGE_LOADS_MAX, LOADS_MAX
from service.store.log.append_notices import AppendNotice
from tests.service.api_fixtures import DFOP, features
from tests.service.waiting import until


async def test_a_model_is_loaded_once_for_requests_in_between(api, monkeypatch):
    """One who asks just when the load has ended, and its waiters have not heard of it yet, gets the same replica."""
    path = await api.learnt(rows=5)
    models, name = api.engine.models, path.removeprefix("/models/")
    models.forget(await models.get(name))
    load, loads, late = models._loader.load, [], []

    def ask():
        late.append(asyncio.ensure_future(models.get(name)))

    async def and_then_ask(asked_for):
        loads.append(asked_for)
        replica = await load(asked_for)
        for turns in range(4):
            asyncio.get_running_loop().call_soon(_in_turns(turns, ask))
        return replica

    monkeypatch.setattr(models._loader, "load", and_then_ask)
    first = await models.get(name)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [first] * 4 == await asyncio.gather(*late)
    assert [name] == loads


async def test_few_models_are_loaded_at_a_time(api, monkeypatch):
    """However many are asked for: what each will take the budget does not know before it is there."""
    models = api.engine.models
    names = [(await api.learnt()).removeprefix("/models/") for _ in range(3 * LOADS_MAX)]
    for name in names:
        models.forget(await models.get(name))
    recovered, loading, most = models._loader._recovered, set(), 0

    async def and_wait(meta, *more):
        nonlocal most
        loading.add(meta.name)
        most = max(most, len(loading))
        for _ in range(20):
            await asyncio.sleep(0)
        found = await recovered(meta, *more)
        loading.discard(meta.name)
        return found

    monkeypatch.setattr(models._loader, "_recovered", and_wait)
    found = await asyncio.gather(*map(models.get, names))
    assert names == [replica.name for replica in found]
    assert LOADS_MAX == most


async def test_a_small_model_does_not_wait_for_large_ones(api, monkeypatch):
    """However many of them are asked for, and however long they take."""
    models, goes_on, loading = api.engine.models, asyncio.Event(), []
    paths = [await api.learnt() for _ in range(LOADS_MAX + 2)]
    for path in paths[1:]:
        await api.post(f"{path}/snapshots", status=201)
    small, *large = [path.removeprefix("/models/") for path in paths]
    for name in (small, *large):
        models.forget(await models.get(name))
    recovered = models._loader._recovered

    async def and_wait(meta, *more):
        loading.append(meta.name)
        if meta.name in large:
            await goes_on.wait()
        return await recovered(meta, *more)

    monkeypatch.setattr(loader, "THREAD_BYTES", 0)  # what has a snapshot is large
    monkeypatch.setattr(models._loader, "_recovered", and_wait)
    waiting = [asyncio.create_task(models.get(name)) for name in large]
    await until(lambda: len(loading) >= LARGE_LOADS_MAX)
    async with asyncio.timeout(20):
        assert small == (await models.get(small)).name
    assert LARGE_LOADS_MAX + 1 == len(loading)
    goes_on.set()
    assert large == [replica.name for replica in await asyncio.gather(*waiting)]


def _in_turns(turns, call):
    """Call after so many turns of the event loop."""
    if turns == 0:
        return call
    return lambda: asyncio.get_running_loop().call_soon(_in_turns(turns - 1, call))


ROW = {"features": features(0), "label": "UP"}


@pytest.fixture(scope="module")
async def pair(start):
    """Two services on one store."""
    return [await start() for _ in range(2)]


def _models(api):
    return api.engine.models


async def _followed(pair):
    """A model that the first service learns and the second one follows: path, name, replica of the second."""
    first, second = pair
    path = await first.learnt()
    name = path.removeprefix("/models/")
    await second.get(path)
    replica = _models(second).peek(name)
    await first.post(f"{path}/feedback", ROW)
    await until(lambda: replica.version == 4)
    return path, name, replica


async def _shrunk(api, monkeypatch, room=None):
    """So many bytes over the budget, or all of them, and another model is the one used last."""
    await api.new()
    models = _models(api)
    with monkeypatch.context() as patch:
        patch.setattr(models, "_budget_bytes", 0 if room is None else models.ledger.used - room)
        models.shrink()


async def test_a_model_that_leaves_is_loaded_again(pair, monkeypatch):
    """The next request loads it, at the head of its log; until then its log is not listened to."""
    path, name, _ = await _followed(pair)
    second = pair[1]
    before = second.engine.stats.evictions
    await _shrunk(second, monkeypatch)
    assert _models(second).peek(name) is None
    assert before < second.engine.stats.evictions
    assert name not in second.engine.notices._wanted
    await pair[0].post(f"{path}/feedback", ROW)
    assert await pair[0].state(path) == await second.state(path)


async def test_a_model_that_is_deleted_while_it_loads_does_not_come_back(api, monkeypatch):
    """Who waits for it is told that it is gone; the name is free for another."""
    path = await api.learnt()
    models, name, goes_on = _models(api), path.removeprefix("/models/"), asyncio.Event()
    models._drop(name)
    load = models._loader.load

    async def and_wait(asked_for):
        found = await load(asked_for)
        await goes_on.wait()
        return found

    monkeypatch.setattr(models._loader, "load", and_wait)
    reading = asyncio.create_task(api.ask("GET", path))
    await until(lambda: name in models._loading)
    assert 204 == (await api.ask("DELETE", path)).status_code
    goes_on.set()
    assert (404, None) == ((await reading).status_code, models.peek(name))
    assert 201 == (await api.ask("PUT", path, json=DFOP)).status_code
    assert 1 == (await api.post(f"{path}/feedback", ROW))["version"]


async def test_a_model_that_is_created_while_its_predecessor_is_deleted_is_there(api, monkeypatch):
    """DELETE ends while the new model of the name loads: that load is of no deleted model."""
    path = await api.learnt()
    models, name = _models(api), path.removeprefix("/models/")
    deleted, ends, goes_on = (asyncio.Event() for _ in range(3))
    delete, load = models._store.catalog.delete, models._loader.load

    async def delete_late(asked_for):
        found = await delete(asked_for)
        deleted.set()
        await ends.wait()
        return found

    async def load_late(asked_for):
        found = await load(asked_for)
        await goes_on.wait()
        return found

    monkeypatch.setattr(models._store.catalog, "delete", delete_late)
    monkeypatch.setattr(models._loader, "load", load_late)
    deleting = asyncio.create_task(api.ask("DELETE", path))
    await deleted.wait()
    creating = asyncio.create_task(api.ask("PUT", path, json=DFOP))
    await until(lambda: name in models._loading)
    ends.set()
    assert 204 == (await deleting).status_code
    goes_on.set()
    assert 201 == (await creating).status_code
    assert (await creating).json()["incarnation"] == (await api.get(path))["incarnation"]


@pytest.mark.parametrize(("times", "answers"), [(1, (201, 200)), (9, (503, 404))])
async def test_a_model_that_is_deleted_while_it_is_created_is_created_again(api, monkeypatch, times, answers):
    """A PUT is never told that its model does not exist; a client that deletes every one does not keep it busy."""
    catalog, create = _models(api)._store.catalog, _models(api)._store.catalog.create
    left = [None] * times

    async def create_and_delete(name, *args):
        found = await create(name, *args)
        if left:
            left.pop()
            assert await catalog.delete(name)
        return found

    monkeypatch.setattr(catalog, "create", create_and_delete)
    path = "/models/deleted-at-once"
    created = await api.ask("PUT", path, json=DFOP)
    assert answers == (created.status_code, (await api.ask("GET", path)).status_code)


async def test_requests_that_hold_a_model_that_has_left_read_on_together(pair, monkeypatch):
    """Each entry is applied once, although none of them finds the model in memory; one that is down stays away."""
    first, second = pair
    path, name, replica = await _followed(pair)
    await _shrunk(second, monkeypatch)
    for _ in range(40):  # applying them lets others have their turn
        await first.post(f"{path}/feedback", {**ROW, "weight": 0.5})
        await first.post(f"{path}/feedback", ROW)
    assert [True, True] == await asyncio.gather(*(second.engine.caught_up(replica) for _ in range(2)))
    assert (84, None) == (replica.version, replica.down)
    assert replica is _models(second).peek(name)
    await _shrunk(second, monkeypatch)
    replica.quarantine("for the test")
    with pytest.raises(ModelDown):
        await replica.inbox.sync()
    assert 84 == (await second.get(path))["version"]


async def test_a_model_that_has_left_is_not_brought_back_to_be_followed(pair, monkeypatch):
    """Its log goes on, but nobody asks for it."""
    _, name, replica = await _followed(pair)
    second = pair[1]
    await _shrunk(second, monkeypatch)
    second.engine.follower._note(replica, replica.version + 1)
    second.engine.follower._flush()
    assert _models(second).peek(name) is None


async def test_an_error_on_stop_leaves_nothing_running(start, monkeypatch):
    """The tasks end, and the connections to the store."""
    engine = (await start()).engine

    async def fail():
        raise RuntimeError("for the test")

    with monkeypatch.context() as patch:
        patch.setattr(engine.snapshotter, "flush", fail)
        with pytest.raises(RuntimeError):
            await engine.stop(1.0)
    assert all(task.done() for task in engine._tasks.values())
    with pytest.raises(StoreDown):
        await engine.store.connection.ping()


async def test_an_error_is_named_without_what_it_says(api, monkeypatch):
    """That may be of rows."""
    models, name = api.engine.models, (await api.learnt()).removeprefix("/models/")
    models.forget(await models.get(name))
    monkeypatch.setattr(models._loader, "_recovered", mock.Mock(side_effect=MemoryError("1201 rows of float64")))
    with pytest.raises(ModelDown, match="it could not be loaded: MemoryError$"):
        await models.get(name)


async def test_a_snapshot_that_fails_does_not_keep_others_from_being_written(api, monkeypatch, caplog):
    """Whatever it fails of; the log names its model."""
    models = api.engine.models
    names = [(await api.learnt()).removeprefix("/models/") for _ in range(3)]
    first, *others = [await models.get(name) for name in names]
    first.saved.log_bytes += 2**20  # its snapshot comes first
    written, pack = [], snapshots.pack

    async def packed(replica):
        if replica is first:
            raise MemoryError
        written.append(replica)
        return await pack(replica)

    monkeypatch.setattr(snapshots, "pack", packed)
    monkeypatch.setattr(snapshots, "AT_ONCE", 1)
    await api.engine.snapshotter.flush()
    assert {*others} <= {*written}
    assert [f"model {names[0]}: no snapshot: MemoryError"] == [
        record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
    ]


async def test_rows_are_read_once_more_for_the_model_that_is_in_memory_now(pair, monkeypatch):
    """Which is another object if the model has left and was loaded again while the rows were read."""
    path, _, replica = await _followed(pair)
    second = pair[1]
    await _shrunk(second, monkeypatch)
    assert 200 == (await second.ask("PATCH", path, json={"ignore": ["note"]})).status_code

    def read(validator):
        if not validator.config.ignore:
            raise Invalid.of("features.note", "is not a feature")
        return validator.config.ignore

    assert ("note",) == await read_rows(second.app.context, replica, 0, read)


@pytest.mark.parametrize("leaves", ["evicted", "reading", "looked at"])
async def test_a_model_that_leaves_is_freed_at_once(api, leaves, monkeypatch):
    """Its memory does not wait for Python's next search for cycles, which may be thousands of models later.

    Not even if it leaves while it reads its log, or if its inbox is looked at afterwards.
    """
    path = await api.learnt()
    replica = _models(api).peek(path.removeprefix("/models/"))
    learner = weakref.ref(replica.model.own)
    gc.disable()
    try:
        if leaves == "evicted":
            await _shrunk(api, monkeypatch)
        else:
            synced = replica.inbox.sync() if leaves == "reading" else None
            _models(api).forget(replica)
            assert synced is not None or not replica.inbox.in_flight
            if synced is not None:
                await synced
        assert _models(api).peek(replica.name) is None
        del replica
        await until(lambda: learner() is None, within_s=10)
    finally:
        gc.enable()


async def test_a_deletion_is_logged_as_what_it_is(api, caplog):
    """The notice of it reaches the process that deletes as well: it does not tell who that is."""
    path = await api.learnt()
    caplog.set_level(logging.INFO, "service.runtime")
    name, replica = path.removeprefix("/models/"), _models(api).peek(path.removeprefix("/models/"))
    api.engine.follower.on_notice(AppendNotice(name, replica.incarnation))
    assert [f"model {name} was deleted"] == [text for text in caplog.messages if name in text]
    assert _models(api).peek(name) is None


async def test_the_least_recently_used_leaves_first(pair, monkeypatch):
    """A prediction is use; to follow what others learn is none."""
    second = pair[1]
    await _shrunk(second, monkeypatch)
    [oldest] = _models(second).loaded
    (used, _, _), (path, name, followed) = await _followed(pair), await _followed(pair)
    await second.post(f"{used}/predict", {"features": features(0)})
    await pair[0].post(f"{path}/feedback", ROW)
    await until(lambda: followed.version == 5)
    await _shrunk(second, monkeypatch, oldest.nbytes + 1)
    assert (None, None) == (_models(second).peek(oldest.name), _models(second).peek(name))
    assert _models(second).peek(used.removeprefix("/models/")) is not None


@pytest.mark.parametrize("need", ["reader", "lock", "alarms", "lost", "request"])
async def test_a_model_that_is_needed_stays(pair, need, monkeypatch):
    """By one who waits for a version, a thread that works on it, alarms to be published, a store that has lost it."""
    _, name, replica = await _followed(pair)
    second = pair[1]
    await second.new()
    waits = asyncio.create_task(replica.wait_for_version(5)) if need == "reader" else None
    sync = replica.inbox.sync() if need == "request" else None
    if need == "lock":
        await replica.lock.acquire()
    elif need == "alarms":
        replica.published, replica.on_alarm = (-1, -1, -1), print
    elif need == "lost":
        replica.lost = True
    await asyncio.sleep(0)
    monkeypatch.setattr(_models(second), "_budget_bytes", 0)
    _models(second).shrink()
    assert replica is _models(second).peek(name)
    replica.lost, replica.published = False, replica.model.outbox.last
    if need == "lock":
        replica.lock.release()
    if waits is not None:
        waits.cancel()
    if sync is not None:
        await sync
    await asyncio.sleep(0)
    _models(second).shrink()
    assert _models(second).peek(name) is None
