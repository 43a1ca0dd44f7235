"""Drift events as lists and as CSV: of one model, of all; paging, since, freshness; drift before the labels come."""

import asyncio
import csv
import io
import itertools
import json
import logging
from datetime import datetime

import pytest

from service.api.csv_answers import csv_answer, drift_table, guarded
from service.errors import StoreDown
from service.monitor import unlabelled as monitor
from service.store.drift import drift
from tests.alarms import HELD_BACK, JOINS, LOUD
from tests.service.api_fixtures import DFOP, problem
from tests.service.event_client import listening
from tests.service.waiting import until

pytestmark = pytest.mark.usefixtures("alarming")
COUNTER = "onepass_drift_events_total"
_values = itertools.count(int(LOUD))


async def raise_alarms(api, path, count=1, then=0.0, **how):
    """Learn rows in one entry, each of which raises an alarm: ``count`` alike, or as ``then`` lists them; their first
    features.
    """
    kinds = then if isinstance(then, tuple) else (then,) * count
    values = [float(next(_values)) for _ in kinds]
    data = [[*both] for both in zip(values, kinds, strict=True)]
    body = {"columns": ["a", "b"], "data": data, "labels": ["UP"] * len(data)}
    await api.post(f"{path}/feedback/batch", body, **how)
    return values


def told(page):
    return [event["features"][0]["after"] for event in page["events"]]


async def all_pages(api, path, **params):
    """The events of all pages of a list, and the number of pages."""
    pages = await api.pages(path, **params)
    return [event for page in pages for event in page["events"]], len(pages)


async def test_an_event_is_as_the_contract_has_it(api):
    """Names, kinds of values, the id made of incarnation, version and index, and a time like every other."""
    path, counter = await api.new(), (COUNTER, "class_mean")
    before = (await api.scraped())[counter]
    await raise_alarms(api, path)
    page = await api.get(f"{path}/drift")
    assert before + 1.0 == (await api.scraped())[counter]
    model = await api.get(path)
    (event,) = page["events"]
    assert {
        "id": f"{model['incarnation']}-1-0", "model": path.rpartition("/")[2], "kind": "class_mean", "class": "UP",
        "version": 1, "row": 1, "time": model["updated"],
        "features": [{"name": "a", "before": 0.0, "after": event["features"][0]["after"]}], "before": None,
        "after": None, "epsilon_cut": 0.1, "windows": {"before": 90, "after": 30}, "action": "report",
        "challenger": None, "held_back": False, "alarms": [], "alarm_count": 0,
    } == event  # fmt: skip
    assert (None, 1, model["incarnation"]) == (page["next"], page["version"], page["incarnation"])
    assert event in (await api.get("/drift", params={"limit": 1000}))["events"]


async def test_every_kind_of_event_is_counted_from_zero(start):
    """Before its first event: an increase is seen only from a value to another one."""
    counts = {key[1]: count for key, count in (await (await start()).scraped()).items() if COUNTER == key[0]}
    assert dict.fromkeys(["class_mean", "error_rate", "unlabelled"], 0.0) == counts


async def test_later_alarms_are_shown_with_their_event(api, start):
    """In both lists, at every replica, at once; the event keeps its id, and the next one has its own."""
    other = await start()
    path = await api.new()
    await raise_alarms(api, path, 1)
    (before,) = (await api.get(f"{path}/drift"))["events"]
    values = await raise_alarms(api, path, 2, JOINS) + await raise_alarms(other, path, 1, JOINS)
    await raise_alarms(api, path, 1, HELD_BACK)
    for service in (api, other):
        first, second = (await service.get(f"{path}/drift", params={"consistency": "strong"}))["events"]
        assert values == [alarm["features"][0]["after"] for alarm in first["alarms"]]
        assert [("error_rate", "DOWN", row) for row in (2, 3, 4)] == [
            (alarm["kind"], alarm["class"], alarm["row"]) for alarm in first["alarms"]
        ]
        assert before == {**first, "alarms": [], "alarm_count": 0}
        assert [(3, False), (0, True)] == [(event["alarm_count"], event["held_back"]) for event in (first, second)]
        everything, _ = await all_pages(service, "/drift")
        assert [first, second] == [event for event in everything if event["model"] == first["model"]]


