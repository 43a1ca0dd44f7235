"""GET /backup and POST /restore: models go on in another store as if nothing had happened."""

import asyncio
import itertools

import numpy as np
import pytest

from service.api.backups import BackupStream
from service.embedded import EmbeddedStore
from service.errors import StoreDown
from service.runtime.backup.making import BackupMaker
from service.store.catalog import Catalog
from service.store.keys import INDEX
from service.store.redis.connection import Connection
from tests.alarms import JOINS, LOUD
from tests.service.api_fixtures import DFOP, RLS, STATE, columnar, features, problem
from tests.service.backup_fixtures import backup, other, other_url, parts_of, restore, shown
from tests.service.switches import BEGIN, feed, labelled, switch

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("other_url", "alarming")]
__all__ = ["other", "other_url"]


def name_of(path):
    return path.rpartition("/")[2]


async def plain(api, kind):
    """A model that has learned some rows."""
    return await api.learnt(kind, rows=12)


async def challenged(api, kind):
    """One with challengers, of which one has been promoted."""
    path = await api.learnt(kind, rows=4)
    for beside in ("rls", "vigo"):
        assert 201 == (await api.ask("PUT", f"{path}/challengers/{beside}", json={"algorithm": beside})).status_code
    await api.post(f"{path}/feedback/batch", {**columnar(20), "labels": ["UP", "DOWN"] * 10})
    await api.post(f"{path}/challengers/rls/promote")
    await api.post(f"{path}/feedback/batch", {**columnar(8, 5), "labels": ["UP", "DOWN"] * 4})
    return path


async def switching(api, kind):
    """One in the overlap of a change of features."""
    path = await api.new(kind)
    await feed(api, path, range(20), ["a", "b"])
    await switch(api, path, BEGIN)
    await feed(api, path, range(20, 32), ["a", "b", "c", "d"])
    return path


async def changed(api, kind):
    """One after it."""
    path = await switching(api, kind)
    await switch(api, path, "complete")
    return path


async def copied(api, kind):
    """A copy at version 0."""
    path = await api.learnt(kind, rows=5)
    await api.post(f"{path}/copy", {"name": f"{name_of(path)}.copy"}, 201)
    return f"{path}.copy"


async def untouched(api, kind):
    """A model without features that has learned nothing."""
    return await api.new(kind, features=None, labels=None)


AUTO = {"task": "classification", "features": ["a", "b"], "labels": ["UP", "DOWN"], "params": {"size": "small"}}
SPARSE = {
    "task": "classification",
    "algorithm": "sparse_dfop",
    "params": {"compressed_dim": 4},
    "labels": ["UP", "DOWN"],
}
KINDS = [
    (plain, DFOP),
    (plain, {**RLS, "lags": 2, "missing": "mean"}),
    (plain, {**DFOP, "algorithm": "vigo"}),
    (challenged, AUTO),
    (switching, {**DFOP, "algorithm": "fesl_c"}),
    (changed, DFOP),
    (copied, DFOP),
    (untouched, DFOP),
]


@pytest.mark.parametrize(("make", "kind"), KINDS)
async def test_a_model_is_as_it_was(api, other, make, kind):
    """State bit for bit, and all that clients are shown; it learns on alike, and its state goes on to be the same."""
    path = await make(api, kind)
    before = await shown(api, path)
    body = await backup(api, name_of(path))
    assert {"restored": [name_of(path)], "skipped": [], "left_out": []} == await restore(other, body)
    after = await shown(other, path)
    assert after.pop("snapshot")["version"] == before[""]["version"]
    before.pop("snapshot")
    assert before == after
    if make is not untouched:
        spaces = before["/features"]
        row = labelled(3, {*spaces["current"], *(spaces["next"] or ())})
        row = {**row, "label": 1.5} if before[""]["config"]["task"] == "regression" else row
        answers = [await one.post(f"{path}/feedback", row) for one in (api, other)]
        assert answers[0] == answers[1]
        assert (await api.get(f"{path}/metrics")) == await other.get(f"{path}/metrics")


