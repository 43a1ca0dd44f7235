"""When snapshots are written: before the log takes long to replay, not all the time, and not again at once."""

import asyncio
import logging

import pytest

from service.errors import StoreFull
from service.runtime.replicas import saved
from tests.service.api_fixtures import features, problem
from tests.service.waiting import until

ROW = {"features": features(0), "label": "UP"}


@pytest.fixture
async def model(start):
    """A model whose log is far from large: its path, its replica, the service's client and snapshotter."""
    api = await start(snapshot_min_kb=10**6)
    path = await api.learnt()
    return api, path, api.engine.models.peek(path.removeprefix("/models/")), api.engine.snapshotter


async def _versions(api, path):
    return [one["version"] for one in (await api.get(f"{path}/snapshots"))["snapshots"]]


async def test_what_takes_long_to_replay_makes_a_snapshot_due(model, monkeypatch):
    """However little log it is; what was applied row by row counts, and so does what a load has replayed."""
    api, path, replica, snapshotter = model
    await api.post(f"{path}/feedback", ROW)
    await until(lambda: not snapshotter.grown)
    assert [] == await _versions(api, path)
    work = replica.saved.flops
    assert work > 0
    models = api.engine.models
    models.forget(replica)
    again = await models.get(replica.name)
    assert again.saved.flops == pytest.approx(work, rel=0.5)
    monkeypatch.setattr(saved, "REPLAY_FLOPS", work)
    await api.post(f"{path}/feedback", ROW)
    await until(lambda: _versions(api, path))
    assert 0.0 == again.saved.flops


async def test_snapshots_for_the_work_of_a_replay_leave_time_for_others(model, monkeypatch):
    """The next one is due some times as long after the last one as that took, even if no row comes by then."""
    api, path, replica, _ = model
    monkeypatch.setattr(saved, "REPLAY_FLOPS", 1.0)
    now = asyncio.get_running_loop().time
    write = api.engine.store.snapshots.write

    async def slowly(*args, **how):
        await asyncio.sleep(0.2)
        return await write(*args, **how)

    monkeypatch.setattr(api.engine.store.snapshots, "write", slowly)
    await api.post(f"{path}/feedback", ROW)
    (first,) = await until(lambda: _versions(api, path))
    await until(lambda: replica.saved.rested)
    ended = now()
    assert 0.9 < replica.saved.rested - ended
    await api.post(f"{path}/feedback", ROW)
    await until(lambda: replica.saved.flops == 0.0)
    assert now() - ended > 0.9
    assert [first + 1, first] == await _versions(api, path)


async def test_what_is_applied_while_a_snapshot_is_written_counts_for_the_next(model, monkeypatch):
    """The snapshot does not hold it, so it will have to be replayed."""
    api, path, replica, _ = model
    write, before = api.engine.store.snapshots.write, replica.saved.flops

    async def meanwhile(*args, **how):
        await api.post(f"{path}/feedback", ROW)
        return await write(*args, **how)

    monkeypatch.setattr(api.engine.store.snapshots, "write", meanwhile)
    await api.post(f"{path}/snapshots", status=201)
    assert 0.0 < replica.saved.flops < before


@pytest.mark.parametrize("error", [StoreFull("no room"), MemoryError("a secret")])
async def test_a_snapshot_that_fails_is_tried_again_but_not_at_once(model, monkeypatch, caplog, error):
    """Whatever has failed is told in one line; what is due is not forgotten, though no more rows come."""
    api, path, replica, _ = model
    monkeypatch.setattr(saved, "REPLAY_FLOPS", 1.0)
    monkeypatch.setattr(saved, "FAILED_S", 1.5)
    write, tried = api.engine.store.snapshots.write, []

    async def fail_once(*args, **how):
        tried.append(asyncio.get_running_loop().time())
        if len(tried) == 1:
            raise error
        return await write(*args, **how)

    monkeypatch.setattr(api.engine.store.snapshots, "write", fail_once)
    await api.post(f"{path}/feedback", ROW)
    await until(lambda: _versions(api, path))
    first, second = tried
    assert second - first > 1.4
    (told,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    said = "no room" if isinstance(error, StoreFull) else "MemoryError"
    assert f"model {replica.name}: no snapshot: {said}" == told


async def test_a_snapshot_of_a_model_that_is_deleted_meanwhile_is_404(model, monkeypatch):
    """There is none; no answer says that it was written."""
    api, path, _, _ = model
    write = api.engine.store.snapshots.write

    async def too_late(*args, **how):
        assert 204 == (await api.ask("DELETE", path)).status_code
        return await write(*args, **how)

    monkeypatch.setattr(api.engine.store.snapshots, "write", too_late)
    problem(await api.ask("POST", f"{path}/snapshots"), 404)
