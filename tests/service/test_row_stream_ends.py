"""How streams of rows begin and end: what is checked first, who ends them, what the last line says, what stays held."""

import asyncio
import json
import socket

import pytest
import pytest_asyncio

from service.api.row_streams import exchange, intake
from service.errors import QueueFull, StoreDown
from service.runtime.actor import Actor
from service.server import http_protocol
from tests.service.api_fixtures import features
from tests.service.stream_client import lines_of, serving
from tests.service.test_row_streams import labelled, refusal

pytestmark = pytest.mark.asyncio(loop_scope="module")
END = "end"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(api):
    """The service on a port."""
    async with serving(api.app) as made:
        yield made


def replica_of(api, path):
    return api.app.state.context.engine.models.peek(path.rpartition("/")[2])


async def test_what_is_wrong_with_a_stream_is_said_before_it_begins(start):
    """Key, scope, media type, model and headers: an ordinary problem, and the connection stays usable."""
    api = await start(api_keys="ro:secret-ro:read,ad:secret-ad:admin")
    admin = "X-API-Key: secret-ad\r\n"
    body = {"algorithm": "rls", "task": "regression", "features": ["a"]}
    assert 201 == (await api.ask("PUT", "/models/m", json=body, headers={"x-api-key": "secret-ad"})).status_code
    path, reader = "/models/m/feedback/stream", "X-API-Key: secret-ro\r\n"
    cases = [
        (401, path, {}),
        (403, path, {"headers": reader}),
        (415, path, {"headers": admin, "media_type": "application/json"}),
        (404, "/models/none/feedback/stream", {"headers": admin}),
        (415, path, {"headers": f"{admin}Content-Encoding: gzip\r\n"}),
        (422, path, {"headers": f"{admin}Idempotency-Key: k\r\n"}),
        (422, f"{path}?odd=1", {"headers": admin}),
        (200, path, {"headers": admin}),
        (200, "/models/m/predict/stream", {"headers": reader}),
    ]
    async with serving(api.app) as server:
        for status, where, how in cases:
            client = await server.stream(where, **how)
            assert status == client.status, (where, how)
            expected = "application/x-ndjson" if status == 200 else "application/problem+json"
            assert expected == client.header("content-type")


async def test_the_answer_begins_apart_from_100_continue(api, server, monkeypatch):
    """With the first row, or without one after a while: a proxy that reads both at once may lose the answers."""
    monkeypatch.setattr(exchange, "CONTINUE_S", 0.2)
    path = await api.new()
    for rows in (1, 0):
        client = await server.stream(f"{path}/feedback/stream", headers="Expect: 100-continue\r\n")
        assert 100 == client.status
        if rows:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.reader.read(1), 0.05)
            await client.send(lines_of(labelled(1)))
        client.head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 10)
        assert 200 == client.status
        assert rows == 0 or (await client.line())["version"] == 1
        await client.end()


async def test_a_reader_may_not_track(start):
    """Of a stream of predictions a row with ``track`` is refused by itself: it needs the scope learn."""
    api = await start(api_keys="ro:secret-ro:read,ad:secret-ad:admin")
    body = {"algorithm": "rls", "task": "regression", "features": ["a"]}
    assert 201 == (await api.ask("PUT", "/models/t", json=body, headers={"x-api-key": "secret-ad"})).status_code
    ask = {"features": {"a": 1.0}}
    async with serving(api.app) as server:
        client = await server.stream("/models/t/predict/stream", headers="X-API-Key: secret-ro\r\n")
        assert [None, (2, 403), None] == [
            refusal(line) for line in await client.ask([ask, {**ask, "track": True}, ask])
        ]


async def test_a_stream_without_lines_is_idle(api, server, monkeypatch):
    """Its last line says so, and how many lines were answered; a blank line keeps it open."""
    monkeypatch.setattr(intake, "IDLE_S", 0.3)
    client = await server.stream(f"{await api.new()}/feedback/stream")
    await client.ask(labelled(3))
    for _ in range(4):
        await asyncio.sleep(0.2)
        await client.send(b"\n")
    await client.ask(labelled(1))
    assert [{END: {"reason": "idle", "answered": 4}}] == await client.rest()
    assert b"" == await asyncio.wait_for(client.reader.read(), 5)


