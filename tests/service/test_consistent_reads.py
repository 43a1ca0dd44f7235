"""What a GET tells of a model is of one version, also while a thread applies an entry."""

import asyncio
import threading
import time

import pytest

from core.entry import Entry, Switch
from core.model.apply import apply
from service.runtime import threads
from service.runtime.replicas import batches as applying
from service.store.drift.events import StoredEvent, StreamPosition
from tests.service.api_fixtures import DFOP, columnar
from tests.service.switches import NEW, label, overlapping, table

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = 6
BATCHES = 30
WAIT_S = 60
"""Bound of a wait that a failure would leave without an end."""


@pytest.fixture
def half_applied(monkeypatch):
    """Every entry is applied in a thread, which goes on only when told to: (it has learned the rows, it may go on)."""
    learned, go_on, apply = threading.Event(), threading.Event(), applying.apply

    def applied(model, entry):
        outcomes = apply(model, entry)
        learned.set()
        go_on.wait(WAIT_S)
        return outcomes

    monkeypatch.setattr(threads, "THREAD_FLOPS", -1.0)
    monkeypatch.setattr(applying, "apply", applied)
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
    replica = await api.engine.models.get(name)
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
    model = _line(await api.get("/models?limit=1000"), path)
    return model["version"], model["rows"], model["score"]


def _line(listed, path):
    (model,) = [model for model in listed["models"] if f"/models/{model['name']}" == path]
    return model


async def test_weights_are_of_the_features_of_their_version(api):
    """Those of the features in use when the model is read, not of those when the request came."""
    path = await overlapping(api)
    replica = await api.engine.models.get(path.removeprefix("/models/"))
    async with replica.lock:
        read = asyncio.create_task(api.get(f"{path}/weights"))
        while not (read.done() or replica.lock._waiters):
            await asyncio.sleep(0)
        apply(replica.model, Entry(replica.version + 1, 1, (Switch("complete"),)))
    weights = (await read)["weights"]
    assert [NEW, NEW] == [[*of] for of in weights.values()]


async def test_the_drift_events_of_a_model_are_of_the_version_told(api, monkeypatch):
    """What another service has found before the labels of later versions is shown with these versions."""
    path = await api.learnt(rows=3)
    shown = await api.get(f"{path}/drift")
    events = [
        StoredEvent(
            StreamPosition(version, 10**9), path.removeprefix("/models/"), f"e{version}", 1, b'{"version":%d}' % version
        )
        for version in (1, 3, 4, 9)
    ]

    async def unlabelled(*_):
        return events

    monkeypatch.setattr(api.app.context.drift, "unlabelled", unlabelled)
    found = await api.get(f"{path}/drift")
    assert (shown["version"], None) == (found["version"], found["next"])
    assert [1, 3] == [event["version"] for event in found["events"]]


async def test_every_read_beside_applies_in_threads_is_of_one_version(api, monkeypatch):
    """Rows, overlap rows and scores are functions of the version: each read is looked at."""
    apply = applying.apply

    def slowly(model, entry):
        outcomes = apply(model, entry)
        time.sleep(0.002)  # the rows are there, the version is not yet
        return outcomes

    monkeypatch.setattr(threads, "THREAD_FLOPS", -1.0)
    monkeypatch.setattr(applying, "apply", slowly)
    path = await overlapping(api, rows=0)
    first = await api.get(path)
    begun, rows_before = first["version"], first["rows"]
    reads, over = [], asyncio.Event()

    async def read(route):
        while not over.is_set():
            found = await api.get(f"{path}{route}" if route != "list" else "/models?limit=1000")
            reads.append((route, found if route != "list" else _line(found, path)))
            await asyncio.sleep(0)

    readers = [asyncio.create_task(read(route)) for route in ("", "/metrics", "/features", "list")]
    for step in range(BATCHES):
        rows = range(step * ROWS, (step + 1) * ROWS)
        await api.post(f"{path}/feedback/batch", {**table(rows), "labels": [label(number) for number in rows]})
    over.set()
    await asyncio.gather(*readers)
    assert {"", "/metrics", "/features", "list"} == {route for route, _ in reads}
    assert 1 < len({found["version"] for _, found in reads})
    scores, latest = {}, {}
    for route, found in reads:
        steps = found["version"] - begun
        assert latest.get(route, 0) <= found["version"]
        latest[route] = found["version"]
        if steps < 0:  # a list may tell what was known before
            assert "list" == route
        elif route == "/features":
            assert steps * ROWS == found["overlap_rows"]
        else:
            assert rows_before + steps * ROWS == found["rows"]
            score = found["score"] if route == "list" else found.get("metrics", found)["overall"]["accuracy"]
            assert score == scores.setdefault(found["version"], score)
