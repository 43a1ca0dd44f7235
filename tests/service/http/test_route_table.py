"""Every route with every kind of key: who is let in, who changes what, and who learns of whose models."""

import asyncio
import re
from itertools import pairwise

import pytest

from service.api.http.keys import SCOPES
from service.api.routes import ROUTES
from service.runtime.replicas.row_meter import RowMeter
from service.store.keys import DRIFT
from tests.alarms import JOINS
from tests.service.api_fixtures import DFOP, features, problem
from tests.service.drift.test_api_drift import raise_alarms
from tests.service.event_client import EventClient, listening
from tests.service.route_table import API, PAGES, ROUTES_OF_ALL, ROUTES_OF_ONE, filled, id_of, routes_of

pytestmark = pytest.mark.usefixtures("alarming")

KEYS = ",".join(f"{who}:s3cret-{who}:{who}" for who in SCOPES) + ",own:s3cret-own:admin:a-*"
OF_OTHERS = re.compile(r"\bb-(?:one|two|none)")
UNLIKE = ("x-request-id", "content-length")
"""Headers that differ from request to request; the text is compared itself."""


def as_(who):
    return {"X-API-Key": f"s3cret-{who}"}


@pytest.fixture(scope="module")
async def guarded(start):
    """A service with keys, a model a-one that has learned, and b-one that has learned something else."""
    api = await start(api_keys=KEYS)
    for name, rows in (("a-one", 5), ("b-one", 9)):
        await api.client.put(f"/models/{name}", json=DFOP, headers=as_("admin"))
        await learn(api, name, rows)
        await ask(api, "PUT /models/{name}/challengers/{challenger}", name, "admin")
        await api.post(f"/models/{name}/predict", {**row(0), "track": True}, headers=as_("admin"))
        await raise_alarms(api, f"/models/{name}", 2, headers=as_("admin"))
        await api.get(f"/models/{name}/drift?consistency=strong", headers=as_("admin"))
    return api


def row(number):
    return {"features": features(number)}


async def learn(api, name, rows):
    for number in range(rows):
        body = {**row(number), "label": ("UP", "DOWN")[number % 2]}
        await api.post(f"/models/{name}/feedback", body, headers=as_("admin"))


async def ask(api, route, name, who, query="", method=None):
    """The answer of a route to a request that it takes; of one without end its first events."""
    own, path = route.split(" ", 1)
    how = API[route].request()
    version = 0
    if "{version}" in path:
        version = (await api.get(f"/models/{name}", headers=as_("admin")))["version"]
    url = filled(path, name, version) + (f"?{query}" if query else "")
    headers = {**how.pop("headers"), **(as_(who) if who else {})}
    return await api.ask(method or own, url, headers=headers, **how)


async def first_events(api, path, who, count=2, **headers):
    """The text of the first events of a stream."""
    async with EventClient(api.app, path, {**as_(who), **headers}) as client:
        assert 200 == client.status, client.body
        for _ in range(count):
            await client.next()
        return client.body.decode()


async def test_every_route_has_a_row(guarded):
    """A route that is added has to say here what it needs, and which request it takes."""
    expected = {tuple(route.split(" ", 1)) for route in API} | {("GET", path) for path in PAGES}
    assert expected == {*routes_of(guarded.app)}
    assert {id_of(route): route.scope for route in ROUTES} == {route: row.scope for route, row in API.items()}


async def test_a_page_is_the_same_for_every_model(guarded):
    """Pages and texts are public, and say nothing of what is there."""
    for path in PAGES.values():
        told = [await guarded.ask("GET", path.replace("{name}", name)) for name in ("b-one", "b-none")]
        assert [200, 200] == [answer.status_code for answer in told], path
        assert told[0].text.replace("b-one", "b-none") == told[1].text
        assert not re.search("a-one|b-one", told[1].text)


async def contents(api):
    """Everything in the store but what services note of themselves."""
    store = api.engine.store.connection
    (keys,) = await store.ask(("KEYS", "*"))
    kept = sorted(key for key in keys if key != b"onepass:sweeper")
    return dict(zip(kept, await store.ask(*(("DUMP", key) for key in kept)), strict=True))