async def test_silence_is_broken_by_blank_lines(api, server, monkeypatch):
    """So that what is between client and service keeps the connection open."""
    monkeypatch.setattr(exchange, "KEEP_ALIVE_S", 0.2)
    client = await server.stream(f"{await api.new()}/feedback/stream")
    assert ["", ""] == [await client.line(blank=True) for _ in range(2)]
    assert [1] == [line["rows"] for line in await client.ask(labelled(1))]


async def test_time_is_the_streams_own(api, server, monkeypatch):
    """What bounds the time of a body does not cut a stream whose lines are far between."""
    monkeypatch.setattr(http_protocol, "BODY_PAUSE_S", 0.1)
    monkeypatch.setattr(http_protocol, "BODY_S", 0.1)
    client = await server.stream(f"{await api.new()}/feedback/stream")
    for expected in (1, 2, 3):
        await asyncio.sleep(0.3)
        assert [expected] == [line["rows"] for line in await client.ask(labelled(1))]


async def test_a_model_that_is_gone_ends_its_streams(api, server):
    """An error for every row that was sent, then the last line; likewise of one that was created again."""
    for again, status, reason in ((False, 404, "not-found"), (True, 503, "recreated")):
        path = await api.new()
        learning, predicting = [await server.stream(f"{path}/{route}/stream") for route in ("feedback", "predict")]
        await learning.ask(labelled(2))
        await api.ask("DELETE", path)
        if again:
            body = {"algorithm": "rls", "task": "regression", "features": ["a", "b"]}
            await api.ask("PUT", path, json=body)
        await learning.send(lines_of(labelled(3)))
        await predicting.send(lines_of([{"features": features(1)}]))
        found = await learning.rest()
        assert [(3, status), (4, status), (5, status)] == [refusal(line) for line in found[:-1]]
        assert {END: {"reason": reason, "answered": 2}} == found[-1]
        found = await predicting.rest()
        assert [(1, status)] == [refusal(line) for line in found[:-1]]
        assert {END: {"reason": reason, "answered": 0}} == found[-1]


async def test_a_store_that_is_down_ends_a_stream(api, server, monkeypatch):
    """The rows that were to be committed are refused with 503; nothing behind them is answered."""
    path = await api.new()
    client = await server.stream(f"{path}/feedback/stream")
    await client.ask(labelled(2))

    def down(*_):
        raise StoreDown("the store does not answer")

    monkeypatch.setattr(Actor, "submit", down)
    await client.send(lines_of(labelled(300)))
    found = await client.rest()
    assert {(number, 503) for number in range(3, len(found) + 2)} == {refusal(line) for line in found[:-1]}
    assert {END: {"reason": "store-down", "answered": 2}} == found[-1]
    monkeypatch.undo()
    assert 2 == (await api.get(path))["rows"]


async def test_a_full_queue_is_waited_for(api, server, monkeypatch):
    """Rows that find no room are submitted again, in order, instead of being refused."""
    path, refusals, submit = await api.new(), iter([True, True, False, True]), Actor.submit

    def full(*how):
        if next(refusals, False):
            raise QueueFull("full")
        return submit(*how)

    monkeypatch.setattr(Actor, "submit", full)
    client = await server.stream(f"{path}/feedback/stream")
    found = await client.ask(labelled(3)) + await client.ask(labelled(1))
    assert [1, 2, 3, 4] == [line["rows"] for line in found]
    assert None is next(refusals, None)


