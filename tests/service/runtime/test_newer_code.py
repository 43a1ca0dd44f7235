"""Models that other code has continued, or that a bug has taken out of service: mended, they have lost nothing."""

import gc
import logging
import weakref
from functools import partial

import pytest

from core.entry import Rows
from core.model import STATE_VERSION, save
from service.errors import ModelDown
from service.runtime.replicas import batches, loader, model_cache
from service.store.keys import meta_key
from service.store.log.appends import SegmentIn
from service.store.log.entries import OTHER
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo
from tests.service.api_fixtures import features, problem, running
from tests.service.store_fixtures import INCARNATION, Model, one
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


async def test_models_are_down_as_long_as_they_are_out_of_service(api, start, monkeypatch):
    """In memory or not loaded; not once they are deleted, here or elsewhere, or nobody has asked for them for long."""

    async def down(service):
        return (await service.scraped())["onepass_models_down",]

    before, paths = await down(api), [await api.learnt() for _ in range(3)]
    for path in paths:
        await _newer_entry(api, path)
        problem(await api.ask("POST", f"{path}/feedback", json=ROW), 503)
    cold = await start()
    for path in paths:
        problem(await cold.ask("GET", path), 503)
    assert (before + 3, 3) == (await down(api), await down(cold))
    assert [204] * 2 == [(await cold.ask("DELETE", path)).status_code for path in paths[:2]]
    problem(await api.ask("GET", paths[0]), 404)
    await until(lambda: api.engine.models.peek(paths[1].rpartition("/")[2]) is None)
    assert (before + 1, 1) == (await down(api), await down(cold))
    with monkeypatch.context() as patch:
        patch.setattr(model_cache, "DOWN_SHOWN_S", -model_cache.DOWN_S)  # as if that were long ago
        assert 0 == await down(cold)
    await api.ask("DELETE", paths[2])
    problem(await cold.ask("GET", paths[2]), 404)
    assert 0 == await down(cold)


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


of_another = pytest.mark.parametrize("other", [7, 8], ids=["development", "newer"])


async def test_an_entry_says_which_state_version_wrote_it(model):
    """And so does meta."""
    await model.append()
    (((_, fields),),) = await model.connection.ask(("XRANGE", model.keys.log, "-", "+"))
    assert str(STATE_VERSION).encode() == dict(zip(fields[::2], fields[1::2], strict=True))[b"s"]
    assert [[str(STATE_VERSION).encode()]] == await model.connection.ask(("HMGET", model.keys.meta, "code"))


@of_another
async def test_a_model_is_of_the_version_that_appends_first(model, other):
    """One that nobody has appended to can be of any; from then on code of another one is refused."""
    assert 1 == (await model.append(state_version=other)).made
    assert "other" == (await Model(model.connection, "w2").append(version=1, uid="w1-1")).code