async def settled(api):
    """The contents once what lists show of every model is that of its last row."""
    catalog = api.engine.store.catalog
    behind = True
    while behind:
        await asyncio.sleep(0.02)
        metas = [await catalog.read(name) for name in ("a-one", "b-one")]
        table = (await api.get("/models?sort=rows", headers=as_("admin")))["models"]
        versions = {model["name"]: model["version"] for model in table}
        behind = any({meta.version} != {meta.listed.version, versions[meta.name]} for meta in metas)
    return await contents(api)


async def test_a_read_key_changes_nothing(guarded):
    """Every route with every query and with HEAD: whatever needs more is 403, and the store is unchanged."""
    before = await settled(guarded)
    for route, own in API.items():
        if own.scope not in {"read", "public"}:
            problem(await ask(guarded, route, "a-one", "read"), 403)
        elif own.endless:
            await first_events(guarded, filled(route.split(" ", 1)[1], "a-one"), "read", count=1)
        else:
            for query in own.asked:
                answer = await ask(guarded, route, "a-one", "read", query)
                assert 200 == answer.status_code, (route, query, answer.text)
        if route.startswith("GET "):
            answer = await ask(guarded, route, "a-one", "read", method="HEAD")
            assert (403 if own.scope == "admin" else 200, b"") == (answer.status_code, answer.content), route
    for path, tracked in (
        ("/models/a-one/predict", {"track": True}),
        ("/models/a-one/predict/batch", {"track": True}),
        ("/v2/models/a-one/infer", {"parameters": {"track": True}}),
    ):
        body = {**API[f"POST {path.replace('a-one', '{name}')}"].body, **tracked}
        problem(await guarded.ask("POST", path, json=body, headers=as_("read")), 403)
    assert before == await settled(guarded)


async def test_a_learning_key_learns_and_nothing_else(guarded):
    """What needs admin is 403, and leaves configuration, challengers, snapshots and features as they were."""
    documents = ("", "/challengers", "/snapshots", "/features", "/pending")

    async def standing():
        found = [await guarded.get(f"/models/a-one{part}", headers=as_("admin")) for part in documents]
        return [{**found[0], "updated": None, "info": None}, *found[1:]]

    before = await standing()
    for route, own in API.items():
        if own.scope == "admin":
            problem(await ask(guarded, route, "a-one", "learn"), 403)
    assert before == await standing()
    answer = await ask(guarded, "POST /models/{name}/feedback", "a-one", "learn")
    assert (200, before[0]["rows"] + 1) == (answer.status_code, answer.json()["rows"])


async def test_a_model_of_others_is_403_whether_it_exists_or_not(guarded):
    """Every route that names one, in every form, and a copy to its name: the same answer, to the last header."""
    for route, own in ROUTES_OF_ONE.items():
        for query in own.asked:
            for method in (route.split(" ", 1)[0], "HEAD")[: 2 if route.startswith("GET ") else 1]:
                told = []
                for name in ("b-one", "b-none"):
                    url = filled(route.split(" ", 1)[1], name, 11) + (f"?{query}" if query else "")
                    how = own.request()
                    headers = {**how.pop("headers"), **as_("own"), "X-Request-ID": "same"}
                    answer = await guarded.ask(method, url, headers=headers, **how)
                    assert 403 == answer.status_code, (route, answer.text)
                    headers = [(name, value.replace("b-none", "b-one")) for name, value in answer.headers.items()]
                    told.append((answer.text, sorted(headers)))
                assert told[0] == told[1], route
                assert not OF_OTHERS.search(told[0][0])
    for path in ("/models/a-one/copy", "/drift/stream?model="):
        told = []
        for name in ("b-one", "b-none"):
            if path.endswith("copy"):
                answer = await guarded.ask("POST", path, json={"name": name}, headers=as_("own"))
            else:
                answer = await guarded.ask("GET", path + name, headers=as_("own"))
            told.append(problem(answer, 403)["detail"])
        assert told[0] == told[1]


def still(text):
    """An answer without what changes by itself: the age of a table."""
    return re.sub(r'"age_s":[\d.e-]+', "", text)


