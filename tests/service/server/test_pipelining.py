"""Pipelined requests: those of an ordinary client are answered in order, and no more may wait than a bound."""

import asyncio

import pytest
from starlette.responses import StreamingResponse

from service.server.http_protocol import WAITING_MAX
from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import GET, echo, read_answer
from tests.service.waiting import until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST %b HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


class Server(LocalServer):
    """A server of ``echo``; /endless sends until its client is gone, /late does so after a while.

    ``waiting``: the most requests of a connection that waited when one began.
    """

    def __init__(self) -> None:
        async def app(scope, receive, send) -> None:
            self.waiting = max([self.waiting, *(len(one.pipeline) for one in self.state.connections)])
            if scope["path"] in ("/endless", "/late"):
                await asyncio.sleep(0.2 * (scope["path"] == "/late"))
                await StreamingResponse(self.words())(scope, receive, send)
            else:
                await echo(scope, receive, send)

        super().__init__(app)
        self.waiting = self.streams = self.ended = 0

    async def words(self):
        self.streams += 1
        try:
            while True:
                yield b"on"
                await asyncio.sleep(0.01)
        finally:
            self.streams -= 1
            self.ended += 1


@pytest.fixture
async def server():
    async with running(Server()) as made:
        yield made


async def test_a_flood_of_requests_is_bounded(server):
    """Of 20 000 at once those are answered that may wait; the last answer says that the connection closes."""
    reader, writer = await server.connect()
    writer.write(HEALTH * 20_000)
    answer = await asyncio.wait_for(reader.read(), 10)
    assert 1 + WAITING_MAX == answer.count(b"HTTP/1.1 200 OK")
    *others, last = answer.split(b"HTTP/1.1 200 OK")
    assert b"connection: close" in last
    assert b"connection: close" not in b"".join(others)
    assert (WAITING_MAX, []) == (server.waiting, server.refused)


async def test_a_flood_behind_a_slow_request_is_bounded(server):
    """Nothing is read while requests wait, however long the one in work takes and however much it reads."""
    reader, writer = await server.connect()
    writer.write(GET.replace(b" / ", b" /slow ") + b"\r\n")
    for _ in range(40):
        writer.write(HEALTH * 500)
        await asyncio.sleep(0.01)
    answer = await asyncio.wait_for(reader.read(), 10)
    assert 1 + WAITING_MAX == answer.count(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answer.rpartition(b"HTTP/1.1 200 OK")[2]
    assert WAITING_MAX >= server.waiting


async def test_as_many_as_may_wait_are_answered_in_order(server):
    """With and without bodies, again and again on a connection that stays open."""
    reader, writer = await server.connect()
    for turn in range(5):
        sent, expected = b"", []
        for number in range(1 + WAITING_MAX):
            body = b"%04d" % (turn * 100 + number)
            kind = number % 2
            path = b"/long%d" % number
            sent += (POST % (path, 4, body), GET.replace(b" / ", b" %b " % path) + b"\r\n")[kind]
            expected.append((b"%b 4" % path, b"%b 0" % path)[kind])
        writer.write(sent)
        answers = [await read_answer(reader) for _ in expected]
        assert expected == [body for _, body in answers]
        assert not any(b"connection: close" in head for head, _ in answers)


async def test_a_body_that_comes_in_parts_is_taken_behind_others(server):
    """The last request waits with half of its body; the rest is read when the others are answered."""
    reader, writer = await server.connect()
    body = b"x" * 300_000
    for _ in range(2):
        writer.write(HEALTH * 15 + POST % (b"/last", len(body), body[:1000]))
        await asyncio.sleep(0.02)
        writer.write(body[1000:])
        assert [b"/healthz 0"] * 15 + [b"/last 300000"] == [(await read_answer(reader))[1] for _ in range(16)]


async def test_a_client_that_leaves_ends_what_is_in_work(server):
    """Also where another request of its connection waits behind it."""
    _, writer = await server.connect()
    writer.write(GET.replace(b" / ", b" /endless ") + b"\r\n" + HEALTH)
    await until(lambda: server.streams)
    writer.transport.abort()
    await until(lambda: not server.streams)


@pytest.mark.parametrize("before", [1, 2])
async def test_a_broken_body_behind_other_requests_is_not_theirs(server, before):
    """They are answered, and then the connection closes: it is not told of another request than it has sent."""
    reader, writer = await server.connect()
    broken = b"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    writer.write((GET.replace(b" / ", b" /slow ") + b"\r\n") * before + broken)
    answer = await asyncio.wait_for(reader.read(), 10)
    assert (before, before) == (answer.count(b"HTTP/1.1 200 OK"), answer.count(b"HTTP/1.1"))
    assert b"connection: close" in answer.rpartition(b"HTTP/1.1 200 OK")[2]
