"""What a GET tells of a model is of one version, also while a thread applies an entry."""

import asyncio
import threading

import pytest

from core.entry import Entry, Switch
from core.model.apply import apply
from service.runtime import threads
from service.runtime.replicas import batches as applying
from service.store.drift.events import StoredEvent, StreamPosition
from tests.service.api_fixtures import DFOP, columnar
from tests.service.switches import NEW, overlapping
from tests.service.waiting import until

ROWS = 6
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
    ("method", "route", "told"),
    [
        ("GET", "/models/{}", {"rows": ROWS}),
        ("PUT", "/models/{}", {"rows": ROWS}),
        ("GET", "/models/{}/metrics", {"rows": ROWS}),
        ("GET", "/models/{}/features", {"phase": "steady"}),
    ],
)
async def test_a_read_waits_for_a_half_applied_entry(api, half_applied, method, route, told):
    """The rows are learned, the version is not reached yet: the read tells of both."""
    learned, go_on = half_applied
    path = await api.new()
    name = path.removeprefix("/models/")
    replica = await api.engine.models.get(name)
    body = {**columnar(ROWS), "labels": ["UP", "DOWN"] * (ROWS // 2)}
    feedback = asyncio.create_task(api.post(f"{path}/feedback/batch", body))
    await asyncio.to_thread(learned.wait, WAIT_S)
    read = asyncio.create_task(api.ask(method, route.format(name), json=DFOP if method == "PUT" else None))
    await until(lambda: read.done() or replica.lock._waiters)
    go_on.set()
    shown = (await read).json()
    assert 1 == (await feedback)["version"]
    assert {**told, "version": 1}.items() <= shown.items()


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
    listed = (await api.get("/models?limit=1000"))["models"]
    (model,) = [model for model in listed if f"/models/{model['name']}" == path]
    return model["version"], model["rows"], model["score"]


async def test_weights_are_of_the_features_of_their_version(api):
    """Those of the features in use when the model is read, not of those when the request came."""
    path = await overlapping(api)
    replica = await api.engine.models.get(path.removeprefix("/models/"))
    async with replica.lock:
        read = asyncio.create_task(api.get(f"{path}/weights"))
        await until(lambda: read.done() or replica.lock._waiters)
        apply(replica.model, Entry(replica.version + 1, 1, (Switch("complete"),)))
    weights = (await read)["weights"]
    assert [NEW, NEW] == [[*of] for of in weights.values()]


async def test_the_drift_events_of_a_model_are_of_the_version_told(api, monkeypatch):
    """What another service has found before the labels of later versions is shown with these versions."""
    path = await api.learnt(rows=3)
    shown = await api.get(f"{path}/drift")
    name, events = path.removeprefix("/models/"), []
    for version in (1, 3, 4, 9):
        place, document = StreamPosition(version, 10**9), b'{"version":%d}' % version
        events.append(StoredEvent(place, name, f"e{version}", 1, document))

    async def unlabelled(*_):
        return events

    monkeypatch.setattr(api.app.context.drift, "unlabelled", unlabelled)
    found = await api.get(f"{path}/drift")
    assert (shown["version"], None) == (found["version"], found["next"])
    assert [1, 3] == [event["version"] for event in found["events"]]


async def test_an_incarnation_that_a_service_has_not_heard_of_is_looked_up(start, monkeypatch):
    """A client that names the new model reads it at every service; one that names the old model gets 409."""
    one, other = await start(), await start()
    path = await one.new()
    old = (await other.get(path))["incarnation"]
    monkeypatch.setattr(other.engine.models, "peek", lambda _: None)  # its follower passes over all notices
    await one.ask("DELETE", path)
    new = (await one.ask("PUT", path, json=DFOP)).json()["incarnation"]
    assert new == (await other.get(path, params={"incarnation": new}))["incarnation"]
    refused = await other.ask("GET", path, params={"incarnation": old})
    assert (409, True) == (refused.status_code, new in refused.json()["detail"])


async def test_a_model_created_while_it_is_not_found_is_not_suggested(api, monkeypatch):
    """The 404 never asks whether the very name was meant that it has not found."""

    async def names(*_, **__):
        return [("late", "1"), ("later", "2")], None

    monkeypatch.setattr(api.engine.store.catalog, "names", names)
    found = (await api.ask("GET", "/models/late")).json()
    assert "there is no model late; did you mean later?" == found["detail"]
    assert ["later"] == found["errors"][0]["allowed"]