async def test_ids_and_tracked_predictions(api, other):
    """The same ids are refused, with the first answers; the same predictions wait, until the same moment."""
    path = await api.new()
    rows = [{"features": features(at), "label": "UP", "id": f"r{at}"} for at in range(5)]
    first = [await api.post(f"{path}/feedback", row) for row in rows]
    batch = {**columnar(600), "labels": ["UP"] * 600, "ids": [f"b{at}" for at in range(600)]}
    await api.post(f"{path}/feedback/batch", batch)
    keyed = {"headers": {"Idempotency-Key": "k"}}
    whole = await api.post(f"{path}/feedback/batch", {**columnar(3), "labels": ["UP"] * 3}, **keyed)
    asks = [await api.post(f"{path}/predict", {"features": features(at), "track": True}) for at in range(4)]
    labels = [{"prediction_id": ask["prediction_id"], "label": "DOWN"} for ask in asks]
    settled = await api.post(f"{path}/feedback", labels[0])
    waiting = await api.get(f"{path}/pending")
    await restore(other, await backup(api, name_of(path)))
    assert waiting == await other.get(f"{path}/pending")
    for row, answer in zip(rows, first, strict=True):
        assert {**answer, "duplicate": True} == await other.post(f"{path}/feedback", row)
    told = [await one.post(f"{path}/feedback/batch", batch) for one in (api, other)]
    assert (told[0], 600) == (told[1], told[1]["duplicates"])
    again = await other.post(f"{path}/feedback/batch", {**columnar(3), "labels": ["UP"] * 3}, **keyed)
    assert {**whole, "duplicate": True, "duplicates": 3} == again
    problem(await other.ask("POST", f"{path}/feedback", json={**rows[0], "label": "DOWN"}), 409)
    assert {**settled, "duplicate": True} == await other.post(f"{path}/feedback", labels[0])
    assert await api.post(f"{path}/feedback", labels[1]) == await other.post(f"{path}/feedback", labels[1])
    assert 2 == (await other.get(f"{path}/pending"))["waiting"]


async def test_drift_events_keep_their_ids(api, other):
    """Later alarms join the same event; what the stream of all models has had is not sent again."""
    path = await api.new()
    loud = {"features": {"a": LOUD, "b": 0.0}, "label": "UP"}
    joins = {"features": {"a": LOUD, "b": JOINS}, "label": "UP"}
    for row in (loud, loud, joins):
        await api.post(f"{path}/feedback", row)
    while (await api.get(f"{path}/drift"))["events"][-1]["alarm_count"] < 1:
        await asyncio.sleep(0.01)
    events = (await api.get(f"{path}/drift"))["events"]
    await restore(other, await backup(api, name_of(path)))
    assert events == (await other.get(f"{path}/drift"))["events"]
    await other.post(f"{path}/feedback", joins)
    await other.post(f"{path}/feedback", loud)
    while len(found := (await other.get(f"{path}/drift"))["events"]) < 3:
        await asyncio.sleep(0.01)
    assert [event["id"] for event in events] == [event["id"] for event in found[:2]]
    assert [0, 2] == [event["alarm_count"] for event in found[:2]]
    told = [event for event in (await other.get("/drift"))["events"] if event["model"] == name_of(path)]
    assert found[2:] == told


async def named(api, *names):
    """Models of some names that have learned a row."""
    for name in names:
        assert 201 == (await api.ask("PUT", f"/models/{name}", json=DFOP)).status_code
        await api.post(f"/models/{name}/feedback", {"features": features(1), "label": "UP"})


async def test_models_that_are_here(api, other):
    """At the same version they are skipped; at another one, or of another incarnation, they are named and stay."""
    await named(api, "c-1", "c-2", "c-3", "c-4")
    body = await backup(api, "c-*")
    assert ["c-1"] == (await restore(other, body, models="c-1"))["restored"]
    assert 201 == (await other.ask("PUT", "/models/c-2", json=RLS)).status_code
    await restore(other, body, models="*-3")
    await other.post("/models/c-3/feedback", {"features": features(1), "label": "UP"})
    told = await restore(other, body, 409)
    assert ["models.c-2", "models.c-3"] == [error["field"] for error in told["errors"]]
    assert (["c-4"], ["c-1"]) == (told["restored"], told["skipped"])
    assert 2 == (await other.get("/models/c-3"))["rows"]
    assert "regression" == (await other.get("/models/c-2"))["config"]["task"]
    assert {"restored": [], "skipped": ["c-4"], "left_out": []} == await restore(other, body, models="c-4")


async def test_a_deleted_model_comes_back(api):
    """In the same store, with its name and incarnation."""
    path = await api.learnt(rows=3)
    before, body = await shown(api, path), await backup(api, name_of(path))
    assert 204 == (await api.ask("DELETE", path)).status_code
    await restore(api, body)
    assert before["state"] == await api.state(path)
    assert before[""] == await api.get(path)


