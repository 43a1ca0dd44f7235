"""Challengers that come, go and are promoted, and settings that change, while rows are in flight."""

import contextlib
import itertools

import pytest

from tests.faults.drifts import BEFORE, events, learn, moved, table
from tests.faults.load import Load, rows
from tests.faults.processes import BROKEN, eventually
from tests.faults.rebuild import history, judge

OTHER = {"algorithm": "dfop", "params": {"forgetting_rate": 0.02}}


def ask(service, method, path, body=None):
    """Send a request that either works or loses a race; return its status."""
    answer = service.request(method, f"/models/m{path}", body)
    assert answer.status in {200, 201, 204, 404, 409}, answer.body
    return answer.status


@pytest.mark.slow
def test_models_change_under_the_rows_of_two_services(pair, serve, store):
    """Both learn and both change the model: every row is in once, and both states equal a serial replay."""
    for service in pair:
        service.create()
    tables = [rows(300, 72 + at, f"own{at}-") for at in range(2)]
    loads = [Load([service], table).start() for service, table in zip(pair, tables, strict=True)]
    steps = itertools.cycle(
        [
            ("PUT", "/challengers/other", OTHER),
            ("PATCH", "", {"missing": "mean"}),
            ("PUT", "/challengers/auto", {**OTHER, "promote": "auto"}),
            ("POST", "/challengers/other/promote", {"force": True}),
            ("PATCH", "", {"missing": "zero", "on_drift": "forget"}),
            ("DELETE", "/challengers/auto", None),
            ("POST", "/challengers/previous/promote", None),
            ("PATCH", "", {"on_drift": None}),
            ("DELETE", "/challengers/previous", None),
        ]
    )
    made = [ask(service, *step) for service, step, _ in zip(itertools.cycle(pair), steps, range(36), strict=False)]
    assert 24 < sum(status < 300 for status in made)
    for load in loads:
        load.finish()
    states = [service.state() for service in pair]
    assert states[0] == states[1]
    entries = history(store.data, store.url)  # snapshots before promotions have trimmed the log
    judge(pair[0], [*tables[0], *tables[1]], *loads, entries=entries)
    later = serve(REDIS_URL=store.url).start()
    assert states[0] == later.state()
    assert 0 == sum(service.metric("models_down") for service in pair)


@pytest.mark.slow
def test_a_crash_loses_no_event_of_a_challenger(serve, store):
    """The model was created without drift tests: after a restart the event is published without any request for it."""
    service = serve(REDIS_URL=store.url).start()
    service.create(watch={})
    assert 201 == ask(service, "PUT", "/challengers/other", {"algorithm": "rls"})
    learn(service, table(BEFORE, 0.0, 1))
    assert [] == events(service)
    service.restart(FAILPOINT="alarmed:1")
    with contextlib.suppress(*BROKEN):
        learn(service, moved(), key="moved")
    assert -9 == service.died()
    service.start()
    assert 1 <= eventually(True, lambda: len(events(service)) > 0)
    assert {"other"} == {event["challenger"] for event in events(service)}
