"""Crashes while a large state is imported: it is restored completely or not at all."""

import threading

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, save
from core.model.apply import apply
from tests.faults.processes import BROKEN, eventually
from tests.faults.rebuild import bare

CONFIG = {"algorithm": "rls", "task": "regression", "features": [f"x{i}" for i in range(1100)]}


@pytest.fixture(scope="module")
def state():
    """A state in several pieces that has learned three rows."""
    model = Model.first(Config.parse(CONFIG))
    X = np.random.default_rng(0).normal(size=(3, 1100))
    apply(model, Entry(1, 0, (Rows(model.prediction_schema.id, None, X, np.arange(3.0)),)))
    return save.to_bytes(model)


def put(service, state):
    """The status of an import; None if the connection broke."""
    try:
        return service.request("PUT", "/models/m/state", state, **{"Content-Type": "application/octet-stream"}).status
    except BROKEN:
        return None


def pieces(store):
    """Keys of states in the store, and whether each expires."""
    with store.client() as client:
        return {key: client.pttl(key) > 0 for key in client.scan_iter(match="*:state:*")}


@pytest.mark.slow
def test_a_service_that_dies_while_writing_the_pieces_leaves_the_model_unchanged(pair, store, state):
    """The written pieces expire; a retry restores the state, here and in a service that follows."""
    first, second = pair
    first.create(**CONFIG)
    before = second.state()
    importing = threading.Thread(target=put, args=(first, state))
    importing.start()
    assert eventually(True, lambda: bool(pieces(store)))
    first.kill()
    importing.join()
    if second.get("/models/m?consistency=strong")["version"] == 0:  # otherwise it was already appended
        assert {True} == {*pieces(store).values()}
        assert before == second.state()
    first.start()
    assert 200 == put(first, state)
    assert bare(first.state()) == bare(second.state())
    assert 3 == second.get("/models/m")["rows"]
    assert {False} == {*pieces(store).values()}


@pytest.mark.slow_but("applied")
@pytest.mark.parametrize("point", ["appended", "applied"])
def test_a_service_that_dies_after_the_append_has_restored_the_state(serve, state, point):
    """No client got an answer; the log names the state, and the next start reads it."""
    service = serve().start(FAILPOINT=f"{point}:1")
    service.create(**CONFIG)
    assert put(service, state) is None
    assert -9 == service.died()
    service.start()
    shown = service.get("/models/m")
    assert (1, 3, "import") == (shown["version"], shown["rows"], shown["metrics"]["marks"][-1]["kind"])
    assert 200 == put(service, state)
    assert (2, 3) == (service.get("/models/m")["version"], service.get("/models/m")["rows"])
