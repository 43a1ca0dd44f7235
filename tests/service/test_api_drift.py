"""Drift events as lists: of one model, of all; paging, since, freshness, keys, deletion."""

import asyncio
import itertools
from datetime import datetime

import pytest

from tests.alarms import HELD_BACK, JOINS, LOUD
from tests.service.api_fixtures import DFOP, problem

pytestmark = pytest.mark.usefixtures("alarming")
_values = itertools.count(int(LOUD))


async def raise_alarms(api, path, count=1, then=0.0, **how):
    """Learn ``count`` rows in one entry, each of which raises an alarm; their first features."""
    values = [float(next(_values)) for _ in range(count)]
    body = {"columns": ["a", "b"], "data": [[value, then] for value in values], "labels": ["UP"] * count}
    await api.post(f"{path}/feedback/batch", body, **how)
    return values


def told(page):
    return [event["features"][0]["after"] for event in page["events"]]


@pytest.fixture(scope="module")
async def watched(start):
    """A service, an empty list of events at the beginning."""
    return await start()


async def all_pages(api, path, **params):
    """The events of all pages of a list, and the number of pages."""
    pages = await api.pages(path, **params)
    return [event for page in pages for event in page["events"]], len(pages)


async def test_an_event_is_as_the_contract_has_it(watched):
    """Names, kinds of values, the id made of incarnation, version and index, and a time like every other."""
    path = await watched.new()
    await raise_alarms(watched, path)
    page = await watched.get(f"{path}/drift")
    model = await watched.get(path)
    (event,) = page["events"]
    assert {
        "id": f"{model['incarnation']}-1-0",
        "model": path.rpartition("/")[2],
        "kind": "class_mean",
        "class": "UP",
        "version": 1,
        "row": 1,
        "time": model["updated"],
        "features": [{"name": "a", "before": 0.0, "after": event["features"][0]["after"]}],
        "before": None,
        "after": None,
        "epsilon_cut": 0.1,
        "windows": {"before": 90, "after": 30},
        "action": "report",
        "challenger": None,
        "held_back": False,
        "alarms": [],
        "alarm_count": 0,
    } == event
    assert (None, 1, model["incarnation"]) == (page["next"], page["version"], page["incarnation"])
    assert event in (await watched.get("/drift", params={"limit": 1000}))["events"]


async def test_later_alarms_are_shown_with_their_event(watched, start):
    """In both lists, at every replica, at once; the event keeps its id, and the next one has its own."""
    other = await start()
    path = await watched.new()
    await raise_alarms(watched, path, 1)
    (before,) = (await watched.get(f"{path}/drift"))["events"]
    values = await raise_alarms(watched, path, 2, JOINS) + await raise_alarms(other, path, 1, JOINS)
    await raise_alarms(watched, path, 1, HELD_BACK)
    for api in (watched, other):
        first, second = (await api.get(f"{path}/drift", params={"consistency": "strong"}))["events"]
        assert values == [alarm["features"][0]["after"] for alarm in first["alarms"]]
        assert [("error_rate", "DOWN", row) for row in (2, 3, 4)] == [
            (alarm["kind"], alarm["class"], alarm["row"]) for alarm in first["alarms"]
        ]
        assert before == {**first, "alarms": [], "alarm_count": 0}
        assert [(3, False), (0, True)] == [(event["alarm_count"], event["held_back"]) for event in (first, second)]
        everything, _ = await all_pages(api, "/drift")
        assert [first, second] == [event for event in everything if event["model"] == first["model"]]


async def test_pages_are_in_order_and_complete(watched):
    """Oldest first, a page at a time, of one model and of all; no event twice and none left out."""
    path, expected = await watched.new(), []
    for count in (3, 1, 4, 2):
        expected += await raise_alarms(watched, path, count)
    for limit, pages in ((1, 10), (3, 4), (10, 1)):
        found, number = await all_pages(watched, f"{path}/drift", limit=limit)
        assert (expected, pages) == (told({"events": found}), number)
    everything, _ = await all_pages(watched, "/drift", limit=3)
    name = path.rpartition("/")[2]
    assert expected == told({"events": [event for event in everything if event["model"] == name]})
    assert len({event["id"] for event in everything}) == len(everything)


