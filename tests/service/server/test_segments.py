"""Heads and trailers, the lines after a chunked body, mean the same in whatever segments they arrive."""

import asyncio

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from service.server.http_protocol import HEAD_BYTES_MAX, HEAD_LINES_MAX, Gate, bounded
from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import CHUNKED, GET, echo, read_answer, status
from tests.service.server.test_one_write import Recorder
from tests.service.waiting import until

BODY = b"5\r\nhello\r\n0\r\n"


async def names(scope, receive, send) -> None:
    """Answers the names of the headers once the body is there."""
    while (await receive())["more_body"]:
        pass
    said = b" ".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


async def test_a_trailer_is_no_header():
    """Neither one that has the name of a header, nor another; also if it arrives with the head."""
    sent = [CHUNKED, BODY, b"Host: other\r\nIdempotency-Key: k\r\n", b"\r\n"]
    async with running(LocalServer(names)) as server:
        reader, writer = await server.connect()
        for parts in ([b"".join(sent)], sent, [b"".join(sent) * 2]):
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0)
            for _ in range(b"".join(parts).count(b"POST")):
                head, said = await read_answer(reader)
                assert (200, b"host transfer-encoding") == (status(head), said)


LINES = b"X: b\r\n" * (HEAD_LINES_MAX - 1)
LONG = {
    "path": (b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n", "/hosth"),
    "header": (GET + b"X: %b\r\n\r\n", "/hosthX"),
    "header and path": (GET.replace(b"/ ", b"/" + b"a" * 30_000 + b" ") + b"X: %b\r\n\r\n", "/hosthX" + "a" * 30_000),
    "headers": (GET + b"X: b\r\n" * 50 + b"X: %b\r\n\r\n", "/hosthX" + "Xb" * 50),
    "trailer": (CHUNKED + BODY + b"X: %b\r\n\r\n", "X"),
}
"""A request with a place for a long text, and what else counts."""
segments = pytest.mark.parametrize("segment", [1, 1_000, 2**20])


async def status_of(sent: bytes, segment: int) -> int:
    """The status of the answer to a request that arrives in segments of so many bytes."""
    config, recorder = Config(echo, lifespan="off", log_config=None), Recorder()
    config.load()
    protocol = bounded(Gate(100, lambda status: None))(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(recorder)
    for at in range(0, len(sent), segment):
        protocol.data_received(sent[at : at + segment])
    answer = await until(lambda: b"".join(told for told in recorder.told if isinstance(told, bytes)))
    protocol.connection_lost(None)
    return status(answer)


@segments
@pytest.mark.parametrize("what", LONG)
async def test_as_many_bytes_as_may_be_are_taken(what, segment):
    """Not one more."""
    request, counted = LONG[what]
    most = HEAD_BYTES_MAX - len(counted)
    for size, expected in ((most, 200), (most + 1, 431), (most + 20_000, 431)):
        assert expected == await status_of(request % (b"b" * size), segment)


@segments
@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\n", CHUNKED + BODY], ids=["headers", "trailers"])
async def test_as_many_lines_as_may_be_are_taken(begin, segment):
    """Not one more, also if the next request follows at once."""
    for more, expected in ((0, 200), (1, 431)):
        sent = begin + b"Host: h\r\n" + LINES + b"X: b\r\n" * more + b"\r\n"
        for behind in (b"", GET + b"\r\n"):
            assert expected == await status_of(sent + behind, segment)
