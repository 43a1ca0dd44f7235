"""A log that is not what it was: its tail is gone, or was written anew by others."""

import pytest

from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge, learnt, repeat

pytestmark = pytest.mark.faults


@pytest.fixture
def service(serve, store):
    """A service on the test's store."""
    return serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start()


def _older(store):
    """A copy of the store's data as they are now."""
    store.stop()
    copy = store.copy()
    store.start()
    return copy


def _back_to(store, copy):
    """The store comes back without what it was told since."""
    store.stop()
    store.put_back(copy)
    store.start()


def _readiness(service):
    ready = service.request("GET", "/readyz")
    return ready.status, ready.json["checks"]["log"]


@pytest.mark.slow_but("True")
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_log_whose_tail_is_gone_is_what_counts(service, store, snapshot):
    """A replica ahead of its log detects and reports it, reloads from snapshot and log, and goes on from there."""
    table = rows(160, 21)
    service.create()
    kept = Load([service], table[:60]).run()
    if snapshot:
        assert 201 == service.request("POST", "/models/m/snapshots").status
    older = _older(store)
    Load([service], table[60:120]).run()
    _back_to(store, older)
    assert 60 == eventually(60, lambda: service.get("/models/m")["rows"])
    assert 1 == service.metric("lost_tails")
    assert 1 <= service.metric("lost_entries") <= 60
    assert (200, False) == eventually((200, False), lambda: _readiness(service))  # the store's return is seen in time

    new = Load([service], table[120:]).run()
    assert 1 == service.metric("lost_tails")
    assert "model m: the log lost its tail (ahead)" in service.log
    again = Load([service], table[60:120]).run()
    assert {False} == {answer["duplicate"] for answer in again.answers.values()}
    assert 160 == service.get("/models/m")["rows"]
    if not snapshot:
        judge(service, table, kept, new, again)
    repeat(service, table[:60], kept)
    state = service.state()
    service.restart()
    assert state == service.state()


@pytest.mark.slow
def test_a_log_that_lost_its_beginning_takes_rows_as_if_for_the_first_time(service, store):
    """Back to before the first row fixed the features: nobody is refused for features that are no longer known."""
    table = rows(60, 22)
    service.create()
    older = _older(store)
    Load([service], table[:20]).run()
    _back_to(store, older)
    load = Load([service], table).run()
    assert 1 == service.metric("lost_tails")
    judge(service, table, load)


def test_a_tail_that_others_have_rewritten_is_the_tail(service, serve, store):
    """As many entries as were lost, more, or fewer, by another service: the replica drops back and follows the log."""
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
    """As many entries as rows."""
    client = Client(service, name)
    for row in table:
        learnt(client.learn(row))
