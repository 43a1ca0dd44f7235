"""Requests that are answered before their body is there: the answer is not lost, and the connection goes on."""

import asyncio
import socket

import pytest

from service.server import http_protocol
from tests.service.local_server import LocalServer, running
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
    """Nothing is left to be read."""
    monkeypatch.setattr(http_protocol, "LINGER_S", 30.0)
    async with running(Server()) as server:
        answer = await server.answer(LAST["close"] % (b"/", 5) + b"hello")
        assert answer.endswith(REFUSED)
        await until(lambda: not server.state.connections)
