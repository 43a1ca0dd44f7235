"""Snapshots that were damaged: never learned from, never silently replaced by an empty state."""

import pytest

from service.store.keys import ModelKeys
from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge, meta, repeat


@pytest.fixture
def service(serve, store):
    """A service on the test's store that takes snapshots only on request."""
    made = serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start()
    made.create()
    return made


def _chunks(store, name="m"):
    keys = ModelKeys(name, meta(store.url, name).incarnation)
    with store.client() as client:
        return [
            keys.chunks(version) for version in sorted((int(v) for v in client.hkeys(keys.snapshots)), reverse=True)
        ]


def _corrupt(store, key):
    """Flip one bit in the middle of the first piece."""
    with store.client() as client:
        (field, *_) = sorted(client.hkeys(key))
        piece = bytearray(client.hget(key, field))
        piece[len(piece) // 2] ^= 1
        client.hset(key, field, bytes(piece))


def _snapshots_between(service, table, count):
    """Learn the rows and take ``count`` snapshots on the way."""
    loads = []
    for at in range(count):
        part = table[at * len(table) // (count + 1) : (at + 1) * len(table) // (count + 1)]
        loads.append(Load([service], part).run())
        assert 201 == service.request("POST", "/models/m/snapshots").status
    loads.append(Load([service], table[count * len(table) // (count + 1) :]).run())
    return loads


@pytest.mark.slow_but("flipped")
@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_corrupt_snapshot_is_skipped_for_the_one_before(service, store, damage):
    """With the newest damaged, the one before and a longer tail give the same state, and the operator is told."""
    table = rows(200, 16)
    first = Load([service], table[:50]).run()
    loads = _snapshots_between(service, table[50:], 2)
    before, known = service.state(), service.get("/models/m/snapshots")["snapshots"]
    assert 2 == len(known)
    service.kill()
    newest = _chunks(store)[0]
    if damage == "flipped":
        _corrupt(store, newest)
    else:
        with store.client() as client:
            client.delete(newest)
    service.start()
    assert before == service.state()
    assert 1 == service.metric("corrupt_snapshots")
    assert f"skipping the snapshot of version {known[0]['version']}" in service.log
    for load, part in zip([first, *loads], (table[:50], table[50:100], table[100:150], table[150:]), strict=True):
        repeat(service, part, load)


def test_only_a_model_without_an_intact_snapshot_is_refused(service, store):
    """All are damaged and the log is trimmed: 503 with the reason, never an empty state; others go on, DELETE works."""
    table = rows(120, 17)
    service.create("other")
    others = Load([service], table, model="other").run()
    _snapshots_between(service, table, 2)
    service.kill()
    for key in _chunks(store):
        _corrupt(store, key)
    service.start()

    refused = service.request("GET", "/models/m")
    assert (503, "model-down") == (refused.status, refused.problem)
    assert "no intact snapshot" in refused.json["detail"]
    sent = Client(service).send(rows(1, 18, "new")[0])
    assert (503, "model-down") == (sent.status, sent.problem)
    assert 503 == service.request("POST", "/models/m/predict", {"features": table[0].features}).status
    assert 2 <= service.metric("corrupt_snapshots")

    judge(service, table, others, name="other")
    assert ["down", "steady"] == [model["phase"] for model in service.get("/models")["models"]]
    assert 200 == eventually(200, service.ready)
    assert (204, 404) == (service.request("DELETE", "/models/m").status, service.request("GET", "/models/m").status)
    service.create()
    again = Load([service], table).run()
    judge(service, table, again)