async def test_pages_are_in_order_and_complete(api):
    """Oldest first, a page at a time, of one model and of all; no event twice and none left out."""
    path, expected = await api.new(), []
    for count in (3, 1, 4, 2):
        expected += await raise_alarms(api, path, count)
    for limit, pages in ((1, 10), (3, 4), (10, 1)):
        found, number = await all_pages(api, f"{path}/drift", limit=limit)
        assert (expected, pages) == (told({"events": found}), number)
    everything, _ = await all_pages(api, "/drift", limit=3)
    name = path.rpartition("/")[2]
    assert expected == told({"events": [event for event in everything if event["model"] == name]})
    assert len({event["id"] for event in everything}) == len(everything)


async def test_since_a_version_or_a_time(api):
    """A version: what came after it. A time: what came at it or after it, as RFC 3339 or, for all models, in ms."""
    path, values, times = await api.new(), [], []
    for _ in range(3):
        values += await raise_alarms(api, path, 2)
        times.append((await api.get(path))["updated"])
        await asyncio.sleep(0.003)
    for version in range(5):
        page = await api.get(f"{path}/drift", params={"since": version})
        assert values[2 * version :] == told(page)
    for at, time in enumerate(times):
        offset = time.replace("Z", "+00:00")
        for since in (time, offset, offset.replace("+", " "), time.replace("T", " ")):
            assert values[2 * at :] == told(await api.get(f"{path}/drift", params={"since": since}))
            assert values[2 * at :] == told(await api.get("/drift", params={"since": since, "limit": 1000}))[-6:]
    assert [] == (await api.get("/drift", params={"since": "2999-01-01T00:00:00Z"}))["events"]
    assert values[-1] == told(await api.get("/drift", params={"since": 0, "limit": 1000}))[-1]
    assert [] == (await api.get("/drift", params={"since": 2**45}))["events"]
    page = await api.get(f"{path}/drift", params={"since": 1, "limit": 1})
    assert values[3] == told(await api.get(f"{path}/drift", params={"since": 1, "cursor": page["next"]}))[0]


async def test_milliseconds_are_a_time_of_one_model_too(api):
    """A whole number that no version has reached, and that is as large as a time is, is one; others are versions."""
    path = await api.new()
    values = await raise_alarms(api, path, 2)
    at = round(datetime.fromisoformat((await api.get(path))["updated"]).timestamp() * 1000)
    for since in (10**12, at):
        assert values == told(await api.get(f"{path}/drift", params={"since": since}))
    for since in (at + 1, 10**12 - 1, 2**53):
        assert [] == told(await api.get(f"{path}/drift", params={"since": since}))


@pytest.mark.parametrize("since", ["", "yesterday", "-1", "1.5", "2026-01-31", "2026-13-01T00:00:00Z", "9" * 25, "1e3"])
async def test_a_since_that_is_neither_is_refused(api, since):
    """With the field and what may stand there."""
    path = await api.learnt()
    for url in (f"{path}/drift", "/drift"):
        problem(await api.ask("GET", url, params={"since": since}), 422, "since")


async def test_cursors_and_queries_that_cannot_be_are_refused(api):
    """A cursor of another list, a limit out of range, an unknown parameter, freshness of all models."""
    path = await api.learnt()
    for url in (f"{path}/drift", "/drift"):
        for query in ({"cursor": "abc"}, {"cursor": "1"}, {"limit": 0}, {"limit": 1001}, {"before": 1}):
            problem(await api.ask("GET", url, params=query), 422, next(iter(query)))
    for query in ({"min_version": 1}, {"consistency": "strong"}):  # the events of all models are read from the store
        problem(await api.ask("GET", "/drift", params=query), 422, next(iter(query)))