async def view(api):
    """All that a key for a-* is told, by route and query."""
    seen = {}
    for route, own in API.items():
        if own.scope in ("read", "public") and not own.endless:
            for query in own.asked:
                answer = await ask(api, route, "a-one", "own", query)
                assert 200 == answer.status_code, (route, query, answer.text)
                headers = {name: value for name, value in answer.headers.items() if name not in UNLIKE}
                seen[route, query] = (still(answer.text), headers)
    for path in ("/drift/stream?model=a-one", "/drift/stream"):
        seen[path] = still(await first_events(api, path, "own", 1))
    return seen


async def stir(api):
    """Everything that can happen to the models of others; their names and incarnations."""
    boss = {"headers": as_("admin")}
    await api.client.put("/models/b-two", json=DFOP, **boss)
    incarnations = [(await api.get(f"/models/{name}", **boss))["incarnation"] for name in ("b-one", "b-two")]
    await learn(api, "b-two", 4)
    await raise_alarms(api, "/models/b-two", 3, **boss)
    await raise_alarms(api, "/models/b-one", 1, **boss)
    for name in ("b-one", "b-two"):
        await api.get(f"/models/{name}/drift?consistency=strong", **boss)
        await api.post(f"/models/{name}/predict", {**row(2), "track": True}, **boss)
        for route in (
            "PUT /models/{name}/challengers/{challenger}",
            "POST /models/{name}/snapshots",
            "PATCH /models/{name}",
        ):
            assert (await ask(api, route, name, "admin")).status_code in (200, 201)
    await ask(api, "POST /models/{name}/challengers/{challenger}/promote", "b-one", "admin")
    await ask(api, "POST /models/{name}/features/switch", "b-two", "admin")
    await ask(api, "POST /models/{name}/copy", "b-one", "admin")
    assert 204 == (await ask(api, "DELETE /models/{name}", "b-two", "admin")).status_code
    assert 204 == (await api.ask("DELETE", "/models/copied", **boss)).status_code
    return incarnations


async def test_what_happens_to_models_of_others_is_not_seen(guarded, monkeypatch):
    """All that a key for a-* can ask and hear is the same before and after, and names nothing of b-*."""
    monkeypatch.setattr(RowMeter, "rate", lambda _self, _now, rows: float(rows))  # a rate that no clock changes
    await settled(guarded)
    before = await view(guarded)
    async with listening(guarded, **as_("own")) as own:
        incarnations = await stir(guarded)
        after = await view(guarded)
        assert {*ROUTES_OF_ALL} <= {key[0] if isinstance(key, tuple) else f"GET {key}" for key in after}
        for key, told in before.items():
            assert told == after[key], key
        for text in map(str, after.values()):
            assert not OF_OTHERS.search(text)
            assert not any(incarnation in text for incarnation in incarnations)
        values = await raise_alarms(guarded, "/models/a-one", 1, headers=as_("admin"))
        assert values == await own.values(1)  # the first that this stream has shown


async def test_addresses_of_events_count_nothing_of_others(guarded):
    """A key for a-* is told times of its own events as addresses, and goes on by them; times of others tell nothing."""
    whole = (await guarded.get("/drift", headers=as_("admin")))["events"]
    ours = [event["id"] for event in whole if event["model"] == "a-one"]
    async with listening(guarded, **as_("own")) as client:
        assert client.start.id == client.start.data["position"]
        await raise_alarms(guarded, "/models/b-one", 2, headers=as_("admin"))
        await guarded.get("/models/b-one/drift", headers=as_("admin"))  # published
        await asyncio.sleep(0.01)  # the times that are tried below, theirs and one later, are before ours
        await raise_alarms(guarded, "/models/a-one", 1, headers=as_("admin"))
        await raise_alarms(guarded, "/models/a-one", 1, JOINS, headers=as_("admin"))
        frames = [await client.next() for _ in range(2)]
    assert ["class_mean", "joined"] == [frame.data["kind"] for frame in frames]
    assert all(frame.id.endswith("-0") for frame in (client.start, *frames))
    for last, following in ((client.start.id, frames), (frames[0].id, frames[1:])):
        async with listening(guarded, last=last, **as_("own")) as again:
            assert [one.id for one in following] == [(await again.next()).id for _ in following]
    page = await guarded.get("/drift?limit=1", headers=as_("own"))
    assert (ours[0], True) == (page["events"][0]["id"], page["next"].endswith("-0"))
    page = await guarded.get("/drift", params={"cursor": page["next"]}, headers=as_("own"))
    assert [*ours[1:], frames[0].data["id"]] == [event["id"] for event in page["events"]]
    theirs = await guarded.app.context.drift.last(lambda event: event.model == "b-one")
    told = [
        await first_events(guarded, "/drift/stream", "own", 2, **{"Last-Event-ID": f"{theirs.position.time_ms + by}-7"})
        for by in (-1, 0, 1)
    ]
    assert 1 == len({*told})


