"""The store comes back without its data, or from a backup that is older than a model."""

import shutil

import pytest

from service.client import app
from service.client.states import state_digest
from tests.faults.load import Load, rows
from tests.faults.processes import eventually


def _ready(service):
    answer = service.request("GET", "/readyz")
    return answer.status, answer.json["checks"]["store_data"]


def _flushed(store):
    with store.client() as client:
        client.flushall()


def _empty(store):
    store.stop()
    shutil.rmtree(store.data)
    store.data.mkdir()
    store.start()


def _restored(store, rdb, services, _folder):
    """The RDB file has 30 rows of model m, so ten are a lost tail; model n is deleted since the file lacks it."""
    assert 204 == services[0].request("DELETE", "/models/n").status
    assert 404 == eventually(404, lambda: services[1].request("GET", "/models/n").status)
    store.stop()
    store.begin_with(rdb)
    return 30


def _from_memory(_store, _rdb, services, folder):
    """Replace the lost model by the state that a service still holds."""
    file, where = folder / "all.tar", ("--url", f"http://127.0.0.1:{services[0].port}")
    assert 0 == app.main(["export", "--all", str(file), *where])
    assert 1 == app.main(["import", str(file), *where]), "the name of a lost model must not be reused"
    assert 204 == services[1].request("DELETE", "/models/m").status
    assert 404 == eventually(404, lambda: services[0].request("GET", "/models/m").status)
    assert 0 == app.main(["import", str(file), *where])
    return 40


@pytest.mark.slow_but("_restored-_empty", "_from_memory-_flushed")
@pytest.mark.parametrize("loss", [_flushed, _empty])
@pytest.mark.parametrize("way", [_restored, _from_memory])
def test_lost_models_are_kept_until_they_are_there_again(pair, store, tmp_path, monkeypatch, loss, way):
    """Two services go on predicting but are not ready, and other models learn; then both learn again and agree."""
    monkeypatch.delenv("ONEPASS_API_KEY", raising=False)
    one, other = pair
    one.create()
    table = rows(60, 5)
    Load([one], table[:30]).run()
    rdb, early = store.rdb(), one.state()
    Load([one], table[30:40]).run()
    state = one.state()
    assert state == other.state()
    loss(store)
    for service in pair:
        assert (503, False) == eventually((503, False), lambda service=service: _ready(service))
        told = service.request("POST", "/models/m/predict", {"features": table[0].features})
        assert (200, 40) == (told.status, service.get("/models/m")["rows"])
        row = {"features": table[50].features, "label": table[50].label}
        for method, path, body in (
            ("POST", "/models/m/feedback", row),
            ("PUT", "/models/m", service.get("/models/m")["config"]),
        ):
            refused = service.request(method, path, body)
            assert (503, "model-lost") == (refused.status, refused.problem)
            assert "restore the store" in refused.json["errors"][0]["allowed"]
        assert "the store has lost model m (" in service.log
        assert service.metric("lost_models") >= 1
        assert [("m", "down")] == [(each["name"], each["phase"]) for each in service.get("/models")["models"]]
    one.create("n")
    Load(pair, rows(20, 6, "n"), model="n").run()

    count = way(store, rdb, pair, tmp_path)
    for service in pair:
        assert (200, True) == eventually((200, True), lambda service=service: _ready(service))
        assert count == eventually(count, lambda service=service: service.get("/models/m")["rows"])
        assert state_digest(early if count == 30 else state) == state_digest(service.state())
    Load(pair, table[40:]).run()
    assert one.state() == other.state()
    assert count + 20 == one.get("/models/m")["rows"]