async def test_what_is_learned_meanwhile_is_cut(api, start, other):
    """Under the load of two services: what is in the backup is known after the restore, the rest is learned, once."""
    path, second, stop = await api.new(), await start(), asyncio.Event()
    answers, numbers = {}, itertools.count()

    async def load(client):
        while not stop.is_set():
            number = next(numbers)
            row = {"features": features(number), "label": "UP" if number % 3 else "DOWN", "id": f"r{number}"}
            answers[number] = await client.post(f"{path}/feedback", row)
            if number % 4 == 0:
                asked = await client.post(f"{path}/predict", {"features": features(number), "track": True})
                await client.post(f"{path}/feedback", {"prediction_id": asked["prediction_id"], "label": "UP"})

    loads = [asyncio.create_task(load(client)) for client in (api, second, api, second)]
    while len(answers) < 150:
        await asyncio.sleep(0.01)
    known = max(answer["version"] for answer in answers.values())
    body = await backup(second, name_of(path))
    while len(answers) < 300:
        await asyncio.sleep(0.01)
    stop.set()
    await asyncio.gather(*loads)
    (standing,) = [part for kind, part, _ in parts_of(body) if kind == b"S"]
    assert known <= standing.version < max(answer["version"] for answer in answers.values())
    await restore(other, body)
    restored = await other.get(path)
    assert (standing.version, standing.rows) == (restored["version"], restored["rows"])
    for number, answer in sorted(answers.items(), key=lambda item: item[1]["version"]):
        row = {"features": features(number), "label": "UP" if number % 3 else "DOWN", "id": f"r{number}"}
        again = await other.post(f"{path}/feedback", row)
        assert (answer["version"] <= standing.version) == again["duplicate"]
        assert not again["duplicate"] or {**answer, "duplicate": True} == again
    assert 0 < sum(answer["version"] > standing.version for answer in answers.values())


async def test_a_large_state_goes_in_pieces(api, other):
    """Of more than one piece, in the store and in the backup."""
    wide = {"algorithm": "rls", "task": "regression", "features": [f"x{at}" for at in range(1200)]}
    path = await api.new(wide)
    row = np.random.default_rng(1).normal(size=(2, 1200)).tolist()
    await api.post(f"{path}/feedback/batch", {"columns": wide["features"], "data": row, "labels": [1.0, 2.0]})
    body = await backup(api, name_of(path))
    assert 1 < sum(kind == b"C" for kind, _, _ in parts_of(body))
    await restore(other, body)
    assert await api.state(path) == await other.state(path)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_interrupted_restore_leaves_nothing_or_all(api, other, monkeypatch, moment):
    """At whichever step the store is gone, before it has done the step or after it; the next attempt completes."""
    path = await api.learnt(rows=3)
    name = name_of(path)
    for at in range(3):
        await api.post(f"{path}/feedback", {"features": features(at), "label": "UP", "id": f"r{at}"})
    await api.post(f"{path}/predict", {"features": features(1), "track": True})
    before, body = await shown(api, path), await backup(api, name)
    store = other.app.state.context.engine.store.connection
    catalog, send, steps = Catalog(store), Connection._deliver, 0
    outcomes = set()

    async def broken(self, calls, *args):
        nonlocal left
        own = [key for call in calls for key in call.keys if name in str(key) or key == INDEX]
        if self is not store or not own:
            return await send(self, calls, *args)
        left -= 1
        if left == 0 and moment == "after":
            await send(self, calls, *args)
        if left <= 0:
            return [StoreDown("cut off")] * len(calls)
        return await send(self, calls, *args)

    for steps in range(1, 40):
        left = steps
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "_deliver", broken)
            answer = await other.ask("POST", "/restore", content=body, headers=STATE)
        found = await catalog.read(name)
        outcomes.add((answer.status_code, found is not None))
        if found is not None:
            assert before["state"] == await other.state(path)
            assert before["/pending"] == await other.get(f"{path}/pending")
        if answer.status_code == 200:
            break
        if found is not None:
            assert [name] == (await restore(other, body))["skipped"]
            await catalog.delete(name)
    assert steps > 5
    assert {(503, False), (200, True)} | ({(503, True)} if moment == "after" else set()) == outcomes


