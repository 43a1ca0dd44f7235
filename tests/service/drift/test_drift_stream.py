"""Drift events live: order, resumption at any replica, gaps, filters, keys, bounds, and the end."""

import asyncio
from types import SimpleNamespace

import pytest
from fastapi.sse import KEEPALIVE_COMMENT

from core.drift import outbox
from service.api.drift import event_stream
from service.errors import StoreDown
from service.monitor import publisher
from service.runtime.broadcast import Broadcast, EventSubscription
from service.store.drift.drift import DriftStream
from service.store.drift.events import START, StreamPosition
from service.store.keys import DRIFT, DRIFT_PUBLISHED
from tests.alarms import JOINS, OF_ANOTHER
from tests.service.api_fixtures import problem
from tests.service.drift.test_api_drift import raise_alarms, told
from tests.service.event_client import listening
from tests.service.waiting import until

pytestmark = pytest.mark.usefixtures("alarming")


async def settled(api, path):
    """Wait until what the model has raised is in the streams."""
    await api.get(f"{path}/drift", params={"consistency": "strong"})


async def published(api, path):
    """The alarms of a model that are in the stream; asking for these does not wait for the publisher."""
    listed = (await api.get("/drift", params={"limit": 1000}))["events"]
    return told({"events": [event for event in listed if f"/models/{event['model']}" == path]})


async def test_events_come_as_they_are_listed(api):
    """Each once, in order, with the JSON of the list, from the moment the stream is open."""
    path = await api.new()
    await raise_alarms(api, path, 2)
    await settled(api, path)
    async with listening(api) as client:
        assert (200, "no-store") == (client.status, client.headers["cache-control"])
        assert "text/event-stream; charset=utf-8" == client.headers["content-type"]
        assert "content-length" not in client.headers
        for count in (1, 3):
            await raise_alarms(api, path, count)
        frames = [await client.next() for _ in range(4)]
        assert {"drift"} == {frame.event for frame in frames}
        listed = (await api.get(f"{path}/drift"))["events"][2:]
        assert listed == [frame.data for frame in frames]
        assert sorted(frame.id for frame in frames) == [frame.id for frame in frames]


async def test_a_bug_that_stops_an_event_once_delays_it_only(api, monkeypatch):
    """Nothing else happens to the model, and its event comes."""
    path, publish, failed = await api.new(), DriftStream.publish, []

    async def failing(stream, *args):
        if not failed:
            failed.append(args)
            raise RuntimeError("a bug")
        return await publish(stream, *args)

    async with listening(api) as client:
        monkeypatch.setattr(DriftStream, "publish", failing)
        await raise_alarms(api, path, 1)
        assert (path, 1) == (f"/models/{(await client.next()).data['model']}", len(failed))


@pytest.mark.parametrize(("batches", "warned"), [((8,), 0), ((9,), 1), ((5, 3, 3), 0), ((1, 9), 1), ((8, 4), 1)])
async def test_a_batch_with_more_events_than_are_kept_is_logged(api, monkeypatch, caplog, batches, warned):
    """Also the first one of a model; not what is published in time."""
    for module in (outbox, publisher):
        monkeypatch.setattr(module, "KEPT", 8)
    path = await api.new()
    for count in batches:
        await raise_alarms(api, path, count)
        await settled(api, path)
    assert warned == sum(f"{path[8:]}: alarms came faster" in message for message in caplog.messages)


async def test_later_alarms_are_events_of_kind_joined(api, start):
    """The event is sent as it was at its first alarm, then each later one, once; two replicas raise them in turns."""
    other = await start()
    path = await api.new()
    async with listening(api) as client, listening(other) as elsewhere:
        values = await raise_alarms(api, path, 1)
        for service in (api, other, api):
            values += await raise_alarms(service, path, 2, JOINS)
            await settled(service, path)
        values += await raise_alarms(other, path, 1)
        frames = [await client.next() for _ in range(8)]
        assert [frame.data for frame in frames] == [(await elsewhere.next()).data for _ in range(8)]
    first, *later, last = [frame.data for frame in frames]
    listed = (await other.get(f"{path}/drift"))["events"]
    assert [{**event, "alarms": [], "alarm_count": 0} for event in listed] == [first, last]
    assert [
        {"id": first["id"], "model": first["model"], "kind": "joined", "alarms": [one]} for one in listed[0]["alarms"]
    ] == later
    assert values[1:-1] == [one["alarms"][0]["features"][0]["after"] for one in later]
    for service in (api, other):
        async with listening(service, last=client.start.id) as again:
            assert [frame.id for frame in frames] == [(await again.next()).id for _ in range(8)]
        async with listening(service, last=frames[3].id) as again:
            assert [frame.data for frame in frames[4:]] == [(await again.next()).data for _ in range(4)]