async def test_a_deleted_model_leaves_its_events_with_the_service(api):
    """Its own list goes with it; those of all keep them; its successor begins anew, with another incarnation."""
    path = await api.new()
    first = await raise_alarms(api, path, 2)
    before = (await api.get(f"{path}/drift"))["incarnation"]
    assert 204 == (await api.ask("DELETE", path)).status_code
    problem(await api.ask("GET", f"{path}/drift"), 404)
    assert 201 == (await api.ask("PUT", path, json=DFOP)).status_code
    assert [] == (await api.get(f"{path}/drift"))["events"]
    second = await raise_alarms(api, path, 1)
    page = await api.get(f"{path}/drift")
    assert (second, True) == (told(page), page["incarnation"] != before)
    everything, _ = await all_pages(api, "/drift")
    name = path.rpartition("/")[2]
    assert first + second == told({"events": [event for event in everything if event["model"] == name]})


async def test_the_newest_may_come_first(api):
    """The same events, the other way round, in pages of any length, from a version on or from a time."""
    path = await api.new()
    for count in (2, 1, 3):
        await raise_alarms(api, path, count)
    oldest = (await api.get(f"{path}/drift"))["events"]
    for limit in (1, 4, 6, 100):
        assert oldest[::-1] == (await all_pages(api, f"{path}/drift", order="newest", limit=limit))[0]
    since = {"since": 1, "order": "newest"}
    assert oldest[:1:-1] == (await all_pages(api, f"{path}/drift", limit=2, **since))[0]
    future = {"since": "2999-01-01T00:00:00Z", "order": "newest"}
    assert [] == (await api.get(f"{path}/drift", params=future))["events"]
    problem(await api.ask("GET", f"{path}/drift", params={"order": "best"}), 422, "order")


async def table(api, path, **query):
    """The rows of an answer as CSV, by column, and the answer."""
    answer = await api.ask("GET", path, params={"format": "csv", **query})
    assert (200, "text/csv; charset=utf-8; header=present") == (answer.status_code, answer.headers["content-type"])
    return [*csv.DictReader(io.StringIO(answer.text, newline=""))], answer


def text(row):
    """The cells of an object as they are written."""
    return {name: "" if value is None else str(value) for name, value in row.items()}


async def test_the_history_is_a_table(api):
    """With its baselines; one column where nothing has been learned."""
    path = await api.learnt(rows=60)
    rows, answer = await table(api, f"{path}/metrics")
    assert [*map(text, (await api.get(f"{path}/metrics"))["history"])] == rows
    assert {"row", "accuracy", "no_change"} <= set(rows[0])
    assert f'attachment; filename="{path.rpartition("/")[2]}-history.csv"' == answer.headers["content-disposition"]
    assert "row\r\n" == (await table(api, f"{await api.new()}/metrics"))[1].text


async def test_drift_is_a_table(api):
    """A row for each event, pages as in JSON."""
    path = await api.learnt(rows=4)
    await raise_alarms(api, path, 2)
    await raise_alarms(api, path, 1, JOINS)
    shown = await api.get(f"{path}/drift")
    rows, _ = await table(api, f"{path}/drift")
    assert [(event["id"], path.rpartition("/")[2], str(event["row"]), "UP") for event in shown["events"]] == [
        (r["id"], r["model"], r["row"], r["class"]) for r in rows
    ]
    assert [("90", "30", "0"), ("90", "30", "1")] == [
        (row["windows_before"], row["windows_after"], row["alarm_count"]) for row in rows
    ]
    assert rows == [row for row in (await table(api, "/drift", limit=1000))[0] if row["id"] in {r["id"] for r in rows}]
    first, answer = await table(api, f"{path}/drift", limit=1)
    following = answer.headers["onepass-next"]
    assert (rows[:1], (await api.get(f"{path}/drift?limit=1"))["next"]) == (first, following)
    rest, answer = await table(api, f"{path}/drift", cursor=following)
    assert (rows[1:], None) == (rest, answer.headers.get("onepass-next"))


async def test_other_documents_are_json(api):
    """Refused, and the query is named; so is another format."""
    path = await api.shared()
    lists = ("log", "pending", "snapshots", "challengers")
    for asked in ("/models?format=csv", *(f"{path}/{one}?format=csv" for one in lists), f"{path}/metrics?format=xls"):
        problem(await api.ask("GET", asked), 422, "format")


