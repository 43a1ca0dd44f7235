"""What a GET tells of a model is of one version, also while a thread applies an entry."""

import asyncio
import threading

import pytest

from core.machine import Machine
from service.runtime import threads
from tests.service.api_fixtures import DFOP, columnar

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = 6
WAIT_S = 60
"""Bound of a wait that a failure would leave without an end."""


@pytest.fixture
def half_applied(monkeypatch):
    """Every entry is applied in a thread, which goes on only when told to: (it has learned the rows, it may go on)."""
    learned, go_on, apply = threading.Event(), threading.Event(), Machine.apply

    def applied(machine, entry):
        outcomes = apply(machine, entry)
        learned.set()
        go_on.wait(WAIT_S)
        return outcomes

    monkeypatch.setattr(threads, "THREAD_FLOPS", -1.0)
    monkeypatch.setattr(Machine, "apply", applied)
    yield learned, go_on
    go_on.set()


@pytest.mark.parametrize(
    ("method", "route"), [("GET", "/models/{}"), ("PUT", "/models/{}"), ("GET", "/models/{}/metrics")]
)
async def test_a_read_waits_for_a_half_applied_entry(api, half_applied, method, route):
    """The rows are learned, the version is not reached yet: the read tells of both."""
    learned, go_on = half_applied
    path = await api.new()
    name = path.removeprefix("/models/")
    replica = await api.app.state.context.engine.models.get(name)
    body = {**columnar(ROWS), "labels": ["UP", "DOWN"] * (ROWS // 2)}
    feedback = asyncio.create_task(api.post(f"{path}/feedback/batch", body))
    await asyncio.to_thread(learned.wait, WAIT_S)
    read = asyncio.create_task(api.ask(method, route.format(name), json=DFOP if method == "PUT" else None))
    while not (read.done() or replica.lock._waiters):
        await asyncio.sleep(0)
    go_on.set()
    shown = (await read).json()
    assert 1 == (await feedback)["version"]
    assert (1, ROWS) == (shown["version"], shown["rows"])


async def test_a_list_does_not_wait_for_a_half_applied_entry(api, half_applied):
    """It shows the model as it was before, all of it, and then as it is after."""
    learned, go_on = half_applied
    path = await api.new()
    body = {**columnar(ROWS), "labels": ["UP", "DOWN"] * (ROWS // 2)}
    feedback = asyncio.create_task(api.post(f"{path}/feedback/batch", body))
    await asyncio.to_thread(learned.wait, WAIT_S)
    assert (0, 0, None) == await _listed(api, path)
    assert not feedback.done()
    go_on.set()
    await feedback
    shown = await api.get(path)
    assert (1, ROWS, shown["metrics"]["overall"]["accuracy"]) == await _listed(api, path)


async def _listed(api, path):
    models = (await api.get("/models?limit=1000"))["models"]
    (model,) = [model for model in models if f"/models/{model['name']}" == path]
    return model["version"], model["rows"], model["score"]
