"""Settings that change while services die and rows are in flight."""

import http.client
import itertools

import pytest

from tests.faults.load import Client, Load, rows
from tests.faults.rebuild import judge, whole_log

pytestmark = pytest.mark.faults
CHANGE = {"missing": "mean", "on_drift": "reset", "tags": {"team": "pricing"}}


def patch(service, body, **headers):
    """The model after a change of its settings."""
    answer = service.request("PATCH", "/models/m", body, **headers)
    assert 200 == answer.status, answer.body
    return answer.json


def changes_in(model):
    """The rows at which settings have changed."""
    return [mark["row"] for mark in model["metrics"]["marks"] if mark["kind"] == "configure"]


@pytest.mark.parametrize("point", ["appended", "applied"])
def test_a_change_that_crashed_the_service_is_made_once(serve, point):
    """It died between append and answer: the change is there after the start, and its retry makes no second one."""
    table = rows(12, 61)
    service = serve().start(FAILPOINT=f"{point}:6")
    service.create()
    client = Client(service)
    for row in table[:5]:
        client.learn(row)
    with pytest.raises((OSError, http.client.HTTPException)):
        patch(service, CHANGE, idempotency_key="once")
    assert -9 == service.died()
    service.start()
    found = service.get("/models/m")
    assert CHANGE == {name: found["config"][name] for name in CHANGE}
    assert (6, [5]) == (found["version"], changes_in(found))
    assert found == patch(service, CHANGE, idempotency_key="once")
    client = Client(service)
    for row in table[5:]:
        client.learn(row)
    judge(service, whole_log(service.store_url), table)


@pytest.mark.slow
def test_settings_change_under_the_rows_of_two_services(serve, store):
    """Both learn and both change settings: every row is in once, and both have the state of a serial replay."""
    pair = [serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start() for _ in range(2)]
    for service in pair:
        service.create()
    tables = [rows(300, 62 + at, f"own{at}-") for at in range(2)]
    loads = [Load([service], table).start() for service, table in zip(pair, tables, strict=True)]
    bodies = itertools.cycle([{"missing": "mean"}, {"missing": "zero", "on_drift": "forget"}, {"on_drift": None}])
    for service, body, _ in zip(itertools.cycle(pair), bodies, range(20), strict=False):
        patch(service, body)
    for load in loads:
        load.finish()
    states = [service.state() for service in pair]
    assert states[0] == states[1]
    judge(pair[0], whole_log(store.url), [*tables[0], *tables[1]], *loads)
    later = serve(REDIS_URL=store.url).start()
    assert states[0] == later.state()
    assert 0 == sum(service.metric("models_down") for service in pair)
