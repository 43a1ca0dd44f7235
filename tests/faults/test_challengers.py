"""Challengers that come, go and become the model while services die and rows are in flight."""

import contextlib
import http.client
import itertools

import pytest

from tests.faults.drifts import BEFORE, events, learn, moved, table
from tests.faults.load import Client, Load, rows
from tests.faults.processes import eventually
from tests.faults.rebuild import history, judge, meta, whole_log

pytestmark = pytest.mark.faults
OTHER = {"algorithm": "dfop", "params": {"forgetting_rate": 0.02}}
PATH = "/models/m/challengers"


def ask(service, method, path, body=None, *, fine=(200, 201, 204), **headers):
    """The status of a request that works, or loses a race."""
    answer = service.request(method, f"{PATH}/{path}", body, **headers)
    assert answer.status in (*fine, 404, 409), answer.body
    return answer.status


@pytest.mark.slow_but("applied")
@pytest.mark.parametrize("point", ["appended", "applied"])
def test_a_promotion_that_crashed_the_service_is_made_once(serve, point):
    """It died between append and answer: the promotion is there after the start, and its retry does not swap back."""
    table = rows(12, 71)
    service = serve().start(FAILPOINT=f"{point}:7")
    service.create()
    client = Client(service)
    assert 201 == ask(service, "PUT", "other", OTHER)
    for row in table[:5]:
        client.learn(row)
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(service, "POST", "other/promote", {"force": True}, idempotency_key="once")
    assert -9 == service.died()
    service.start()
    for _ in range(2):
        found = service.get("/models/m")
        assert (7, 5, OTHER["algorithm"]) == (found["version"], found["rows"], found["config"]["algorithm"])
        assert ["previous"] == [one["name"] for one in service.get(PATH)["challengers"]]
        assert 200 == ask(service, "POST", "other/promote", {"force": True}, idempotency_key="once")
    client = Client(service)
    for row in table[5:]:
        client.learn(row)
    assert 12 == service.get("/models/m")["rows"]
    judge(service, whole_log(service.store_url), table)


@pytest.mark.slow
def test_challengers_come_and_go_under_the_rows_of_two_services(serve, store):
    """Both learn and both ask for everything: every row is in once, and both have the state of a serial replay."""
    pair = [serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start() for _ in range(2)]
    for service in pair:
        service.create()
    tables = [rows(300, 72 + at, f"own{at}-") for at in range(2)]
    loads = [Load([service], table).start() for service, table in zip(pair, tables, strict=True)]
    steps = itertools.cycle(
        [
            ("PUT", "other", OTHER),
            ("PUT", "auto", {**OTHER, "promote": "auto"}),
            ("POST", "other/promote", {"force": True}),
            ("DELETE", "auto", None),
            ("POST", "previous/promote", None),
            ("DELETE", "previous", None),
        ]
    )
    made = [ask(service, *step) for service, step, _ in zip(itertools.cycle(pair), steps, range(24), strict=False)]
    assert 12 < sum(status < 300 for status in made)
    for load in loads:
        load.finish()
    states = [service.state() for service in pair]
    assert states[0] == states[1]
    entries = history(store.data, "m", meta(store.url).incarnation)  # snapshots before promotions have trimmed the log
    judge(pair[0], entries, [*tables[0], *tables[1]], *loads)
    later = serve(REDIS_URL=store.url).start()
    assert states[0] == later.state()
    assert 0 == sum(service.metric("models_down") for service in pair)


@pytest.mark.slow
def test_a_crash_loses_no_event_of_a_challenger(serve, store):
    """Of a model that was created without drift tests: after a restart it is published, though nobody asks for it."""
    service = serve(REDIS_URL=store.url).start()
    service.create(watch={})
    assert 201 == ask(service, "PUT", "other", {"algorithm": "rls"})
    learn(service, table(BEFORE, 0.0, 1))
    assert [] == events(service)
    service.kill()
    service.start(FAILPOINT="alarmed:1")
    with contextlib.suppress(OSError, http.client.HTTPException):
        learn(service, moved(), key="moved")
    assert -9 == service.died()
    service.start()
    assert 1 <= eventually(True, lambda: len(events(service)) > 0)
    assert {"other"} == {event["challenger"] for event in events(service)}
