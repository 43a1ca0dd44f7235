"""A request that asks for another protocol is answered as HTTP/1.1, with its body: Java's client asks with each one."""

import asyncio

import pytest

from service.server.http_protocol import WAITING_MAX
from tests.service.server.test_http_protocol import problem, read_answer, served, status

H2C = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\nUpgrade: h2c\r\n"
WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
HEAD = b"POST /a%%20b?c HTTP/1.1\r\nHost: h\r\n%b%b\r\n"
LENGTH, CHUNKED = (b"Content-Length: 5\r\n", b"hello"), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n")
BODIES = pytest.mark.parametrize(("line", "body"), [LENGTH, CHUNKED], ids=["length", "chunked"])


@BODIES
@pytest.mark.parametrize("upgrade", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
async def test_the_body_is_read(upgrade, line, body, caplog):
    """Whether it arrives with its head, with the next request behind it, or bit by bit; nothing is logged."""
    sent = HEAD % (upgrade, line) + body
    async with served() as server:
        reader, writer = await server.connect()
        for pieces in ([sent], [sent * 2], [bytes([one]) for one in sent], [sent[: -len(body)], body]):
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            for _ in range(b"".join(pieces).count(b"POST")):
                head, said = await read_answer(reader)
                assert (200, b"/a b 5") == (status(head), said)
    assert "" == caplog.text


@BODIES
async def test_a_last_request_stays_the_last(line, body):
    """The other wishes of ``Connection`` count."""
    async with served() as server:
        sent = HEAD % (H2C.replace(b"Upgrade,", b"close, Upgrade,"), line) + body
        assert (await server.answer(sent)).endswith(b"/a b 5")


async def test_the_limits_hold():
    """Of a flood those are answered that may wait; a head with two hosts is refused."""
    async with served() as server:
        answer = await server.answer((HEAD % (H2C, LENGTH[0]) + LENGTH[1]) * 2000)
        assert 1 + WAITING_MAX == answer.count(b"HTTP/1.1 200 OK")
        assert 400 == problem(await server.answer(HEAD % (H2C, b"Host: i\r\n")))["status"]


async def test_connect_is_refused():
    """There is no tunnel, with or without another protocol."""
    async with served() as server:
        for upgrade in (b"", H2C):
            sent = b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n" + upgrade + b"\r\n"
            assert 400 == problem(await server.answer(sent))["status"]
