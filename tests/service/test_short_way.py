"""The short way answers a request whose body is there with one write, and everything else as the server does."""

import asyncio

import pytest
from starlette.responses import Response

from service.api.row_answer import RowAnswer
from tests.service.test_http_protocol import served, status

pytestmark = pytest.mark.asyncio

ROW = b"POST /short HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nX-A: first\r\nX-A: second\r\n\r\n"
CLOSING = ROW.replace(b"Host: h", b"Host: h\r\nConnection: close")


async def answered(request) -> Response:
    """The body, the first of two equal headers; 409 for the body "odd!"."""
    body = (await request.receive())["body"]
    if body == b"odd!":
        return Response(b"no", 409)
    return RowAnswer(body + request.headers.get("x-a", "").encode())


def short_way(scope):
    return answered if scope["path"] == "/short" else None


@pytest.fixture
async def server():
    """A server whose path /short has a short way; the app echoes paths."""
    async with served(short_way=short_way) as made:
        yield made


async def read_answer(reader) -> tuple[bytes, bytes]:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    (length,) = [line.split(b":")[1] for line in head.splitlines() if line.lower().startswith(b"content-length")]
    return head, await reader.readexactly(int(length))


async def test_a_whole_request_is_answered_and_the_connection_stays(server):
    """Head and body are those of the response, with the server's own headers; the first of equal headers counts."""
    server.state.default_headers = [(b"date", b"today")]
    reader, writer = await server.connect()
    for body in (b"abcd", b"efgh"):
        writer.write(ROW + body)
        head, answer = await read_answer(reader)
        assert body + b"first" == answer
        assert b"date: today" in head
        assert b"content-type: application/json" in head
        assert b"connection" not in head


async def test_a_client_that_asks_for_it_is_told_that_the_connection_closes(server):
    """As HTTP wants it."""
    answer = await server.answer(CLOSING + b"abcd")
    assert b"connection: close" in answer
    assert answer.endswith(b"abcdfirst")


async def test_a_body_that_comes_later_takes_the_usual_way(server):
    """The app answers, which is asked once the whole body is there."""
    reader, writer = await server.connect()
    writer.write(ROW + b"ab")
    await asyncio.sleep(0.05)
    writer.write(b"cd")
    assert b"/short 4" == (await read_answer(reader))[1]


async def test_other_answers_are_sent_as_usual(server):
    """A refusal has its own status and headers."""
    reader, writer = await server.connect()
    writer.write(ROW + b"odd!")
    head, answer = await read_answer(reader)
    assert (409, b"no") == (status(head), answer)


async def test_requests_that_come_together_are_answered_in_order(server):
    """Also where the short way and the app take turns."""
    get = b"GET /long HTTP/1.1\r\nHost: h\r\n\r\n"
    reader, writer = await server.connect()
    writer.write(ROW + b"abcd" + get + ROW + b"odd!" + ROW + b"efgh")
    answers = [(await read_answer(reader))[1] for _ in range(4)]
    assert [b"abcdfirst", b"/long 0", b"no", b"efghfirst"] == answers


async def test_who_has_left_is_not_answered(server):
    """The request was taken; its answer has nowhere to go, and nothing else suffers."""
    reader, writer = await server.connect()
    writer.write(ROW + b"abcd")
    writer.transport.abort()
    await asyncio.sleep(0.05)
    reader, writer = await server.connect()
    writer.write(ROW + b"efgh")
    assert b"efghfirst" == (await read_answer(reader))[1]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/sh%6Frt", b"/short"),
        (b"http://elsewhere/short", b"/short"),
        (b"/short?a=1#part", b"/short"),
        (b"/other?a=/short", b"/other"),
    ],
)
async def test_odd_targets_have_the_path_that_the_server_reads_in_them(server, target, path):
    """Escaped, absolute or with a fragment: they are read by the server, and what has that path answers."""
    reader, writer = await server.connect()
    writer.write(ROW.replace(b"/short", target) + b"abcd")
    expected = b"abcdfirst" if path == b"/short" else path + b" 4"
    assert expected == (await read_answer(reader))[1]


async def test_an_expected_continue_and_an_older_version_are_answered(server):
    """A client that waits to be asked for its body is asked; one of HTTP/1.0 is answered, and the connection closed."""
    reader, writer = await server.connect()
    writer.write(ROW.replace(b"Host: h", b"Host: h\r\nExpect: 100-continue"))
    assert b"100 Continue" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    writer.write(b"abcd")
    assert b"/short 4" == (await read_answer(reader))[1]
    assert (await server.answer(ROW.replace(b"HTTP/1.1", b"HTTP/1.0") + b"abcd")).endswith(b"abcdfirst")
