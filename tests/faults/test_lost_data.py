"""The store comes back without its data, or from a backup that is older than a model."""

import shutil

import pytest

from tests.faults.load import Load, rows
from tests.faults.processes import eventually

pytestmark = pytest.mark.faults


def _ready(service):
    answer = service.request("GET", "/readyz")
    return answer.status, answer.json["checks"]["store_data"]


def _empty(store):
    store.stop()
    shutil.rmtree(store.data)
    store.data.mkdir()
    store.start()


def _older(store, copy):
    store.stop()
    store.put_back(copy)
    store.start()


@pytest.mark.parametrize("way", ["empty", "older"])
def test_lost_models_are_kept_and_written_back(serve, store, way):
    """Two services go on predicting and are not ready; each fills the store, and both learn on, equal."""
    pair = [serve(REDIS_URL=store.url).start() for _ in range(2)]
    one, other = pair
    one.create("before")
    store.stop()
    copy = store.copy()
    store.start()
    assert 200 == eventually(200, lambda: one.request("GET", "/readyz").status)
    one.create()
    table = rows(60, 5)
    Load([one], table[:40]).run()
    state, version = other.state(), one.get("/models/m")["version"]
    assert state == one.state()
    _empty(store) if way == "empty" else _older(store, copy)
    for service in pair:
        assert (503, False) == eventually((503, False), lambda service=service: _ready(service))
        told = service.request("POST", "/models/m/predict", {"features": table[0].features})
        assert (200, 40) == (told.status, service.get("/models/m")["rows"])
        row = {"features": table[50].features, "label": table[50].label}
        assert "model-lost" == service.request("POST", "/models/m/feedback", row).problem
        assert "the store has lost model m (" in service.log
        assert service.metric("lost_models") >= 1
    answer = other.request("POST", "/refill")
    told = {model["name"]: (model["outcome"], model["stored_version"]) for model in answer.json["models"]}
    assert ("refilled", version) == told["m"]
    assert 200 == one.request("POST", "/refill").status  # it alone holds the other model
    for service in pair:
        assert 200 == eventually(200, lambda service=service: service.request("GET", "/readyz").status)
        assert state == service.state()
    Load(pair, table[40:]).run()
    assert one.state() == other.state()
    assert 60 == one.get("/models/m")["rows"]
    assert 0 == other.get("/models/before")["rows"]