async def test_positions_cannot_be_guessed(guarded):
    """However near a position comes to the newest one of all models: a key for a-* is answered by time alone."""
    newest = await guarded.app.context.drift.newest()
    told = set()
    for number in (newest.number - 1, newest.number, newest.number + 1, newest.number + 1000):
        async with EventClient(
            guarded.app, "/drift/stream", {**as_("own"), "Last-Event-ID": f"{newest.time_ms}-{number}"}
        ) as client:
            assert 200 == client.status
            values = await raise_alarms(guarded, "/models/a-one", 1, headers=as_("admin"))
            while values[0] != (await client.next()).value:
                pass
            told.add("start" in client.body.decode())
    assert {False} == told


async def test_a_key_without_events_begins_at_a_time(start):
    """Of which nothing can be told but that it is past; a stream resumed there misses nothing and says nothing."""
    api = await start(api_keys="all:s3cret-admin:admin,own:s3cret-own:read:q-*")
    for name in ("q-one", "r-one"):
        await api.client.put(f"/models/{name}", json=DFOP, headers=as_("admin"))
    async with listening(api, **as_("own")) as client:
        assert client.start.id.endswith("-0")
    await raise_alarms(api, "/models/r-one", 2, headers=as_("admin"))
    values = await raise_alarms(api, "/models/q-one", 2, headers=as_("admin"))
    async with listening(api, last=client.start.id, **as_("own")) as client:
        assert values == await client.values(2)
    async with listening(api, last="1-1", **as_("own")) as client:
        assert values == await client.values(2)


async def test_a_key_is_told_that_events_may_be_missing_and_no_more(start, monkeypatch):
    """Where the stream has dropped entries after the last one that it was shown, whoever's they were."""
    monkeypatch.setattr("service.app.KEPT", 3)
    api = await start(api_keys="all:s3cret-admin:admin,own:s3cret-own:read:q-*")
    for name in ("q-one", "r-one"):
        await api.client.put(f"/models/{name}", json=DFOP, headers=as_("admin"))
    async with listening(api, **as_("own")) as client:
        await raise_alarms(api, "/models/q-one", 1, headers=as_("admin"))
        known = await client.next()
    await raise_alarms(api, "/models/r-one", 2, headers=as_("admin"))
    values = await raise_alarms(api, "/models/q-one", 1, headers=as_("admin"))
    for name in ("r-one", "q-one"):
        await api.get(f"/models/{name}/drift", headers=as_("admin"))  # published
    # Services of other tests may have published some of them, which keep more.
    await api.engine.store.connection.ask(("XTRIM", DRIFT, "MAXLEN", 3))
    for last in (client.start.id, known.id):
        async with listening(api, last=last, **as_("own")) as client:
            gap = await client.next()
            assert ("gap", None, {"after": None, "first": None, "missed": None}) == (gap.event, gap.id, gap.data)
            assert values == await client.values(1)
    async with listening(api, last=f"{int(known.id.partition('-')[0]) + 10**6}-0", **as_("own")) as client:
        assert "start" == (await client.next()).event
        later = await raise_alarms(api, "/models/q-one", 1, headers=as_("admin"))
        assert later == await client.values(1)


async def test_ids_of_requests_tell_no_number(guarded):
    """Those that the service gives are random: no difference between two of them counts requests of others."""
    given = [(await guarded.ask("GET", "/healthz")).headers["x-request-id"].rpartition("-")[2] for _ in range(20)]
    steps = [abs(int(one, 16) - int(other, 16)) for one, other in pairwise(given)]
    assert 2**40 < min(steps)