async def test_a_client_that_does_not_read_is_cut(api, server, monkeypatch):
    """What it has sent is held back by then; others go on, and no place stays taken."""
    monkeypatch.setattr(exchange, "WRITE_S", 0.5)
    path, other = await api.new(), await api.new()
    client = await server.client(limit=1024)
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await client.open(f"{path}/predict/stream")
    asks = lines_of([{"features": features(row)} for row in range(1000)])

    async def send():
        while True:
            await client.send(asks)

    sending = asyncio.create_task(send())
    with pytest.raises((ConnectionError, TimeoutError)):
        await sending
    assert [1] == [line["rows"] for line in await (await server.stream(f"{other}/feedback/stream")).ask(labelled(1))]
    assert not client.over


async def test_a_client_that_leaves_takes_nothing_with_it(start):
    """Its place is free again; what it had sent whole is learned."""
    api = await start(streams_max=1)
    path = await api.new()
    async with serving(api.app) as server:
        client = await server.stream(f"{path}/feedback/stream")
        assert 503 == (await server.stream(f"{path}/predict/stream")).status
        await client.ask(labelled(2))
        client.writer.close()
        for _ in range(100):
            again = await server.stream(f"{path}/predict/stream")
            if again.status == 200:
                break
            await asyncio.sleep(0.02)
        assert 200 == again.status
    assert 2 == (await api.get(path))["rows"]


async def test_a_stop_ends_streams_with_a_last_line(start):
    """Promptly, and behind the answers to what was being committed; no stream begins any more."""
    api = await start()
    path = await api.new()
    async with serving(api.app) as server:
        idle, busy = [await server.stream(f"{path}/feedback/stream") for _ in range(2)]
        await idle.ask(labelled(1))
        lock = replica_of(api, path).lock
        async with lock:
            await busy.send(lines_of(labelled(5)))
            await asyncio.sleep(0.1)
            api.app.state.context.places.stop()
            assert [{END: {"reason": "stop", "answered": 1}}] == await idle.rest()
        found = await busy.rest()
        assert [2, 3, 4, 5, 6] == [line["rows"] for line in found[:-1]]
        assert {END: {"reason": "stop", "answered": 5}} == found[-1]
        refused = await server.stream(f"{path}/feedback/stream")
        assert 503 == refused.status
    assert 6 == (await api.get(path))["rows"]


async def test_what_is_still_sent_does_not_take_the_last_line_away(start):
    """A client that is in the middle of a line when its stream ends reads the end of the answer, not a reset."""
    api = await start()
    async with serving(api.app) as server:
        client = await server.stream(f"{await api.new()}/feedback/stream")
        await client.send(b'{"features"')
        await asyncio.sleep(0.05)
        api.app.state.context.places.stop()
        for _ in range(5):
            await client.send(b" " * 1000)
        assert [{END: {"reason": "stop", "answered": 0}}] == await client.rest()


async def test_rows_wait_for_the_rate_of_their_key(start):
    """They are counted like requests, and held back instead of being refused."""
    api = await start(api_keys="k:secret:admin", rate_per_s=50)
    key = {"x-api-key": "secret"}
    body = {"algorithm": "rls", "task": "regression", "features": ["a"]}
    assert 201 == (await api.ask("PUT", "/models/rated", json=body, headers=key)).status_code
    async with serving(api.app) as server:
        client = await server.stream("/models/rated/feedback/stream", headers="X-API-Key: secret\r\n")
        began = asyncio.get_running_loop().time()
        found = await client.ask([{"features": {"a": 1.0}, "label": 1.0}] * 80)
        took_s = asyncio.get_running_loop().time() - began
        assert [*range(1, 81)] == [line["rows"] for line in found]
        assert 0.5 < took_s


async def test_rows_are_counted_by_their_status(start):
    """In the metrics, under the route of their stream."""
    api = await start()
    path = await api.new()
    async with serving(api.app) as server:
        client = await server.stream(f"{path}/feedback/stream")
        await client.ask([*labelled(3), {"label": 1}])
    text = (await api.ask("GET", "/metrics")).text
    for status, count in ((200, 3), (422, 1)):
        labels = json.dumps("/models/{name}/feedback/stream")
        assert f'onepass_stream_rows_total{{route={labels},status="{status}"}} {count:.1f}' in text
