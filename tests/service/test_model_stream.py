"""GET /models/{name}/stream: the documents of a model, first all of them, then those that change; and its end."""

import asyncio
import json
import threading

import pytest
import pytest_asyncio

from service.api import documents
from service.api.live import model_live, producer, routes, viewers
from service.api.live.producer import Live, Producer
from service.api.live.viewers import Viewer
from service.errors import StoreDown
from service.runtime.stream_places import StreamPlaces
from service.runtime.threads import THREAD_BYTES
from tests.service.api_fixtures import features, problem
from tests.service.event_client import EventClient
from tests.service.test_api_drift import raise_alarms

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("alarming")]

GETS = {
    "model": "",
    "metrics": "/metrics",
    "features": "/features",
    "challengers": "/challengers",
    "drift": f"/drift?order=newest&limit={model_live.DRIFT_SHOWN}",
    "pending": f"/pending?limit={model_live.PENDING_SHOWN}",
    "snapshots": "/snapshots",
    "log": f"/log?limit={model_live.LOG_SHOWN}",
}
ROW = {"features": features(0), "label": "UP"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Turns follow each other closely, however little of the time they should take."""
    monkeypatch.setattr(producer, "TURN_S", 0.02)
    monkeypatch.setattr(producer, "SHARE", 1e9)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(start):
    """A service whose models raise alarms."""
    return await start()


def watching(api, path, **headers):
    return EventClient(api.app, f"{path}/stream", headers)


async def until(client, wanted):
    """The newest document of each event, read until they are ``wanted``."""
    found = {}
    while not wanted(found):
        frame = await client.next()
        found[frame.event] = frame
    return found


async def everything(api, path):
    """What the GETs show."""
    return {event: await api.get(f"{path}{url}") for event, url in GETS.items()}


async def test_all_documents_come_first_as_the_gets_show_them(live):
    """Of a model with challengers, events, pending predictions, snapshots and a log."""
    path = await live.learnt(rows=60)
    await live.ask("PUT", f"{path}/challengers/one", json={"algorithm": "rls"})
    await raise_alarms(live, path, 3)
    for row in range(25):
        await live.post(f"{path}/predict", {"features": features(row), "track": True})
    await live.post(f"{path}/snapshots", status=201)
    shown = await everything(live, path)
    async with watching(live, path) as client:
        assert (200, "text/event-stream; charset=utf-8", "no-store") == (
            client.status,
            client.headers["content-type"],
            client.headers["cache-control"],
        )
        frames = [await client.next() for _ in GETS]
    assert [*GETS] == [frame.event for frame in frames]
    assert shown == {frame.event: frame.data for frame in frames}
    assert {str(shown["model"]["version"])} == {frame.id for frame in frames}
    assert 3 == len(shown["drift"]["events"])
    assert shown["pending"]["next"] is not None
    assert shown["log"]["next"] is not None


async def test_what_changes_is_sent_and_nothing_else(live):
    """Snapshots, features and pending predictions stay; what is sent is what the GETs show then."""
    path = await live.learnt()
    async with watching(live, path) as client:
        await until(client, lambda found: len(found) == len(GETS))
        for version in (4, 5):
            await live.post(f"{path}/feedback", ROW)
            changed = await until(client, lambda found, v=version: "log" in found and found["log"].id == str(v))
            assert {"model", "metrics", "challengers", "log"} == set(changed)
            shown = await everything(live, path)
            assert {event: shown[event] for event in changed} == {event: f.data for event, f in changed.items()}
        await live.post(f"{path}/predict", {"features": features(0), "track": True})
        frame = await client.next()
        assert ("pending", "5") == (frame.event, frame.id)
        await live.ask("PATCH", path, json={"description": "seen"})
        changed = await until(client, lambda found: "model" in found)
        assert "seen" == changed["model"].data["config"]["description"]


async def test_events_and_entries_of_other_processes_are_shown(live, start):
    """A drift that another process finds, and the rows that it learns."""
    other = await start()
    path = await live.learnt()
    async with watching(live, path) as client:
        await until(client, lambda found: len(found) == len(GETS))
        await raise_alarms(other, path, 2)
        found = await until(client, lambda f: "drift" in f and len(f["drift"].data["events"]) == 2 and "log" in f)
    assert found["drift"].data["events"] == (await other.get(f"{path}/drift?order=newest"))["events"]


async def test_documents_are_made_once_for_all_who_look(live, monkeypatch):
    """Ten streams, one producer; who comes later is sent all at once, and the last one to leave ends it."""
    path, made, whole = await live.learnt(), [], documents.report

    def report(replica):
        made.append(replica.version)
        return whole(replica)

    monkeypatch.setattr(documents, "report", report)
    context = live.app.state.context
    clients = [watching(live, path) for _ in range(10)]
    for client in clients:
        await client.__aenter__()
    for client in clients:
        await until(client, lambda found: len(found) == len(GETS))
    assert [3] == made
    await live.post(f"{path}/feedback", ROW)
    for client in clients:
        await until(client, lambda found: "model" in found)
    assert [3, 4] == made
    async with watching(live, path) as late:
        assert {"4"} == {frame.id for frame in [await late.next() for _ in GETS] if frame.event == "model"}
        assert [3, 4] == made
        assert 1 == len(context.live)
        for client in clients:
            await client.__aexit__()
        assert 1 == len(context.live)
    assert 0 == len(context.live)
    assert not context.places._ends


async def test_large_documents_are_made_elsewhere_than_on_the_event_loop(live, monkeypatch):
    """Those of wide models and of many learners; small ones where they stand."""
    places, whole = [], documents.features

    def noted(replica, **how):
        places.append(threading.current_thread() is threading.main_thread())
        return whole(replica, **how)

    monkeypatch.setattr(documents, "features", noted)
    path = await live.learnt()
    await live.get(f"{path}/features")
    monkeypatch.setattr(documents, "FEATURE_BYTES", THREAD_BYTES)
    await live.get(f"{path}/features")
    async with watching(live, path) as client:
        await until(client, lambda found: "features" in found)
    assert [True, False, False] == places


async def test_a_stream_ends_with_a_reason(live, start):
    """The model is deleted, created again elsewhere, out of service, or the service stops; then nothing is held."""
    other = await start()
    for reason in ("deleted", "recreated", "down", "failed", "stopped"):
        path = await live.learnt()
        name = path.rpartition("/")[2]
        api = other if reason == "stopped" else live
        async with watching(api, path) as client:
            await until(client, lambda found: len(found) == len(GETS))
            if reason == "stopped":
                api.app.state.context.places.stop()
            elif reason == "down":
                api.app.state.context.engine.models.peek(name).quarantine("the test says so")
            elif reason == "failed":
                api.app.state.context.engine.models.peek(name).machine = None
                api.app.state.context.engine.models.peek(name).version += 1
            else:
                looks = hold_turns(api)
                await other.ask("DELETE", path)
                if reason == "recreated":
                    await other.ask("PUT", path, json={"task": "regression"})
                looks.set()
            found = await until(client, lambda f: "end" in f)
            assert {"reason": reason} == found["end"].data
            await client.over()
            assert client.ended
        assert 0 == len(api.app.state.context.live)
    problem(await other.ask("GET", f"{path}/stream"), 503)


def hold_turns(api):
    """Lets the one producer of a service look at nothing before this is set."""
    (one,) = api.app.state.context.live._producers.values()
    whole, held = one.turn, asyncio.Event()

    async def turn(due):
        await held.wait()
        await whole(due)

    one.turn = turn
    return held


async def test_a_model_that_has_left_memory_is_not_loaded_to_be_looked_at(live):
    """Until there is something new to see."""
    path = await live.learnt()
    engine = live.app.state.context.engine
    async with watching(live, path) as client:
        await until(client, lambda found: len(found) == len(GETS))
        turns = count_turns(live)
        engine.models._drop(path.rpartition("/")[2])
        await turns(3)
        assert None is engine.models.peek(path.rpartition("/")[2])
        await live.post(f"{path}/feedback", ROW)
        assert "4" == (await until(client, lambda found: "log" in found))["log"].id


def count_turns(api):
    """Waits until the one producer of a service has had so many more turns."""
    (one,) = api.app.state.context.live._producers.values()
    whole, count = one.turn, 0

    async def turn(due):
        nonlocal count
        await whole(due)
        count += 1

    async def turns(more):
        async with asyncio.timeout(8):
            until = count + more
            while count < until:
                await asyncio.sleep(0.01)

    one.turn = turn
    return turns


async def test_a_store_that_does_not_answer_ends_no_stream(live, monkeypatch):
    """What was left out is shown once it answers again."""
    path = await live.learnt()
    async with watching(live, path) as client:
        await until(client, lambda found: len(found) == len(GETS))
        asked = asyncio.Event()

        async def down(*_):
            asked.set()
            raise StoreDown("the test says so")

        with monkeypatch.context() as patch:
            patch.setattr(model_live, "pending_page", down)
            await asked.wait()
            await live.post(f"{path}/predict", {"features": features(0), "track": True})
        assert 1 == len((await until(client, lambda found: "pending" in found))["pending"].data["pending"])


async def test_a_client_that_does_not_read_is_cut(live, monkeypatch):
    """The others go on, and what waits for it is one document of each event at most."""
    path = await live.learnt()
    monkeypatch.setattr(viewers, "SLOW_S", 0.3)
    async with watching(live, path) as slow, watching(live, path) as quick:
        await until(slow, lambda found: len(found) == len(GETS))
        slow.reading.clear()
        await until(quick, lambda found: len(found) == len(GETS))
        version = 3
        async with asyncio.timeout(8):
            while not slow.task.done():
                version += 1
                await live.post(f"{path}/feedback", ROW)
                await until(quick, lambda found, v=version: "log" in found and int(found["log"].id) >= v)
        assert not slow.ended
        assert not quick.task.done()


async def test_who_may_look(start):
    """Scope read, the models of the key, and a free place; unknown names are 404."""
    api = await start(api_keys="all:s3cret-all:admin,some:s3cret-some:read:z*", streams_max=1)
    await api.ask("PUT", "/models/looked-at", json={"task": "regression"}, headers={"X-API-Key": "s3cret-all"})
    problem(await api.ask("GET", "/models/looked-at/stream"), 401)
    problem(await api.ask("GET", "/models/looked-at/stream", headers={"X-API-Key": "s3cret-some"}), 403)
    problem(await api.ask("GET", "/models/zzz/stream", headers={"X-API-Key": "s3cret-some"}), 404)
    async with watching(api, "/models/looked-at", **{"X-API-Key": "s3cret-all"}):
        full = await api.ask("GET", "/models/looked-at/stream", headers={"X-API-Key": "s3cret-all"})
        problem(full, 503)
        assert "retry-after" in full.headers
        shown = await api.ask("GET", "/metrics", headers={"X-API-Key": "s3cret-all"})
        assert "onepass_streams 1.0" in shown.text.splitlines()


class Costly(Producer):
    """A document that costs a second, and an urgent one."""

    made = 0

    async def turn(self, due):
        self.made += 1
        self.publish("urgent", self.made, json.dumps(self.made).encode())
        if due:
            self.cost(1.0)
            self.publish("costly", self.made, json.dumps(self.made).encode())


async def test_costly_documents_are_made_less_often(monkeypatch):
    """So that all producers together take a small share of the time; what is urgent is made in every turn."""
    monkeypatch.setattr(producer, "SHARE", 0.5)
    live = Live(StreamPlaces(9))
    stream = live.open("one", lambda: Costly(live))
    found = []
    async with asyncio.timeout(8):
        async for frame in stream.body_iterator:
            found.append(frame.split(b"\n")[0])
            if len(found) == 12:
                break
    stream._leave()
    assert 1 == found.count(b"event: costly")
    assert 11 == found.count(b"event: urgent")


async def test_a_comment_comes_where_nothing_changes(monkeypatch):
    """So that the connection is kept."""
    monkeypatch.setattr(viewers, "KEEP_ALIVE_S", 0.01)
    frames = Viewer().frames()
    assert (await anext(frames)).startswith(b":")


async def test_the_description_tells_the_limits_of_lists():
    """What a client has to ask a GET for to see the same."""
    said = routes.stream_model.__doc__
    for limit in (model_live.DRIFT_SHOWN, model_live.PENDING_SHOWN, model_live.LOG_SHOWN):
        assert f"limit={limit}`" in said
