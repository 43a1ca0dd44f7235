"""A log that has changed: its tail is gone, or others have rewritten it."""

import pytest

from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge, learnt


@pytest.fixture
def service(serve, store):
    """A service on the test's store."""
    return serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start()


def _older(store):
    """A copy of the store's current data."""
    store.stop()
    copy = store.copy()
    store.start()
    return copy


def _back_to(store, copy):
    """Restart the store with an older copy of its data."""
    store.stop()
    store.put_back(copy)
    store.start()


def _readiness(service):
    ready = service.request("GET", "/readyz")
    return ready.status, ready.json["checks"]["log"]


def test_replicas_follow_a_rewritten_tail(service, serve, store):
    """Another service wrote as many entries as were lost, or more or fewer: the replica drops its own and follows."""
    written = {"as-many": 10, "more": 17, "fewer": 4}
    kept, lost = rows(20, 23), rows(10, 24, "lost")
    for name in written:
        service.create(name)
        _one_by_one(service, name, kept)
    older = _older(store)
    for name in written:
        _one_by_one(service, name, lost)
    service.freeze()
    _back_to(store, older)
    other = serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start()
    others = {name: rows(count, 25, "other") for name, count in written.items()}
    for name, table in others.items():
        _one_by_one(other, name, table)
    service.thaw()
    for name, count in written.items():
        assert 20 + count == eventually(20 + count, lambda name=name: service.get(f"/models/{name}")["rows"])
    assert (200, False) == eventually((200, False), lambda: _readiness(service))  # at the next check

    new = rows(10, 26, "new")
    for name, table in others.items():
        load = Load([service], new, model=name).run()
        judge(service, [*kept, *table, *new], load, name=name)
        assert service.state(name) == other.state(name)
    assert (3, 30) == (service.metric("lost_tails"), service.metric("lost_entries"))
    for name, why in (("as-many", "fork"), ("more", "fork"), ("fewer", "ahead")):
        assert f"model {name}: the log lost its tail ({why})" in service.log
    assert 0 == other.metric("lost_tails")


def _one_by_one(service, name, table):
    """Learn one entry per row."""
    client = Client(service, name)
    for row in table:
        learnt(client.learn(row))
