"""A service beside one of another state format, and beside one whose states have become others."""

import logging

import pytest

from core.model import STATE_VERSION
from service.store.keys import meta_key
from service.store.log.appends import SegmentIn
from service.store.log.entries import OTHER
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo
from tests.service.api_fixtures import features, problem
from tests.service.store_fixtures import Model
from tests.service.waiting import until

ROW = {"features": features(0), "label": "UP"}


async def _newer_entry(api, path: str) -> None:
    """An entry of a newer version of the code, of a kind that this one does not know, on a model that it has taken."""
    name = path.rpartition("/")[2]
    await api.engine.store.connection.ask(("HSET", meta_key(name), "code", STATE_VERSION + 1))
    meta = await api.engine.store.catalog.read(name)
    other = Model(api.engine.store.connection, f"newer{meta.version}", name)
    place = {"incarnation": meta.incarnation, "version": meta.version, "uid": meta.uid}
    answer = await other.append(SegmentIn(b"of tomorrow"), state_version=STATE_VERSION + 1, **place)
    assert meta.version + 1 == answer.made


@pytest.mark.parametrize("way", ["feedback", "read", "follow"])
async def test_a_model_that_newer_code_has_continued_goes_out_of_service_here(api, way):
    """Whether it learns, is read or only follows; it says what to do, and the other models go on."""
    path, other = await api.learnt(), await api.learnt()
    await _newer_entry(api, path)
    if way == "feedback":
        assert OTHER in problem(await api.ask("POST", f"{path}/feedback", json=ROW), 503)["detail"]
    elif way == "read":
        read = await api.ask("POST", f"{path}/predict?consistency=strong", json={"features": features(1)})
        assert OTHER in problem(read, 503)["detail"]
    else:
        await until(lambda: api.engine.models.peek(path.rpartition("/")[2]).down is not None)
    assert OTHER in problem(await api.ask("POST", f"{path}/predict", json={"features": features(1)}), 503)["detail"]
    assert 4 == (await api.post(f"{other}/feedback", ROW))["rows"]


async def test_a_model_of_newer_code_is_not_loaded(api, start):
    """Even where an older snapshot and the log up to the newer entry are there, or a newer snapshot alone is."""
    path, trimmed = await api.learnt(), await api.learnt()
    await api.post(f"{path}/snapshots", status=201)
    await _newer_entry(api, path)
    name, store = trimmed.rpartition("/")[2], api.engine.store
    meta, blob = await store.catalog.read(name), b"a state of tomorrow"
    for _ in range(2):
        await _newer_entry(api, trimmed)
        meta = await store.catalog.read(name)
        info = SnapshotInfo(meta.version, meta.uid, 4, 1, len(blob), digest(blob), STATE_VERSION + 1)
        assert "published" == (await store.snapshots.write(name, meta.incarnation, info, blob, keep=2)).outcome
    cold = await start()
    for each in (path, trimmed):
        assert OTHER in problem(await cold.ask("GET", each), 503)["detail"]
        assert OTHER in problem(await cold.ask("POST", f"{each}/feedback", json=ROW), 503)["detail"]
    assert 0 == cold.engine.stats.corrupt_snapshots


async def test_a_state_that_differs_from_the_published_one_is_divergence(api, caplog):
    """Counted, and named with both digests; the model goes on."""
    path = await api.learnt()
    engine, name = api.engine, path.rpartition("/")[2]
    replica, blob = await engine.replica(name), b"another state"
    info = SnapshotInfo(replica.version, replica.uid, 3, 1, len(blob), digest(blob), STATE_VERSION)
    written = await engine.store.snapshots.write(name, replica.incarnation, info, blob)
    before = engine.stats.diverged
    with caplog.at_level(logging.ERROR):
        await api.post(f"{path}/snapshots", status=201)
    assert ("published", before + 1) == (written.outcome, engine.stats.diverged)
    (record,) = [record for record in caplog.records if "diverged" in record.message]
    for said in (name, str(replica.version), digest(blob)):
        assert said in record.message
    assert f"onepass_diverged_total {before + 1}.0" in (await api.ask("GET", "/metrics")).text
    assert 4 == (await api.post(f"{path}/feedback", ROW))["rows"]
    await api.post(f"{path}/snapshots", status=201)
    assert before + 1 == engine.stats.diverged
