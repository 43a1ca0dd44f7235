"""Requests that are answered before their body is there: the answer is not lost, and the connection goes on."""

import asyncio
import socket

import pytest

from service.server import http_protocol, progress
from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import CHUNKED, GET, POST, read_answer, status
from tests.service.server.test_tls import LOOPS
from tests.service.waiting import until

LENGTH = 2**23
LAST = {
    "close": b"POST %b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
    "1.0": b"POST %b HTTP/1.0\r\nContent-Length: %d\r\n\r\n",
}
REFUSED = b"refused before it was read"


class Server(LocalServer):
    """Answers each request without its body; /full, once the server has read as much of it as it holds."""

    def __init__(self) -> None:
        async def app(scope, receive, send) -> None:
            if scope["path"] == "/full":
                await until(lambda: all(one.flow.read_paused for one in self.state.connections))
            length = (b"content-length", b"%d" % len(REFUSED))
            await send({"type": "http.response.start", "status": 415, "headers": [length]})
            await send({"type": "http.response.body", "body": REFUSED})

        super().__init__(app)


@pytest.mark.parametrize("path", [b"/", b"/full"])
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("loop", LOOPS)
def test_the_last_answer_of_a_connection_reaches_a_client_that_sends_on(loop, last, path, monkeypatch):
    """It reads only when it has sent all, as most clients do."""
    monkeypatch.setattr(http_protocol, "LINGER_S", 30.0)

    async def story() -> None:
        asked = asyncio.get_running_loop()
        async with running(Server()) as server, asyncio.timeout(20):
            with socket.socket() as client:
                client.setblocking(False)
                await asked.sock_connect(client, ("127.0.0.1", server.port))
                await asked.sock_sendall(client, LAST[last] % (path, LENGTH))
                await asked.sock_sendall(client, bytes(LENGTH))
                answer = b""
                while part := await asked.sock_recv(client, 65_536):
                    answer += part
        assert answer.startswith(b"HTTP/1.1 415 ")
        assert b"connection: close" in answer
        assert answer.endswith(REFUSED)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())


async def test_a_connection_whose_last_request_is_there_is_closed_at_once(monkeypatch):
    """Nothing is left to be read, although the client keeps its end open."""
    monkeypatch.setattr(http_protocol, "LINGER_S", 60.0)
    async with running(Server()) as server:
        reader, writer = await server.connect()
        writer.write(LAST["close"] % (b"/", 5) + b"hello")
        assert (await reader.read()).endswith(REFUSED)
        await until(lambda: not server.state.connections, within_s=20.0)


async def answered(server, head):
    """A connection whose request was answered before its body is sent, and the server's end of it."""
    reader, writer = await server.connect()
    writer.write(head)
    assert REFUSED == (await read_answer(reader))[1]
    (protocol,) = server.state.connections
    return reader, writer, protocol


async def test_the_rest_of_a_body_is_no_head(monkeypatch):
    """However long it takes, if it comes fast enough; the next request is answered."""
    async with running(Server()) as server:
        reader, writer, protocol = await answered(server, POST)
        monkeypatch.setattr(http_protocol, "HEAD_S", 0.0)
        writer.write(b"x" * 999)
        await until(lambda: not protocol.timeout_keep_alive_task)
        writer.write(b"x" + GET + b"\r\n" + POST)
        assert [415, 415] == [status((await read_answer(reader))[0]) for _ in range(2)]
        writer.write(b"x" * 1000 + GET[:20])
        assert b"" == await asyncio.wait_for(reader.read(), 4)  # a head it is


async def test_an_idle_connection_is_kept_from_the_end_of_the_body(monkeypatch):
    """As long as from an answer, not as long as a head may take."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 60.0)
    async with running(Server()) as server:
        for body in ([b"x" * 1000], [b"x", b"x" * 999]):
            reader, writer, protocol = await answered(server, POST)
            protocol.timeout_keep_alive = 0.1
            for part in body:
                before = protocol._body_bytes
                writer.write(part)
                await until(lambda: protocol._body_bytes == before + len(part))  # noqa: B023
            assert b"" == await asyncio.wait_for(reader.read(), 4)
            await until(lambda: not server.state.connections)


@pytest.mark.parametrize(("head", "part"), [(POST, b"x" * 999), (CHUNKED, b"zz\r\n")], ids=["slow", "broken"])
async def test_what_is_wrong_with_the_rest_of_a_body_is_not_answered(head, part, monkeypatch):
    """The request has its answer; the connection is closed."""
    monkeypatch.setattr(progress, "STALL_S", 0.1)
    async with running(Server()) as server:
        reader, writer, _ = await answered(server, head)
        writer.write(part)
        assert b"" == await asyncio.wait_for(reader.read(), 4)
        assert [] == server.refused
