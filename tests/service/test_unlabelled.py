"""Drift that shows before the labels come: asked for, told in lists, streams and webhooks, and no part of the model."""

import logging

from service.errors import StoreDown
from service.monitor import unlabelled as monitor
from service.store.drift import drift
from tests.service.api_fixtures import DFOP, problem
from tests.service.event_client import listening

WATCH = {"unlabelled": True, "class_mean": {"batch_size": 20}, "error_rate": None}


async def track(api, path, count, a):
    """Tracked predictions around a value of the first feature, which cycles a little."""
    for at in range(count):
        features = {"a": a + (at * 7 % 10) / 10, "b": (at * 3 % 10) / 10}
        await api.post(f"{path}/predict", {"features": features, "track": True})


async def test_drift_shows_without_a_label(start):
    """The features that moved, as an event of every list and of the stream; the model knows nothing of it."""
    api, other = await start(), await start()
    path = await api.new({**DFOP, "watch": WATCH})
    before = await api.state(path)
    async with listening(api) as client:
        await track(api, path, 60, 0.0)
        assert [] == (await api.get(f"{path}/drift"))["events"]
        await track(api, path, 40, 5.0)
        frame = await client.next()
    model = await api.get(path)
    (event,) = (await api.get(f"{path}/drift"))["events"]
    assert event == frame.data
    expected = {"kind": "unlabelled", "class": None, "action": "report", "version": 0, "row": 0}
    assert expected.items() <= event.items()
    assert event["id"].startswith(f"{model['incarnation']}-0-")
    assert ["a"] == [change["name"] for change in event["features"]]
    assert ([], 0, None, False) == (event["alarms"], event["alarm_count"], event["challenger"], event["held_back"])
    assert event in (await other.get("/drift", params={"limit": 1000}))["events"]
    assert [event] == (await other.get(f"{path}/drift"))["events"]
    assert before == await api.state(path)
    assert 'onepass_drift_events_total{kind="unlabelled"} 1.0' in (await api.ask("GET", "/metrics")).text
    async with listening(other, last=client.start.id) as again:
        assert event == (await again.next()).data


async def test_nothing_is_watched_unasked(start):
    """Off by default, and for rows that are not tracked."""
    api = await start()
    unasked, untracked = await api.new(DFOP), await api.new({**DFOP, "watch": WATCH})
    for a in (0.0, 5.0):
        await track(api, unasked, 60, a)
        for at in range(60):
            await api.post(f"{untracked}/predict", {"features": {"a": a + at % 7, "b": 0.0}})
    for path in (unasked, untracked):
        assert [] == (await api.get(f"{path}/drift"))["events"]


async def test_few_models_are_watched_at_a_time(start, monkeypatch):
    """Those whose rows came last; the watch of another one begins anew."""
    monkeypatch.setattr(monitor, "MODELS_MAX", 2)
    api = await start()
    paths = [await api.new({**DFOP, "watch": WATCH}) for _ in range(3)]
    for path in paths:
        await track(api, path, 60, 0.0)
    watched = api.app.context.unlabelled
    assert 2 == len(watched._watches)
    for path in paths[::-1]:  # the first one has been forgotten: its rows are new, and those of the last are not
        await track(api, path, 40, 5.0)
    assert [0, 1, 1] == [len((await api.get(f"{path}/drift"))["events"]) for path in paths]


async def test_a_hint_that_the_store_does_not_take_is_dropped(start, monkeypatch, caplog):
    """Nobody waits for it, and the next one is told."""
    caplog.set_level(logging.INFO)
    api = await start()
    path = await api.new({**DFOP, "watch": {**WATCH, "episode_rows": 0}})
    await track(api, path, 60, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(api.app.context.drift, "_run", refusing)
        await track(api, path, 40, 5.0)
    await track(api, path, 60, -5.0)
    assert 1 == len((await api.get(f"{path}/drift"))["events"])
    assert "could not report" in caplog.text


async def refusing(_):
    """A store that is away."""
    raise StoreDown("the store does not answer")


async def test_events_of_both_kinds_have_one_order(start, monkeypatch):
    """Pages of a model hold both, by version; nothing is left out or repeated."""
    monkeypatch.setattr(drift, "UNLABELLED_PAUSE_MS", 0)
    api = await start()
    path = await api.new({**DFOP, "watch": {**WATCH, "episode_rows": 0}})
    for a in (0.0, 5.0, 0.0):
        rows = [[a + (at * 7 % 10) / 10, (at * 3 % 10) / 10] for at in range(80)]
        await api.post(f"{path}/feedback/batch", {"columns": ["a", "b"], "data": rows, "labels": ["UP"] * 80})
        await track(api, path, 60, a)
    whole = (await api.get(f"{path}/drift"))["events"]
    assert {"unlabelled", "class_mean"} == {event["kind"] for event in whole}
    assert sorted(event["version"] for event in whole) == [event["version"] for event in whole]
    assert whole == [event for page in await api.pages(f"{path}/drift", limit=1) for event in page["events"]]
    assert 204 == (await api.ask("DELETE", path)).status_code
    problem(await api.ask("GET", f"{path}/drift"), 404)
