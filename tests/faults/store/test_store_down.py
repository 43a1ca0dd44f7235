"""The store is away for a while: requests get 503, predictions go on, and no restart is needed afterwards."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import judge, repeat


@pytest.fixture
def service(serve, store):
    """A service on the test's store, with the model m."""
    made = serve(REDIS_URL=store.url, STORE_TIMEOUT_S=0.5, SNAPSHOT_MIN_KB=10**6).start()
    made.create()
    return made


def _all_at_once(service, table):
    """One request per row, each on a separate connection, all waiting at the same time."""
    with ThreadPoolExecutor(len(table)) as pool:
        return list(pool.map(lambda row: Client(service).send(row), table))


@pytest.mark.slow_but("killed")
@pytest.mark.parametrize("way", ["stopped", "killed", "frozen"])
def test_a_store_that_is_away_is_503_until_it_is_back(service, store, way):
    """Predictions are made and refused, feedback gets 503 with Retry-After; with the store back all is as before."""
    table = rows(120, 12)
    first = Load([service], table[:60]).run()
    assert 200 == eventually(200, service.ready)
    {"stopped": store.stop, "killed": store.kill, "frozen": store.freeze}[way]()

    refused = _all_at_once(service, table[60:92])
    assert {(503, "store-down", "1")} == {(a.status, a.problem, a.headers.get("retry-after")) for a in refused}
    assert 503 == service.request("DELETE", "/models/m").status
    told = service.request("POST", "/models/m/predict", {"features": table[0].features})
    assert (200, 60) == (told.status, service.get("/models/m")["rows"])
    for wrong in ({**table[0].features, "other": 1}, {"x0": 1}):
        assert 422 == service.request("POST", "/models/m/predict", {"features": wrong}).status
    assert 503 == service.request("GET", "/models/m/state?consistency=strong").status
    assert 503 == service.request("GET", "/models/other").status
    assert 503 == service.request("PUT", "/models/other", {"algorithm": "dfop", "task": "regression"}).status
    assert 503 == eventually(503, service.ready)
    assert (200, 0, 0) == (service.request("GET", "/healthz").status, service.metric("queued"), service.metric("ready"))
    assert "down" == service.request("GET", "/readyz").json["store"]

    store.thaw() if way == "frozen" else store.start()
    second = Load([service], table[60:]).run()
    assert 200 == eventually(200, service.ready)
    judge(service, table, first, second)
    repeat(service, table[:60], first)
    repeat(service, table[60:], second)
    assert (1, 0) == (service.metric("loads"), service.metric("queued"))


def test_a_full_queue_is_503_at_once(serve, store):
    """While the store is frozen the queue fills; further requests are answered without waiting for the store."""
    settings = {"QUEUE_MAX": 4, "STORE_TIMEOUT_S": 60}
    service, table = serve(REDIS_URL=store.url, segments=1, **settings).start(), rows(40, 14)
    service.create()
    first = Load([service], table[:4]).run()
    store.freeze()
    load = Load([service], table[4:], clients=12).start()
    load.wait(lambda load: load.refused["queue-full"] >= 20)  # long before the timeout of a minute
    assert ({"queue-full"}, {}) == (set(load.refused), load.answers)
    assert 4 == service.metric("queued")
    store.thaw()
    load.finish()
    assert 0 == load.broken
    judge(service, table, first, load)