async def test_since_a_version_or_a_time(watched):
    """A version: what came after it. A time: what came at it or after it, as RFC 3339 or, for all models, in ms."""
    path, values, times = await watched.new(), [], []
    for _ in range(3):
        values += await raise_alarms(watched, path, 2)
        times.append((await watched.get(path))["updated"])
        await asyncio.sleep(0.003)
    for version in range(5):
        page = await watched.get(f"{path}/drift", params={"since": version})
        assert values[2 * version :] == told(page)
    for at, time in enumerate(times):
        offset = time.replace("Z", "+00:00")
        for since in (time, offset, offset.replace("+", " "), time.replace("T", " ")):
            assert values[2 * at :] == told(await watched.get(f"{path}/drift", params={"since": since}))
            assert values[2 * at :] == told(await watched.get("/drift", params={"since": since, "limit": 1000}))[-6:]
    assert [] == (await watched.get("/drift", params={"since": "2999-01-01T00:00:00Z"}))["events"]
    assert values[-1] == told(await watched.get("/drift", params={"since": 0, "limit": 1000}))[-1]
    assert [] == (await watched.get("/drift", params={"since": 2**45}))["events"]
    page = await watched.get(f"{path}/drift", params={"since": 1, "limit": 1})
    assert values[3] == told(await watched.get(f"{path}/drift", params={"since": 1, "cursor": page["next"]}))[0]


async def test_milliseconds_are_a_time_of_one_model_too(watched):
    """A whole number that no version has reached, and that is as large as a time is, is one; others are versions."""
    path = await watched.new()
    values = await raise_alarms(watched, path, 2)
    at = round(datetime.fromisoformat((await watched.get(path))["updated"]).timestamp() * 1000)
    for since in (10**12, at):
        assert values == told(await watched.get(f"{path}/drift", params={"since": since}))
    for since in (at + 1, 10**12 - 1, 2**53):
        assert [] == told(await watched.get(f"{path}/drift", params={"since": since}))


@pytest.mark.parametrize("since", ["", "yesterday", "-1", "1.5", "2026-01-31", "2026-13-01T00:00:00Z", "9" * 25, "1e3"])
async def test_a_since_that_is_neither_is_refused(watched, since):
    """With the field and what may stand there."""
    path = await watched.learnt()
    for url in (f"{path}/drift", "/drift"):
        problem(await watched.ask("GET", url, params={"since": since}), 422, "since")


async def test_cursors_and_queries_that_cannot_be_are_refused(watched):
    """A cursor of another list, a limit out of range, an unknown parameter, freshness of all models."""
    path = await watched.learnt()
    for url in (f"{path}/drift", "/drift"):
        for query in ({"cursor": "abc"}, {"cursor": "1"}, {"limit": 0}, {"limit": 1001}, {"before": 1}):
            problem(await watched.ask("GET", url, params=query), 422, next(iter(query)))
    for query in ({"min_version": 1}, {"consistency": "strong"}):  # the events of all models are read from the store
        problem(await watched.ask("GET", "/drift", params=query), 422, next(iter(query)))


async def test_a_deleted_model_leaves_its_events_with_the_service(watched):
    """Its own list goes with it; those of all keep them; its successor begins anew, with another incarnation."""
    path = await watched.new()
    first = await raise_alarms(watched, path, 2)
    before = (await watched.get(f"{path}/drift"))["incarnation"]
    assert 204 == (await watched.ask("DELETE", path)).status_code
    problem(await watched.ask("GET", f"{path}/drift"), 404)
    assert 201 == (await watched.ask("PUT", path, json=DFOP)).status_code
    assert [] == (await watched.get(f"{path}/drift"))["events"]
    second = await raise_alarms(watched, path, 1)
    page = await watched.get(f"{path}/drift")
    assert (second, True) == (told(page), page["incarnation"] != before)
    everything, _ = await all_pages(watched, "/drift")
    name = path.rpartition("/")[2]
    assert first + second == told({"events": [event for event in everything if event["model"] == name]})


async def test_the_newest_may_come_first(watched):
    """The same events, the other way round, in pages of any length, from a version on or from a time."""
    path = await watched.new()
    for count in (2, 1, 3):
        await raise_alarms(watched, path, count)
    oldest = (await watched.get(f"{path}/drift"))["events"]
    for limit in (1, 4, 6, 100):
        assert oldest[::-1] == (await all_pages(watched, f"{path}/drift", order="newest", limit=limit))[0]
    since = {"since": 1, "order": "newest"}
    assert oldest[:1:-1] == (await all_pages(watched, f"{path}/drift", limit=2, **since))[0]
    future = {"since": "2999-01-01T00:00:00Z", "order": "newest"}
    assert [] == (await watched.get(f"{path}/drift", params=future))["events"]
    problem(await watched.ask("GET", f"{path}/drift", params={"order": "best"}), 422, "order")
