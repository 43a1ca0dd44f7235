"""Copies while services die: either no copy, or a complete one."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.store.states.copies import _COPY
from tests.faults.load import Load, rows
from tests.faults.processes import BROKEN
from tests.faults.rebuild import bare

KEY = {"idempotency_key": "a copy"}


def alarmless(service, name):
    """A model's state without its stamp; none of these models has raised an alarm."""
    return bare(service.state(name))


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_service_that_dies_while_it_copies_leaves_nothing_or_all(serve, proxy, moment):
    """It dies before or after the copy is published: in both cases the retry gets a complete copy."""
    table = rows(60, 71)
    service = serve(REDIS_URL=proxy.url).start()
    service.create()
    Load([service], table).run()
    if moment == "before":
        proxy.pause_before(_COPY.sha)
        with pytest.raises(BROKEN):
            _kill_while_it_copies(service, proxy)
    else:
        assert 201 == service.request("POST", "/models/m/copy", {"name": "other"}, **KEY).status
        service.kill()
    service.start()
    found = service.request("GET", "/models/other")
    assert found.status == 200 or (found.status, moment) == (404, "before")
    again = service.request("POST", "/models/m/copy", {"name": "other"}, **KEY)
    assert (201, 60, 0) == (again.status, again.json["rows"], again.json["version"])
    assert alarmless(service, "m") == alarmless(service, "other")


def _kill_while_it_copies(service, proxy):
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.request, "POST", "/models/m/copy", {"name": "other"}, **KEY)
        assert proxy.paused.wait(60)
        service.kill()
        proxy.open.set()
        asked.result(60)


@pytest.mark.slow
def test_a_copy_learns_through_kills_like_any_model(serve):
    """Its log begins after a snapshot: after kills it equals a copy that was not disturbed."""
    table = rows(200, 72)
    service = serve().start()
    service.create()
    Load([service], table[:100]).run()
    for name in ("killed", "quiet"):
        assert 201 == service.request("POST", "/models/m/copy", {"name": name}).status
    Load([service], table[100:], clients=1, model="quiet").run()
    for start in (100, 130, 160):
        Load([service], table[start : start + (40 if start == 160 else 30)], clients=1, model="killed").run()
        service.restart()
    assert alarmless(service, "quiet") == alarmless(service, "killed")
