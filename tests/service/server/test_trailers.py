"""Trailers, the lines after a chunked body: they are no headers, however they arrive."""

import asyncio

from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import CHUNKED, read_answer, status

BODY = b"5\r\nhello\r\n0\r\n"


async def names(scope, receive, send) -> None:
    """Answers the names of the headers once the body is there."""
    while (await receive())["more_body"]:
        pass
    said = b" ".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


async def test_a_trailer_is_no_header():
    """Neither one that a header is like, nor another; also if it arrives with the head."""
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