async def test_a_damaged_backup_is_refused(api, other):
    """Wherever it is cut off, or a bit is another one; nothing of the model is there then."""
    path = await api.learnt(rows=3)
    await api.post(f"{path}/feedback", {"features": features(1), "label": "UP", "id": "one"})
    body = await backup(api, name_of(path))
    ends = [end for _, _, end in parts_of(body)]
    cuts = {0, 1, 5, *ends[:-1], *(end - 1 for end in ends), *range(100, len(body), len(body) // 10)} - {len(body)}
    for at in sorted(cuts):
        told = await restore(other, body[:at], 422)
        if at < ends[-2]:
            assert [] == told["restored"]
        else:
            assert [name_of(path)] == told["restored"] + told["skipped"]
    path = await api.learnt(rows=3)
    body = await backup(api, name_of(path))
    last = parts_of(body)[-2][2]
    for at in [*range(0, 40, 3), *range(40, last, last // 40)]:
        torn = bytearray(body)
        torn[at] ^= 1 << at % 8
        told = await restore(other, bytes(torn), 422)
        assert ([], []) == (told["restored"], told["errors"])
    problem(await other.ask("GET", path), 404)
    await restore(other, body)


async def test_a_key_restores_the_models_it_may(start, api, other_url):
    """Others are 403, before anything of them is there; its backups have only its own."""
    await named(api, "k-1", "k-2")
    body = await backup(api, "k-*")
    locked = await start(redis_url=other_url, api_keys="boss:b:admin,tenant:t:admin:k-2,hand:h:learn")
    hand, tenant = ({"Authorization": f"Bearer {secret}"} for secret in "ht")
    problem(await locked.ask("GET", "/backup", headers=hand), 403)
    for key in (hand, tenant):
        problem(await locked.ask("POST", "/restore", content=body, headers={**key, **STATE}), 403)
    asked = {"headers": {**tenant, **STATE}, "params": {"models": "k-2"}}
    assert ["k-2"] == (await locked.ask("POST", "/restore", content=body, **asked)).json()["restored"]
    own = (await locked.ask("GET", "/backup", headers=tenant)).content
    assert ["k-2"] == [part.name for kind, part, _ in parts_of(own) if kind == b"M"]


async def test_a_model_that_cannot_be_read_is_left_out(api, other, monkeypatch):
    """The backup says so, and has the others."""
    await named(api, "l-1", "l-2")
    replica = await api.app.state.context.engine.replica("l-1")
    with monkeypatch.context() as patch:
        patch.setattr(replica, "down", "it is broken")
        body = await backup(api, "l-*")
    told = {"restored": ["l-2"], "skipped": [], "left_out": [{"name": "l-1", "detail": "it is broken"}]}
    assert told == await restore(other, body)


async def test_what_restores_nothing(api):
    """Not a backup, another media type, a name that is none."""
    told = problem(await api.ask("POST", "/restore", content=b"PK\3\4 something", headers=STATE), 422)
    assert "does not begin like a backup" in told["detail"]
    problem(await api.ask("POST", "/restore", content=b"", headers=STATE), 422)
    problem(await api.ask("POST", "/restore", content=b"{}", headers={"Content-Type": "application/json"}), 415)
    problem(await api.ask("GET", "/backup", params={"after": "-"}), 422, "after")


async def test_head_makes_no_backup(api):
    """It ends with its headers."""
    answer = await api.ask("HEAD", "/backup")
    assert (200, b"", "application/octet-stream") == (
        answer.status_code,
        answer.content,
        answer.headers["content-type"],
    )


async def test_a_service_that_stops_says_so(start):
    """In the backup that it breaks off; what is whole in it is restored."""
    stopping = await start()
    await named(stopping, "s-1", "s-2")
    places = stopping.app.state.context.places
    maker = BackupMaker(stopping.app.state.context.engine, lambda name: name.startswith("s-"))
    stream = BackupStream(stopping.app.state.context, maker, {})
    sent = []

    async def send(message):
        sent.append(message.get("body", b""))
        if sent[-1].startswith(b"E"):
            places.stop()

    await stream({}, asyncio.Event().wait, send)
    body = b"".join(sent)
    told = await restore(stopping, body, 422)
    assert "the service stops" in told["detail"]
    assert ["s-1"] == told["skipped"]


async def test_what_a_service_holds_may_be_newer_than_the_backup(start, tmp_path):
    """In a store that has lost its data: it is written over the restored model, whose ids stay known."""
    store = EmbeddedStore(tmp_path, "everysec")
    try:
        one = await start(redis_url=store.start())
        path = await one.new()
        row = {"features": features(1), "label": "UP", "id": "one"}
        await one.post(f"{path}/feedback", row)
        body = await backup(one, name_of(path))
        await one.post(f"{path}/feedback", {**row, "id": "two"})
        engine = one.app.state.context.engine
        await engine.store.connection.ask(("FLUSHALL",))
        while not engine.models.lost:
            await asyncio.sleep(0.01)
        assert [name_of(path)] == (await restore(one, body))["restored"]
        (told,) = (await one.post("/refill"))["models"]
        assert ("replaced", 2) == (told["outcome"], told["stored_version"])
        assert (await one.post(f"{path}/feedback", row))["duplicate"]
        assert 2 == (await one.get(path))["rows"]
        await engine.stop()
    finally:
        store.stop()