@of_another
async def test_entries_of_another_version_are_not_returned(model, other):
    """Those before them are; reading on from there says why it ends, whatever the other ones look like."""
    await model.append()
    for version, content in ((2, b"of tomorrow"), (3, "?")):
        await model.connection.ask(
            ("XADD", model.keys.log, f"{version}-0", "u", f"w1-{version}", "p", f"w1-{version - 1}", "t", content,
             "n", content, "s", other, "0", content),
            ("HSET", model.keys.meta, "version", version, "uid", f"w1-{version}"),
        )  # fmt: skip
    for read in (model.log.read_after, partial(model.log.read_after, soon=True)):
        found = await read("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
        assert ("ok", [1], False) == (found.code, [entry.version for entry in found.entries], found.complete)
        for version, uid in ((1, "w1-1"), (2, "w1-2")):
            found = await read("m", INCARNATION, version, uid, 1 << 20, 10)
            assert ("other", 3, ()) == (found.code, found.head, found.entries)


@of_another
async def test_an_append_of_another_version_is_refused_before_anything_is_written(model, other):
    """Wherever it stands; ids that are known already are not looked up for it."""
    await model.append(one("a"))
    await model.append()
    before = await model.contents()
    late = Model(model.connection, "w2")
    for version, uid in ((1, "w1-1"), (2, "w1-2")):
        answer = await late.append(one("b"), one("a"), version=version, uid=uid, state_version=other)
        assert ("other", 2, "w1-2", None) == (answer.code, answer.head, answer.head_uid, answer.made)
    assert before == await model.contents()
    assert "fork" == (await late.append(version=2, uid="other", state_version=other)).code


@of_another
async def test_a_retry_is_told_what_it_made(model, other):
    """Whatever the model has become: its entries can be applied, and its requests answered."""
    await model.append(one("a"))
    first = await model.append(one("b"))
    await model.connection.ask(("HSET", model.keys.meta, "code", other))
    again = await model.again()
    assert (first.made, first.segments, first.entries) == (again.made, again.segments, again.entries)
    assert "other" == (await model.append(SegmentIn(b"c"))).code


DEADLY = 77.0
DEADLY_ROW = {"features": {"a": DEADLY, "b": 1.0}, "label": "UP", "id": "deadly"}
AFTER = {"features": features(9), "label": "DOWN", "id": "after"}


def failing(apply):
    """``apply`` with a bug: it raises at one row, after it has learned others of the same entry."""

    def applied(model, entry):
        outcomes = apply(model, entry)
        if any(isinstance(segment, Rows) and (segment.X[:, 0] == DEADLY).any() for segment in entry.segments):
            raise IndexError("tuple index out of range")
        return outcomes

    return applied


def failing_merged(apply_merged):
    """``apply_merged`` with the same bug."""

    def applied(model, merged, first):
        if (merged.rows.X[merged.start(first) :, 0] == DEADLY).any():
            raise IndexError("tuple index out of range")
        return apply_merged(model, merged, first)

    return applied


def break_core(bug):
    """Put the bug in."""
    bug.setattr(batches, "apply", failing(batches.apply))
    bug.setattr(batches, "apply_merged", failing_merged(batches.apply_merged))


async def learned(api, path):
    """The state of a model without where it was taken."""
    model, _ = save.from_bytes(await api.state(path))
    return save.to_bytes(model)


async def is_down(api, path):
    """Reading, predicting and learning are answered alike."""
    for answer in (
        await api.ask("GET", path),
        await api.ask("POST", f"{path}/predict", json={"features": features(1)}),
        await api.ask("POST", f"{path}/feedback", json=AFTER),
    ):
        assert problem(answer, 503, "name")["type"].endswith("/model-down")
        assert "fix the code and restart" in answer.json()["errors"][0]["allowed"]


async def test_a_model_that_a_bug_took_out_serves_again_once_it_is_mended(store_url):
    """A restart with the bug does not help; one without it learns the deadly row, once, as if there had been no bug."""
    with pytest.MonkeyPatch.context() as bug:
        break_core(bug)
        async with running(store_url) as api:
            path, other = await api.learnt(rows=5), await api.learnt(rows=5)
            assert problem(await api.ask("POST", f"{path}/feedback", json=DEADLY_ROW), 503)["type"].endswith("down")
            await is_down(api, path)
            assert 6 == (await api.post(f"{other}/feedback", {"features": features(6), "label": "UP"}))["rows"]
        async with running(store_url) as api:
            await is_down(api, path)
            assert 7 == (await api.post(f"{other}/feedback", {"features": features(7), "label": "UP"}))["rows"]
    async with running(store_url) as api:
        assert 6 == (await api.get(path))["rows"]
        again = await api.post(f"{path}/feedback", DEADLY_ROW)
        assert (True, 6) == (again["duplicate"], again["rows"])
        twin = await api.learnt(rows=5)
        first = await api.post(f"{twin}/feedback", DEADLY_ROW)
        assert (again["prediction"], again["version"]) == (first["prediction"], first["version"])
        for one in (path, twin):
            assert 7 == (await api.post(f"{one}/feedback", AFTER))["rows"]
        assert await learned(api, twin) == await learned(api, path)


async def test_refused_requests_leave_nothing_in_memory(store_url):
    """An error that is kept and raised again holds the tracebacks, and in them the bodies, of all that it refused."""
    with pytest.MonkeyPatch.context() as bug:
        break_core(bug)
        async with running(store_url) as api:
            path = await api.learnt(rows=5)
            problem(await api.ask("POST", f"{path}/feedback", json=DEADLY_ROW), 503)
            await is_down(api, path)
            await api.learnt(rows=1)  # the next commit lets go of the one that has failed
            assert [] == errors_kept()
        async with running(store_url) as api:
            await is_down(api, path)
            await api.learnt(rows=1)  # the next commit lets go of the one that has failed
            assert [] == errors_kept()


@pytest.mark.parametrize("error", [MemoryError, ValueError])
async def test_a_model_that_cannot_be_loaded_is_freed_at_once(api, monkeypatch, error):
    """Each attempt would leave another one until Python searches for cycles."""
    path = await api.learnt(rows=5)
    models, name, made = api.engine.models, path.removeprefix("/models/"), []
    models.forget(await models.get(name))
    replica_of = models._loader._replica

    def noted(*of):
        replica = replica_of(*of)
        made.append(weakref.ref(replica.model.own))
        return replica

    async def failing(*_):
        raise error

    monkeypatch.setattr(loader, "ENTRIES_MAX", 2)  # the rest is read ahead
    monkeypatch.setattr(loader.logger, "exception", lambda *_: None)  # pytest keeps what is logged
    monkeypatch.setattr(models._loader, "_replica", noted)
    monkeypatch.setattr(models._loader, "apply", failing)
    gc.disable()
    try:
        for _ in range(2):  # the second one is refused without another attempt
            problem(await api.ask("GET", path), 503)
        await until(lambda: [None] == [one() for one in made], within_s=5)
    finally:
        gc.enable()


def errors_kept():
    """The errors of models out of service that are still in memory."""
    gc.collect()
    return [kept for kept in gc.get_objects() if type(kept) is ModelDown]
