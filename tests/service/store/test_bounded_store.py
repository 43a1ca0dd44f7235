"""Every kind of key stops growing: the same work again and again, and what the store keeps of it, counted."""

import asyncio
import itertools
import re
from pathlib import Path

import pytest
import redis

from service.store import keys
from service.store.drift import drift
from service.store.drift.drift import DriftStream
from service.store.redis.connection import Connection
from tests.alarms import JOINS, LOUD
from tests.service.api_fixtures import DFOP, features
from tests.service.key_kinds import held, kind
from tests.service.waiting import until

pytestmark = pytest.mark.usefixtures("alarming")
ROUNDS, BATCHES, ROWS, TRACKED, SNAPSHOTS, EVENTS, EVENTS_ALL = 6, 12, 25, 6, 2, 3, 4
SETTINGS = {
    "snapshot_min_kb": 1,
    "snapshots_kept": SNAPSHOTS,
    "id_ttl_s": 1,
    "prediction_ttl_s": 1,
    "webhooks": "http://127.0.0.1:9/",
}
LOOKS = 50
"""How often it is looked for a snapshot before one is asked for."""
ENTRIES = BATCHES + TRACKED + 1
"""Most entries that a round adds to the log of its model before it waits for a snapshot."""
MODELS = 2
TRIES, PAUSE_S = 60, 0.3
"""How often it is looked for what expires within a second; few predictions are tracked in one."""
BOUNDS = {
    "onepass:models": (1, MODELS), "onepass:drift": (1, EVENTS_ALL), "onepass:{onepass:drift}:published": (1, MODELS),
    "onepass:{onepass:drift}:alarms": (1, EVENTS_ALL), "onepass:{onepass:drift}:webhooks": (1, 1),
    "onepass:{onepass:drift}:tombstones": (1, ROUNDS + 2), "meta": (MODELS, 16),
    "log": (MODELS, (SNAPSHOTS + 1) * ENTRIES), "seen": (MODELS, BATCHES * ROWS),
    "seen_due": (MODELS, BATCHES * ROWS), "pending": (MODELS, TRACKED), "pending_due": (MODELS, TRACKED),
    "labels_due": (MODELS, TRACKED), "onepass:{onepass:labels}:due": (1, MODELS),
    "onepass:{onepass:labels}:marked": (1, MODELS), "snapshots": (MODELS, SNAPSHOTS),
    "lost": (1, 1), "chunks": (MODELS * SNAPSHOTS, 1), "states": (MODELS, SNAPSHOTS + 1), "state": (SNAPSHOTS + 1, 1),
    "deleted": (ROUNDS + 1, 1), "unlabelled": (MODELS, EVENTS),
}  # fmt: skip
"""Most keys of each kind, and most entries in one of them."""
_numbers = itertools.count(1)


