"""SIGTERM while the service learns."""

import time

import pytest

from tests.faults.load import Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import history, settle


def test_a_stop_under_load_loses_nothing(serve):
    """Stopped twice under load it exits cleanly each time; rows are in by their first request or by a retry."""
    service, table = serve().start(), rows(1200, 40)
    service.create()
    load = Load([service], table).start()
    for moment in (300, 800):
        load.acknowledged(moment)
        assert 0 == service.stop()
        service.start()
        assert 1 <= len(service.get("/models/m/snapshots")["snapshots"])
    load.finish()
    settle(service, table, load, entries=history(service.data, service.store_url))
    assert "ERROR" not in service.log


def test_a_drain_refuses_nothing_and_ends_with_the_second_signal(serve):
    """Balancers are told to leave; what they send all the same is learned until the service is told again to stop."""
    service, table = serve(DRAIN_S=600).start(), rows(600, 42)
    service.create()
    load = Load([service], table).start()
    load.acknowledged(100)
    service.ask_to_stop()
    assert 503 == eventually(503, service.ready)
    load.finish()
    assert (0, {}) == (load.broken, dict(load.refused))
    assert 0 == service.stop()
    assert "ERROR" not in service.log
    service.start()
    settle(service, table, load, entries=history(service.data, service.store_url))


class Stalled:
    """Whether a load is refused, or had no answer for half a second: all of it may wait in one append."""

    def __init__(self) -> None:
        self._answered, self._since = -1, 0.0

    def __call__(self, load: Load) -> bool:
        if len(load.answers) != self._answered:
            self._answered, self._since = len(load.answers), time.monotonic()
        return load.refused["store-down"] > 0 or time.monotonic() > self._since + 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("way", "timeout_s"), [("freeze", 1), ("freeze", 60), ("kill", 1)])
def test_a_stop_without_a_store_ends(serve, store, way, timeout_s):
    """Requests wait for a store without answers: they get 503 or a closed connection, and the service exits cleanly."""
    service, table = serve(REDIS_URL=store.url, GRACE_S=1, STORE_TIMEOUT_S=timeout_s).start(), rows(1000, 41)
    service.create()
    load = Load([service], table).start()
    load.acknowledged(20)
    getattr(store, way)()
    load.wait(Stalled())
    assert 1000 > len(load.answers)
    assert 0 == service.stop()
    store.thaw() if way == "freeze" else store.start()
    service.start()
    load.finish()
    settle(service, table, load, entries=history(store.data, store.url))