async def test_alarms_of_several_learners_take_turns(api):
    """One that joins the model's event after an event of a challenger follows that one; none is passed over."""
    path = await api.new()
    async with listening(api) as client:
        values = await raise_alarms(api, path, then=(0.0, OF_ANOTHER, JOINS, OF_ANOTHER, JOINS))
        frames = [(await client.next()).data for _ in values]
    rows = [frame.get("row") or frame["alarms"][0]["row"] for frame in frames]
    assert [1, 2, 3, 4, 5] == rows
    listed = (await api.get("/drift", params={"limit": 1000}))["events"]
    told = [(event["row"], event["alarm_count"]) for event in listed if f"/models/{event['model']}" == path]
    assert [(1, 2), (2, 0), (4, 0)] == told


async def test_what_is_no_longer_kept_is_announced(start, monkeypatch):
    """A gap says after which event, how many are missing, and which one is the first; it is not told twice."""
    monkeypatch.setattr("service.app.KEPT", 4)
    small = await start()
    path = await small.new()
    async with listening(small) as client:
        values = await raise_alarms(small, path, 3)
        frames = [await client.next() for _ in range(3)]
    values += await raise_alarms(small, path, 5)
    await settled(small, path)
    async with listening(small, last=frames[0].id) as client:
        gap = await client.next()
        kept = [await client.next() for _ in range(4)]
        assert ("gap", {"after": frames[0].id, "first": kept[0].id, "missed": 3}) == (gap.event, gap.data)
        assert values[4:] == [frame.value for frame in kept]
    async with listening(small, last=gap.id) as client:
        assert values[4:] == await client.values(4)


async def test_a_stream_that_has_begun_anew_is_a_gap(api):
    """Where the store has lost its events nobody knows how many are missing."""
    path = await api.new()
    async with listening(api) as client:
        await raise_alarms(api, path, 3)
        last = [await client.next() for _ in range(3)][-1]
        await api.engine.store.connection.ask(("DEL", DRIFT))
        await asyncio.sleep(0.002)
        values = await raise_alarms(api, path, 1)
        gap, new = await client.next(), await client.next()
    assert ("gap", None, values) == (gap.event, gap.data["missed"], [new.value])
    async with listening(api, last=last.id) as client:
        gap = await client.next()
        assert ("gap", None) == (gap.event, gap.data["missed"])
        assert values == await client.values(1)


async def test_a_stream_of_one_model(api):
    """Only its events, live and caught up with; its name has to be one."""
    ours, others = await api.new(), await api.new()
    path = f"/drift/stream?model={ours.rpartition('/')[2]}"
    async with listening(api, path) as client:
        await raise_alarms(api, others, 2)
        values = await raise_alarms(api, ours, 2)
        assert values == await client.values(2)
    async with listening(api, path, last=client.start.id) as client:
        assert values == await client.values(2)
    problem(await api.ask("GET", "/drift/stream?model=-bad"), 422, "model")
    problem(await api.ask("GET", "/drift/stream?models=x"), 422, "models")


async def test_a_stream_of_no_model_is_404(api, start):
    """Never created, or deleted since; a model that another replica has created is one."""
    problem(await api.ask("GET", "/drift/stream?model=nobody"), 404, "model")
    path = await (await start()).new()
    url = f"/drift/stream?model={path.rpartition('/')[2]}"
    async with listening(api, url) as client:
        assert 200 == client.status
    await api.ask("DELETE", path)
    problem(await api.ask("GET", url), 404, "model")


@pytest.mark.parametrize("last", ["9999999999999-1", "9999999999999999-9999999999999999"])
async def test_an_id_that_is_yet_to_come_starts_anew(api, last):
    """The stream says at once where it begins, and what happens from then on is told."""
    path = await api.new()
    async with listening(api, last=last) as client:
        start = await client.next()
        assert ("start", start.id) == (start.event, start.data["position"])
        assert await raise_alarms(api, path, 2) == await client.values(2)


@pytest.mark.parametrize(
    "last", ["yesterday", "1", "a-b", "1-2-3-4", "-", "1" * 30 + "-1", "é", "5f3a9c0d1e2b4a68-1-0"]
)
async def test_an_id_that_is_none_is_refused(api, last):
    """With the header that is wrong."""
    answer = await api.ask("GET", "/drift/stream", headers={"Last-Event-ID": last.encode()})
    problem(answer, 422, "Last-Event-ID")


async def test_there_are_only_so_many_streams(start, monkeypatch):
    """One more is 503 with Retry-After; one that ends makes room; the gauge knows."""
    monkeypatch.setattr("service.runtime.broadcast.STREAMS_MAX", 2)
    small = await start()
    async with listening(small), listening(small):
        answer = await small.ask("GET", "/drift/stream")
        problem(answer, 503)
        assert 1 <= int(answer.headers["retry-after"])
        assert "onepass_drift_streams 2.0" in (await small.ask("GET", "/metrics")).text
    async with listening(small) as client:
        assert 200 == client.status
    assert "onepass_drift_streams 0.0" in (await small.ask("GET", "/metrics")).text