async def batch(api, path, then=0.0):
    """Rows with ids, of which the first raises an alarm: an event, or one that joins the event before it."""
    data = [[LOUD if row == 0 else features(row)["a"], then] for row in range(ROWS)]
    ids = [f"i{next(_numbers)}" for _ in data]
    body = {"columns": ["a", "b"], "data": data, "labels": ["UP", "DOWN"] * (ROWS // 2) + ["UP"] * (ROWS % 2)}
    await api.post(f"{path}/feedback/batch", {**body, "ids": ids})


async def track(api, path, count, labelled):
    """Tracked predictions, some of which get their labels."""
    for at in range(count):
        told = await api.post(f"{path}/predict", {"features": features(at), "track": True})
        if at < labelled:
            await api.post(f"{path}/feedback", {"prediction_id": told["prediction_id"], "label": "UP"})


async def newest(api, path):
    """Version of the newest snapshot."""
    return max((one["version"] for one in (await api.get(f"{path}/snapshots"))["snapshots"]), default=-1)


async def work(api, connection, path):
    """A round: rows, alarms, predictions; a snapshot that comes by itself, and is restored; drift without labels."""
    before = (await api.get(path))["version"]
    for number in range(BATCHES):
        await batch(api, path, JOINS if number % 3 else 0.0)
    await track(api, path, TRACKED, TRACKED // 2)
    taken = await until(lambda: _later(api, path, before))
    await api.post(f"{path}/restore", {"version": taken})
    name, model = path.rpartition("/")[2], await api.get(path)
    told = DriftStream(connection, connection, kept=EVENTS_ALL, wait_s=0.1)
    body = b'{"kind":"unlabelled"}'
    assert await told.add_unlabelled(name, model["incarnation"], model["version"], next(_numbers), body)


async def _later(api, path, version):
    """The newest snapshot, if it is of this round; else one is asked for: where the last was late, none may be due."""
    for _ in range(LOOKS):
        if (found := await newest(api, path)) > version:
            return found
        await asyncio.sleep(0.02)
    assert 201 == (await api.ask("POST", f"{path}/snapshots")).status_code
    return None


async def anew(api):
    """A model that has drifted, deleted and created again."""
    await api.ask("DELETE", "/models/again")
    created = await api.ask("PUT", "/models/again", json=DFOP)
    assert 201 == created.status_code
    await batch(api, "/models/again")

    async def published():
        return (await api.get("/models/again/drift"))["events"]

    await until(published)


async def lose(api, store):
    """Lose a model until it is given up; returns the kind of key that keeps its name."""
    path = await api.new(DFOP)
    own = keys.ModelKeys(path.rpartition("/")[2], "")
    store.unlink(own.meta)

    async def kept():
        return store.exists(own.lost)

    await until(kept)
    assert 204 == (await api.ask("DELETE", path)).status_code
    return kind(own.lost)


async def settled(api, path, store):
    """Wait until nothing is beyond its bound: what expires leaves with the next id, or prediction that is tracked."""
    for _ in range(TRIES):
        await api.post(f"{path}/feedback", {"features": features(0), "label": "UP", "id": f"i{next(_numbers)}"})
        await track(api, path, 1, 0)
        if not beyond(store):
            break
        await asyncio.sleep(PAUSE_S)
    assert [] == beyond(store)


def beyond(store):
    """What the store has more of than it may: kind, keys, entries of the largest."""
    found = held(store)
    return [
        (name, own.keys, own.most)
        for name, own in found.items()
        if own.keys > BOUNDS[name][0] or own.most > BOUNDS[name][1]
    ]


async def test_no_kind_of_key_grows_with_the_rows(start, store_url, monkeypatch):
    """After six rounds there is what two or three leave behind; every kind was there, and what was deleted expires."""
    monkeypatch.setattr(drift, "UNLABELLED_PAUSE_MS", 0)
    monkeypatch.setattr(drift, "UNLABELLED_KEPT", EVENTS)
    monkeypatch.setattr("service.app.KEPT", EVENTS_ALL)
    api, connection = await start(**SETTINGS), Connection(store_url, 5.0)
    path = await api.new(DFOP, labels_due={"after_s": 1, "then": {"label": "UP"}})
    with redis.Redis.from_url(store_url) as store:
        kinds = set()
        for _ in range(ROUNDS):
            await work(api, connection, path)
            kinds |= set(held(store))  # the alarms that have joined an event leave with it, when others come
            await anew(api)

        kinds |= {await lose(api, store)}
        await settled(api, path, store)
        monkeypatch.undo()
        await anew(api)
        await batch(api, path)
        await settled(api, path, store)
        assert set(BOUNDS) == kinds | set(held(store))
        marks = [store.pttl(key) for key in store.scan_iter("onepass:*:deleted")]
    await connection.close()
    assert ROUNDS + 1 == len(marks)
    assert all(0 < left <= 7 * 86_400_000 for left in marks)


def drawn() -> set[str]:
    """The kinds of keys that service/store/keys.py draws."""
    found = re.findall(r"^ +(onepass:\S+) +(?:STRING|HASH|ZSET|STREAM) ", keys.__doc__, re.MULTILINE)
    return {kind(key) for key in found}


async def test_the_sizing_page_tells_of_every_kind_of_key():
    """Its table has a line for each kind that there is, and this test a bound."""
    page = (Path(__file__).parents[3] / "deploy" / "sizing.md").read_text()
    table = page.partition("\n## What grows with what")[2].partition("\n## ")[0]
    told = [
        name for cell in re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", table, re.MULTILINE) for name in cell.split(", ")
    ]
    assert sorted(drawn()) == sorted(name.strip("`") for name in told)
    assert set(BOUNDS) == drawn()
