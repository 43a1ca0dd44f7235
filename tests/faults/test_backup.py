"""Backups while services die: a model is there whole or not at all, and both commands go on."""

import http.client
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.store.backup.staging import _RESTORE
from service.store.pieces import PIECE_BYTES
from tests.faults.load import Load, rows
from tests.faults.rebuild import bare

pytestmark = pytest.mark.faults
STATE = {"Content_Type": "application/octet-stream"}


def backed_up(serve, names):
    """A backup of models of some rows, and the state of each."""
    service = serve().start()
    states = {}
    for seed, name in enumerate(names):
        service.create(name)
        Load([service], rows(40, seed), clients=1, model=name).run()
        states[name] = bare(service.state(name))
    return service.request("GET", "/backup").body, states


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_service_that_dies_while_it_restores(serve, proxy, moment):
    """Before a model is there, or after it: what is there is whole, and the next attempt brings the rest."""
    body, states = backed_up(serve, ["a", "b"])
    service = serve(REDIS_URL=proxy.url).start()
    if moment == "before":
        proxy.pause_before(_RESTORE.sha)
        with pytest.raises((OSError, http.client.HTTPException)):
            _kill_while_it_restores(service, proxy, body)
    else:
        assert 422 == service.request("POST", "/restore", body[: len(body) * 2 // 3], **STATE).status
        service.kill()
    service.start()
    found = {model["name"] for model in service.request("GET", "/models").json["models"]}
    assert found <= {"a"} if moment == "before" else {"a"} == found
    told = service.request("POST", "/restore", body, **STATE).json
    assert (sorted(states), sorted(found)) == (sorted(told["restored"] + told["skipped"]), told["skipped"])
    assert states == {name: bare(service.state(name)) for name in states}


def _kill_while_it_restores(service, proxy, body):
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.request, "POST", "/restore", body, **STATE)
        assert proxy.paused.wait(60)
        service.kill()
        proxy.open.set()
        asked.result(60)


def test_a_store_that_dies_while_a_backup_is_made(serve, store, proxy):
    """The backup waits for it, and is whole."""
    service = serve(REDIS_URL=proxy.url).start()
    for name in ("a", "b", "c"):
        service.create(name)
        Load([service], rows(20, 5), clients=1, model=name).run()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.request, "GET", "/backup")
        store.kill()
        store.start()
        body = asked.result(90).body
    other = serve().start()
    assert ["a", "b", "c"] == other.request("POST", "/restore", body, **STATE).json["restored"]
    assert PIECE_BYTES > len(body)