async def test_a_client_that_is_slow_delays_nobody_and_misses_nothing(start, monkeypatch):
    """Nothing is kept for it here: it reads on from where it is, and is told what the stream does not keep any more."""
    monkeypatch.setattr("service.app.KEPT", 20)
    monkeypatch.setattr(event_stream, "PAGE", 2)
    api = await start()
    path, values = await api.new(), []
    async with listening(api) as quick, listening(api) as slow:
        slow.reading.clear()
        for _ in range(10):
            values += await raise_alarms(api, path, 1)
            assert values[-1:] == await quick.values(1)
        slow.reading.set()
        assert values == await slow.values(10)
        slow.reading.clear()
        for _ in range(3):
            values += await raise_alarms(api, path, 10)
            assert values[-10:] == await quick.values(10)
        slow.reading.set()
        frames = [await slow.next() for _ in range(21)]
        while frames[0].event == "drift":  # what was under way when it stopped reading
            frames = [*frames[1:], await slow.next()]
        assert ("gap", values[-20:]) == (frames[0].event, [frame.value for frame in frames[1:]])


async def test_a_client_that_never_reads_is_cut_when_the_service_stops(start, monkeypatch):
    """It has little time to read the end."""
    monkeypatch.setattr(event_stream, "LAST_WORD_S", 0.05)
    api = await start()
    path = await api.new()
    async with listening(api) as client:
        client.reading.clear()
        await raise_alarms(api, path, 1)
        await asyncio.sleep(0.05)
        api.app.context.broadcast.stop()
        await client.over()
        assert not client.ended
        assert 0 == api.app.context.broadcast.open


async def test_a_store_that_is_away_for_a_while_ends_no_stream(api, monkeypatch):
    """The stream goes on where it was."""
    monkeypatch.setattr(event_stream, "AGAIN_S", 0.01)
    path, stream = await api.new(), api.app.context.drift
    after, failures = stream.after, []

    async def failing(*asked):
        if len(failures) < 3:
            failures.append(asked)
            raise StoreDown("the store does not answer")
        return await after(*asked)

    async with listening(api) as client:
        monkeypatch.setattr(stream, "after", failing)
        assert await raise_alarms(api, path, 2) == await client.values(2)
    assert 3 == len(failures)


async def test_events_that_a_failover_has_lost_are_published_again(api, monkeypatch):
    """The log still has their rows, and no later alarm has to come first."""
    path, stream = await api.new(), api.app.context.drift
    values, news, failures = await raise_alarms(api, path, 2), stream.news, []
    await settled(api, path)

    async def failing(*asked):
        if not failures:
            failures.append(asked)
            await api.engine.store.connection.ask(("DEL", DRIFT, DRIFT_PUBLISHED))
            raise StoreDown("the primary is gone")
        return await news(*asked)

    monkeypatch.setattr(stream, "news", failing)
    await until(lambda: failures)
    async with asyncio.timeout(20):
        while await published(api, path) != values:
            await asyncio.sleep(0.01)


async def test_silence_is_filled(api, monkeypatch):
    """A comment, so that nothing between takes the connection for dead."""
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.01)
    async with listening(api) as client:
        begun = len(client.body)
        while KEEPALIVE_COMMENT not in client.body[begun:]:
            await asyncio.sleep(0.005)


async def test_a_service_that_stops_ends_its_streams(start):
    """In good order, and takes no new ones."""
    api = await start()
    async with listening(api) as client:
        api.app.context.broadcast.stop()
        await client.over()
        assert client.ended
    problem(await api.ask("GET", "/drift/stream"), 503)


async def test_a_reader_that_died_while_the_store_was_away_says_when_it_is_back():
    """What the store has lost meanwhile is published again, as after an absence that the reader has outlived."""
    found, returned = [StoreDown("away"), RuntimeError("a bug"), [], [], RuntimeError("the end")], []

    async def news(_reached, _limit):
        answer = found.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def newest():
        return START

    broadcast = Broadcast(SimpleNamespace(newest=newest, news=news))
    broadcast.on_return = lambda: returned.append(len(found))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            await broadcast.run()
    assert [2] == returned


async def test_a_limited_key_goes_by_the_clock_of_the_store():
    """Its stream begins in the past of the store, and no position is in its future: whatever the time is here."""
    now = 10**12  # in 2001

    async def nothing(*_):
        return None

    async def now_ms():
        return now

    async def began(after):
        stream = SimpleNamespace(last=nothing, now_ms=now_ms)
        own = event_stream.events(stream, EventSubscription(), bool, StreamPosition(now, 9), after, limited=True)
        return (await anext(own)).decode()

    for after in (None, StreamPosition(now + 61_000, 0)):
        assert f'event: start\ndata: {{"position":"{now - event_stream.SKEW_MS}-0"}}' in await began(after)
    newest, now = StreamPosition(now, 9), now - 10**9  # set back: the newest event is from the future
    assert not await event_stream._is_ahead(SimpleNamespace(now_ms=now_ms), newest, newest)
