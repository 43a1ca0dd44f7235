"""GET /stream: a list of models and the service, live; rows a second, and how many challengers are ahead."""

import asyncio

import pytest
import pytest_asyncio

from service.api.live import list_live, producer
from service.errors import StoreDown
from service.runtime.summaries import summary_table
from tests.service.api_fixtures import columnar, features, problem
from tests.service.event_client import EventClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS = "all:s3cret-all:admin,some:s3cret-some:read:own-*,same:s3cret-same:learn:own-*"
ALL, SOME, SAME = ({"X-API-Key": f"s3cret-{who}"} for who in ("all", "some", "same"))
ROW = {"features": features(0), "label": "UP"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Turns follow each other closely, and tables are read for each."""
    monkeypatch.setattr(producer, "TURN_S", 0.02)
    monkeypatch.setattr(producer, "SHARE", 1e9)
    monkeypatch.setattr(summary_table, "REFRESH_S", 0.0)
    monkeypatch.setattr(list_live, "COUNT_S", 0.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listed(start):
    """A service with keys, and a few models."""
    api = await start(api_keys=KEYS)
    for name in ("own-1", "own-2", "other"):
        body = {"algorithm": "dfop", "task": "classification", "features": ["a", "b"], "labels": ["UP", "DOWN"]}
        assert 201 == (await api.ask("PUT", f"/models/{name}", json=body, headers=ALL)).status_code
    return api


def watching(api, query="", headers=ALL):
    return EventClient(api.app, f"/stream{query}", headers)


async def until(client, event, wanted):
    """The next document of an event that is wanted."""
    while True:
        frame = await client.next()
        if frame.event == event and wanted(frame.data):
            return frame.data


def rows(document):
    return {model["name"]: model["rows"] for model in document["models"]}


async def learn(api, name, count=1):
    for _ in range(count):
        assert 200 == (await api.ask("POST", f"/models/{name}/feedback", json=ROW, headers=ALL)).status_code


@pytest.mark.parametrize("query", ["", "?sort=worst", "?sort=rows&limit=2&search=OWN"])
async def test_a_list_is_shown_as_it_changes(listed, query):
    """What the GET answers to the same queries: at first, and after rows that were learned."""
    async with watching(listed, query) as client:
        shown = await until(client, "models", lambda _: True)
        got = await listed.get(f"/models{query}", headers=ALL)
        assert rows(got) == rows(shown)
        assert set(got) == set(shown)
        before = rows(shown)["own-1"]
        await learn(listed, "own-1", 2)
        shown = await until(client, "models", lambda d: rows(d)["own-1"] == before + 2)
        line = next(model for model in shown["models"] if model["name"] == "own-1")
        assert (before + 2, None, 0, 0) == (line["version"], line["drift"], line["challengers"], line["ahead"])


async def test_the_service_is_shown_beside_it(listed):
    """Readiness, models that the key may touch, open streams, rows a second."""
    async with watching(listed) as client, watching(listed, "", SOME) as some:
        shown = await until(client, "service", lambda d: d["streams"] == 2)
        ready = await listed.get("/readyz")
        assert ready == {name: shown[name] for name in ready}
        assert 3 == shown["models"]
        assert 2 == (await until(some, "service", lambda _: True))["models"]
        await listed.ask("DELETE", "/models/gone", headers=ALL)
        await learn(listed, "own-2")
        assert (await until(client, "service", lambda d: d["rows_per_s"]))["rows_per_s"] > 0


async def test_a_key_sees_its_models_only_and_shares_what_it_sees(listed):
    """Two keys of the same models are sent the same documents; another page is another list."""
    live = listed.app.state.context.live
    async with watching(listed, "", SOME) as some, watching(listed, "", SAME) as same, watching(listed) as whole:
        for client in (some, same):
            assert {"own-1", "own-2"} == set(rows(await until(client, "models", lambda _: True)))
        assert 3 == len((await until(whole, "models", lambda _: True))["models"])
        assert 2 == len(live)
        async with watching(listed, "?limit=1", SOME) as first:
            page = await until(first, "models", lambda _: True)
            assert 3 == len(live)
        async with watching(listed, f"?limit=1&cursor={page['next']}", SOME) as second:
            assert {"own-2"} == set(rows(await until(second, "models", lambda _: True)))
    assert 0 == len(live)


async def test_a_store_that_is_down_is_told(listed, monkeypatch):
    """The list stays as it was, the service is shown as it is, and the list goes on once the store answers."""
    engine = listed.app.state.context.engine

    async def down(*_):
        raise StoreDown("the test says so")

    async with watching(listed) as client:
        await until(client, "service", lambda d: d["ready"])
        with monkeypatch.context() as patch:
            patch.setattr(engine.listing, "by_name", down)
            patch.setattr(engine.committer, "store_down", True)
            assert "down" == (await until(client, "service", lambda d: not d["ready"]))["store"]
        await until(client, "service", lambda d: d["ready"])
        await learn(listed, "own-1")
        await until(client, "models", lambda _: True)


async def test_it_ends_when_the_service_stops(start):
    """With a reason, and leaves nothing behind."""
    api = await start()
    async with watching(api, headers={}) as client:
        await until(client, "service", lambda _: True)
        api.app.state.context.places.stop()
        assert {"reason": "stopped"} == await until(client, "end", lambda _: True)
        await client.over()
    assert 0 == len(api.app.state.context.live)


async def test_what_is_no_list_is_refused(listed):
    """As by the GET, before anything is sent."""
    for query, field in (("sort=best", "sort"), ("cursor=~x", "cursor"), ("limit=0", "limit"), ("x=1", "x")):
        problem(await listed.ask("GET", f"/stream?{query}", headers=ALL), 422, field)
    problem(await listed.ask("GET", "/stream"), 401)


async def test_rows_a_second_are_told_by_who_learns_them(start):
    """Of a model in memory, once that has been looked at for a second; not of one that is not."""
    api = await start()
    name = (await api.new()).rpartition("/")[2]

    async def line():
        found = await api.get("/models", params={"search": name, "limit": 1})
        return next(model for model in found["models"] if model["name"] == name)

    await api.post(f"/models/{name}/feedback/batch", {**columnar(300), "labels": ["UP"] * 300})
    await line()
    async with asyncio.timeout(20):
        while (await line())["rows_per_s"] is None:
            await asyncio.sleep(0.05)
    await api.post(f"/models/{name}/feedback/batch", {**columnar(300), "labels": ["UP"] * 300})
    assert (await line())["rows_per_s"] > 0
    api.app.state.context.engine.models._drop(name)
    assert None is (await line())["rows_per_s"]