async def test_text_is_no_formula():
    """What a spreadsheet would run is quoted; numbers stay numbers, and a list is written as JSON."""
    for cell in ("=1+1", "+1", "-x", "@a", "\tx", "\rx"):
        assert f"'{cell}" == guarded(cell)
    for cell in ("a=1", "", -1.5, None):
        assert cell == guarded(cell)
    assert ("true", '[{"name":"=a"}]') == (guarded(True), guarded([{"name": "=a"}]))


async def test_names_of_users_are_guarded():
    """The class of an event is a label, which is a user's word."""
    answer = await csv_answer(
        json.dumps({"events": [{"id": "e", "class": "=HYPERLINK(1)"}]}).encode(), drift_table, "m"
    )
    [row] = csv.DictReader(io.StringIO(bytes(answer.body).decode(), newline=""))
    assert ("e", "'=HYPERLINK(1)") == (row["id"], row["class"])


async def test_generated_clients_are_told_of_json_alone(api):
    """A second media type would make the type of each answer a union; the descriptions tell of CSV instead."""
    paths = (await api.get("/openapi.json"))["paths"]
    told = [path for path, route in paths.items() if "format=csv" in route.get("get", {}).get("description", "")]
    assert {"/drift", "/models/{name}/drift", "/models/{name}/metrics"} == set(told)
    for path in told:
        assert ["application/json"] == [*paths[path]["get"]["responses"]["200"]["content"]]


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


async def test_a_cool_down_holds_back_drifts_without_labels(api, monkeypatch):
    """They are listed, and webhooks do not get them."""
    monkeypatch.setattr(drift, "UNLABELLED_PAUSE_MS", 0)
    path = await api.new({**DFOP, "watch": {**WATCH, "episode_rows": 0, "cooldown_rows": 1000}})
    for a in (0.0, 5.0, 50.0):
        await track(api, path, 60, a)
    for listed in (f"{path}/drift", "/drift"):
        events = (await api.get(listed))["events"]
        held = [event["held_back"] for event in events if f"/models/{event['model']}" == path]
        assert [False, *[True] * (len(held) - 1)] == held
        assert len(held) > 1


async def test_a_poll_with_the_last_version_gets_drifts_without_labels(api):
    """They come while the version stays; alarms of that version, which are known by then, are not repeated."""
    path = await api.new({**DFOP, "watch": WATCH})
    await raise_alarms(api, path)
    version = (await api.get(f"{path}/drift"))["version"]
    for a in (0.0, 5.0):
        await track(api, path, 60, a)

    async def poll(since):
        return [event["kind"] for event in (await api.get(f"{path}/drift", params={"since": since}))["events"]]

    assert ["unlabelled"] == await until(lambda: poll(version))
    assert [["class_mean", "unlabelled"], []] == [await poll(since) for since in (version - 1, version + 1)]


async def test_nothing_is_watched_unasked(api):
    """Off by default, and for rows that are not tracked."""
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
    watched = api.app.context.note_unlabelled.__self__
    assert 2 == len(watched._watches)
    for path in paths[::-1]:  # the first one has been forgotten: its rows are new, and those of the last are not
        await track(api, path, 40, 5.0)
    assert [0, 1, 1] == [len((await api.get(f"{path}/drift"))["events"]) for path in paths]


async def test_a_hint_that_the_store_does_not_take_is_dropped(api, monkeypatch, caplog):
    """Nobody waits for it, and the next one is told."""
    caplog.set_level(logging.INFO)
    path = await api.new({**DFOP, "watch": {**WATCH, "episode_rows": 0}})
    await track(api, path, 60, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(api.app.context.drift, "add_unlabelled", refusing)
        await track(api, path, 40, 5.0)
    await track(api, path, 60, -5.0)
    assert 1 == len((await api.get(f"{path}/drift"))["events"])
    assert "could not report" in caplog.text


async def refusing(*_):
    """A store that is away."""
    raise StoreDown("the store does not answer")


async def test_events_of_both_kinds_have_one_order(api, monkeypatch):
    """Pages of a model hold both, by version; nothing is left out or repeated."""
    monkeypatch.setattr(drift, "UNLABELLED_PAUSE_MS", 0)
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
