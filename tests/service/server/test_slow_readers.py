"""Clients that do not take their answers: what is held for them is bounded, and given back in time."""

import asyncio
import contextlib
import socket

from service.api.models.documents import LARGE_BYTES
from service.server import progress
from tests.service.api_fixtures import RLS, problem
from tests.service.local_server import LocalServer, running
from tests.service.waiting import until

PIECE = bytes(65_536)
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Endless:
    """An app whose answer does not end: the pieces that the server has taken, and whether its client is gone."""

    def __init__(self) -> None:
        self.sent, self.ended = 0, asyncio.Event()

    async def __call__(self, scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.create_task(self._gone(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            self.sent += 1
            await asyncio.sleep(0)
        self.ended.set()

    async def _gone(self, receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


async def client_of(server):
    """A connection whose client buffers little."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", server.port))
    return plain


async def test_a_client_that_reads_nothing_is_cut_off(monkeypatch, caplog):
    """The endpoint is held back, then finds it gone; nobody else notices."""
    monkeypatch.setattr(progress, "STALL_S", 0.3)
    caplog.set_level("INFO")
    app = Endless()
    async with running(LocalServer(app)) as server:
        with await client_of(server) as client:
            await asyncio.get_running_loop().sock_sendall(client, GET)
            await asyncio.wait_for(app.ended.wait(), 20)
    assert app.sent * len(PIECE) < 32 * 2**20
    assert any("slow reader" in message for message in caplog.messages)


async def test_a_client_that_reads_slowly_is_not(monkeypatch):
    """One that takes what is asked for in time is never cut, however far it is behind."""
    monkeypatch.setattr(progress, "STALL_S", 0.2)
    monkeypatch.setattr(progress, "BYTES_PER_S", 1)
    app, loop = Endless(), asyncio.get_running_loop()
    async with running(LocalServer(app)) as server:
        with await client_of(server) as client:
            await loop.sock_sendall(client, GET)
            looked = []
            monkeypatch.setattr(progress.Progress, "begin", _noting(progress.Progress.begin, looked))
            async with asyncio.timeout(30):
                while len(looked) < 4:  # as often as it would have been cut if it had taken nothing
                    for _ in range(64):
                        await loop.sock_recv(client, len(PIECE))
                    await asyncio.sleep(0.01)
            assert not app.ended.is_set()


def _noting(call, noted):
    def looking(self):
        noted.append(self)
        call(self)

    return looking


async def test_a_state_that_is_not_taken_is_given_back(api, monkeypatch):
    """Clients that ask for states and read none of them fill the budget of states, and not for ever."""
    monkeypatch.setattr(progress, "STALL_S", 0.5)
    names = [f"f{column}" for column in range(1_200)]
    path = await api.new(RLS, features=names, watch=None)
    budget = api.engine.state_budget
    ask = GET.replace(b"/ ", f"{path}/state ".encode(), 1)
    async with running(LocalServer(api.app)) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                client = stack.enter_context(await client_of(server))
                await asyncio.get_running_loop().sock_sendall(client, ask)
            await until(lambda: budget.used)
            await until(lambda: not budget.used)
        assert 200 == (await api.ask("GET", path)).status_code


async def test_a_large_document_that_is_not_taken_is_counted(api, monkeypatch):
    """Until its client is cut off: past the bound a document is 503, to others as to the same; small ones are not."""
    monkeypatch.setattr(progress, "STALL_S", 0.5)
    names = [f"f{column}" for column in range(600)]
    path = await api.new(RLS, features=names, watch=None)
    await api.post(f"{path}/feedback", {"features": {name: at / 7 for at, name in enumerate(names)}, "label": 1.0})
    budget, whole = api.engine.state_budget, await api.ask("GET", f"{path}/posterior")
    size = len(whole.content)
    assert size > LARGE_BYTES
    assert (200, str(size), 0) == (whole.status_code, whole.headers["content-length"], budget.used)
    monkeypatch.setattr(budget, "most", 2 * size)
    ask = GET.replace(b"/ ", f"{path}/posterior ".encode(), 1)
    async with running(LocalServer(api.app)) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                client = stack.enter_context(await client_of(server))
                await asyncio.get_running_loop().sock_sendall(client, ask)
            await until(lambda: 2 * size == budget.used)
            answer = await api.ask("GET", f"{path}/posterior")
            refused = problem(answer, 503)
            assert ("/problems/queue-full", True) == (refused["type"], "retry-after" in answer.headers)
            await api.get(path)
            await until(lambda: not budget.used)
    assert whole.content == (await api.ask("GET", f"{path}/posterior")).content
