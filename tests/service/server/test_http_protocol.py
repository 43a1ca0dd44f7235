"""What a connection may send before it is a request, how long it may take, and how many there may be."""

import asyncio
import contextlib
import json
import resource
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from service.server import descriptors, http_protocol, progress
from service.server.http_protocol import HEAD_LINES_MAX, HEAD_S, REFUSED_OPEN_MAX
from tests.faults.processes import eventually
from tests.service.client.test_serving import await_listening, serving
from tests.service.local_server import LocalServer, running
from tests.service.waiting import until

SENT_MAX = 8 * 2**20
"""Bytes after which a client that is never refused gives up."""
GET = b"GET / HTTP/1.1\r\nHost: h\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


async def echo(scope, receive, send) -> None:
    """Answers the path and the length of the body, once it is there."""
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message["body"]), message["more_body"]
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    said = f"{scope['path']} {length}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


def served(connections_max: int = 100) -> contextlib.AbstractAsyncContextManager[LocalServer]:
    """A server of ``echo``."""
    return running(LocalServer(echo, connections_max))


async def read_answer(reader) -> tuple[bytes, bytes]:
    """Head and body of the next answer."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    (length,) = [line.split(b":")[1] for line in head.splitlines() if line.lower().startswith(b"content-length")]
    return head, await reader.readexactly(int(length))


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def problem(answer: bytes) -> dict:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert b"connection: close" in head
    return json.loads(body)


ENDLESS = {
    "header lines": (GET, b"X-A: b\r\n"),
    "one header": (GET + b"X-A: ", b"b" * 100),
    "a path": (b"GET /", b"a" * 100),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"X-A: b\r\n"),
    "one trailer": (CHUNKED + b"1\r\nx\r\n0\r\nX-A: ", b"b" * 100),
    "the extension of a chunk": (CHUNKED + b"1;a=", b"b" * 100),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_never_ends_is_431(what):
    """Whatever of a head, of trailers or of a chunk's line has no end is refused within bounds, then closed."""
    begin, again = ENDLESS[what]
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(begin)
        answered = asyncio.create_task(reader.read())
        sent = 0
        while not answered.done() and sent < SENT_MAX:
            part = again * (16_384 // len(again))
            writer.write(part)
            sent += len(part)
            await asyncio.sleep(0)
            await asyncio.wait_for(writer.drain(), 10)
        answer = await asyncio.wait_for(answered, 10)
        assert (431, "/problems/head-too-large") == (status(answer), problem(answer)["type"])
        assert SENT_MAX > sent
        assert [431] == server.refused


async def test_as_many_lines_as_may_be_are_taken():
    """The bound itself is allowed, one more is not; test_segments.py has the bytes."""
    lines = b"".join(b"X-%d: b\r\n" % n for n in range(HEAD_LINES_MAX - 2)) + b"Connection: close\r\n"
    async with served() as server:
        assert 200 == status(await server.answer(GET + lines + b"\r\n"))
        assert 431 == status(await server.answer(GET + b"One: more\r\n" + lines + b"\r\n"))


async def test_requests_on_one_connection_count_alone():
    """Heads are counted one by one, and a long body in small chunks is no head."""
    request = CHUNKED + b"400;x=y\r\n%b\r\n" % (b"x" * 1024) * 4096 + b"0\r\nA: b\r\n\r\n"
    heads = (GET + b"X: %b\r\n\r\n" % (b"b" * 60_000)) * 4
    async with served() as server:
        answer = await server.answer(request + heads + GET + b"Connection: close\r\n\r\n")
        assert 6 == answer.count(b"HTTP/1.1 200 OK")
        assert 1 == answer.count(b"/ 4194304")
        assert [] == server.refused


CHUNKS = b"\r\n1\r\nx\r\n0\r\n\r\n"
CODED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
AMBIGUOUS = {
    "no HTTP": (b"hello\r\n\r\n", ""),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", "Host"),
    "two Hosts": (GET + b"Host: h\r\n\r\n", "Host"),
    "two Hosts in 1.0": (GET.replace(b"1.1", b"1.0") + b"Host: h\r\n\r\n", "Host"),
    "chunks in 1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" + CHUNKS, "Transfer-Encoding"),
    "identity, chunked": (CODED + b"identity, chunked\r\n" + CHUNKS, "Transfer-Encoding"),
    "chunked twice": (CODED + b"gzip\r\nTransfer-Encoding: chunked\r\n" + CHUNKS, "Transfer-Encoding"),
}


@pytest.mark.parametrize("what", AMBIGUOUS)
async def test_a_head_that_others_may_read_otherwise_is_refused(what):
    """400 with what is wrong, and closed: a proxy in front may have taken it for something else."""
    sent, named = AMBIGUOUS[what]
    async with served() as server:
        answer = await server.answer(sent)
        assert (400, "/problems/bad-head") == (status(answer), problem(answer)["type"])
        assert named in problem(answer)["detail"]
        assert [400] == server.refused


@pytest.mark.parametrize("head", [b"GET / HTTP/1.0\r\n\r\n", CHUNKED.replace(b"chunked", b"Chunked") + CHUNKS[2:]])
async def test_what_is_usual_is_taken(head):
    """HTTP/1.0 needs no Host, and names of codings are read in any case."""
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(head)
        assert 200 == status(await reader.readuntil(b"\r\n\r\n"))


@pytest.mark.parametrize("known", [False, True])
async def test_http_1_0_gets_no_chunks(known):
    """RFC 9112, 6.1: an answer whose length is not known ends with the connection, after 2 MB, too."""
    parts = [b"one", b"", b"2" * 2**21, b""]

    async def stream(scope, receive, send):
        length = [(b"content-length", b"%d" % len(b"".join(parts)))] if known else []
        await send({"type": "http.response.start", "status": 200, "headers": length})
        for more, part in zip((1, 1, 1, 0), parts, strict=True):
            await send({"type": "http.response.body", "body": part, "more_body": bool(more)})

    async with running(LocalServer(stream)) as server:
        head, _, body = (await server.answer(b"GET / HTTP/1.0\r\n\r\n")).partition(b"\r\n\r\n")
        assert (known, False) == (b"content-length" in head, b"transfer-encoding" in head)
        assert b"connection: close" in head
        assert b"".join(parts) == body
        upgrade = b"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
        assert (await server.answer(upgrade)).endswith(b"\r\n\r\n" + body)
        answers = await server.answer(GET + b"\r\n" + upgrade)  # the first one in HTTP/1.1
        head, _, first = answers.partition(b"\r\n\r\n")
        assert known or (b"transfer-encoding" in head and first.startswith(b"3\r\none\r\n"))
        assert (2, 1) == (answers.count(b"HTTP/1.1 200"), answers.count(b"connection: close"))


@pytest.mark.parametrize("target", ["http://h", "http://h:80", "HTTP://h?a=b", "http://h/", "http://h/?a=b"])
async def test_a_target_without_a_path_is_the_root(target):
    """As a client of a proxy sends it."""
    async with served() as server:
        answer = await server.answer(f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        assert (200, True) == (status(answer), answer.endswith(b"\r\n/ 0"))


async def test_a_bad_head_does_not_take_the_answer_of_the_request_before_it():
    """The first request of a connection gets its own answer, then the connection is closed."""
    async with served() as server:
        answer = await server.answer(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n" + GET + b"X-A: b\r\n" * 200 + b"\r\n")
        assert (200, True) == (status(answer), answer.endswith(b"/slow 0"))


async def test_slow_heads_and_silent_connections_are_closed(monkeypatch):
    """Nothing sent, half a head, or blank lines after an answer: closed in bounded time; a slow answer is not."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.1)
    async with served() as server:
        for sent in (b"", GET, b"\r\n", GET + b"\r\n" + GET):
            answer = await asyncio.wait_for(server.answer(sent), 4)  # uvicorn's own bound comes after five seconds
            assert sent.count(b"\r\n\r\n") == answer.count(b"HTTP/1.1 200")
        reader, writer = await server.connect()
        writer.write(GET + b"\r\n")
        assert 200 == status(await reader.readuntil(b"/ 0"))
        writer.write(b"\r\n")
        assert b"" == await asyncio.wait_for(reader.read(), 4)
        slow = b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"
        assert b"/slow 0" in await server.answer(slow + GET)
        assert [] == server.refused


async def test_a_connection_that_is_reset_leaves_nothing_behind():
    """Its pause between requests ends with it: the timer would keep the whole connection in memory."""
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(GET + b"\r\n")
        await read_answer(reader)
        (own,) = server.state.connections
        assert own.timeout_keep_alive_task is not None
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        await until(lambda: not server.state.connections)
        assert own.timeout_keep_alive_task is None


async def test_connections_beyond_the_bound_get_503():
    """With Retry-After, once they ask; when others have left, a connection is served as ever."""
    async with served(2) as server:
        held = [await server.connect() for _ in range(2)]
        answer = await server.answer(GET + b"\r\n")
        assert (503, "/problems/connections-full") == (status(answer), problem(answer)["type"])
        assert b"retry-after: 5" in answer
        late, writer = await server.connect()
        held[0][1].close()
        await asyncio.sleep(0.05)
        writer.write(GET + b"\r\n")
        assert 200 == status(await late.readuntil(b"/ 0"))
        held[1][1].write(GET + b"\r\n")
        assert 200 == status(await held[1][0].readuntil(b"/ 0"))
        assert [503] == server.refused


async def test_slow_heads_keep_nobody_out_for_long(monkeypatch):
    """They take every place, a byte now and then; an honest client gets 503 at first, and is served after HEAD_S."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 2.0)
    async with served(50) as server:
        slow = [await server.connect() for _ in range(50)]

        async def drip() -> None:
            while True:
                for _, writer in slow:
                    writer.write(b"X")
                await asyncio.sleep(0.1)

        dripping, asked = asyncio.create_task(drip()), GET + b"Connection: close\r\n\r\n"
        try:
            found = [status(await server.answer(asked))]
            async with asyncio.timeout(60):
                while found[-1] == 503:
                    await asyncio.sleep(0.1)
                    found.append(status(await server.answer(asked)))
                while server.state.connections:
                    await asyncio.sleep(0.1)
            assert (503, 200) == (found[0], found[-1])
        finally:
            dripping.cancel()


async def test_even_refused_connections_are_bounded(caplog):
    """Far beyond the bound they are closed at once, and one line in the log stands for all of them."""
    async with served(1) as server:
        held = [await server.connect() for _ in range(1 + REFUSED_OPEN_MAX)]
        reader, _ = await server.connect()
        with contextlib.suppress(ConnectionResetError):
            assert b"" == await asyncio.wait_for(reader.read(), 0.5)  # the others have a second to say something
        for _, writer in held[1:]:
            writer.write(GET + b"\r\n")
        assert {503} == {status(await asyncio.wait_for(reader.read(), 10)) for reader, _ in held[1:]}
        assert [503] * (1 + REFUSED_OPEN_MAX) == server.refused
        assert 1 == sum("ONEPASS_CONNECTIONS_MAX" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("limit", "wanted", "granted"),
    [(256, 10_000, 192), (1024, 10_000, 896), (20_000, 10_000, 10_000), (64, 10_000, 8), (1024, 20, 20)],
)
def test_some_descriptors_are_never_the_clients(limit, wanted, granted):
    """An eighth, and 64 at least, are kept for the store and the process itself."""
    assert granted == descriptors.for_clients(limit, wanted)


LIMITS = """
import resource
from service.server import descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
print(descriptors.raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one():
    """In a process of its own: a hard limit cannot be raised again."""
    root = Path(http_protocol.__file__).parents[1]
    said = subprocess.run([sys.executable, "-c", LIMITS], capture_output=True, text=True, cwd=root, check=True)
    assert "200 200 200" == said.stdout.strip()


POST = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"x" * 999])
async def test_a_body_that_does_not_come_is_refused(monkeypatch, sent):
    """408 and closed, also where only its last byte is missing; the endpoint finds its client gone."""
    monkeypatch.setattr(progress, "STALL_S", 0.1)
    async with served() as server:
        answer = await server.answer(POST + sent)
        assert (408, "/problems/too-late") == (status(answer), problem(answer)["type"])
        assert [408] == server.refused


async def test_a_body_that_comes_too_slowly_is_refused(monkeypatch):
    """However often some of it comes; one that comes slowly but fast enough is taken."""
    monkeypatch.setattr(progress, "STALL_S", 0.2)
    for rate, expected in ((0, 200), (10**6, 408)):
        monkeypatch.setattr(progress, "BYTES_PER_S", rate)
        async with served() as server:
            reader, writer = await server.connect()
            writer.write(POST)
            answered = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
            for _ in range(100):
                if not answered.done():  # what is sent to a connection that is closed costs the answer
                    writer.write(b"x" * 10)
                await asyncio.sleep(0.01)
            assert expected == status(await answered)


async def test_every_body_of_a_connection_has_its_own_time(monkeypatch):
    """A body that begins just before the one before it would have been looked at is given the whole pause."""
    monkeypatch.setattr(progress, "STALL_S", 0.3)
    async with served() as server:
        reader, writer = await server.connect()
        for _ in range(4):
            writer.write(POST + b"x" * 500)
            await asyncio.sleep(0.2)
            writer.write(b"x" * 500)
            assert 200 == status(await reader.readuntil(b"/b 1000"))
        assert [] == server.refused


IDLE, SPARE = 10_000, 300
"""Connections, and descriptors that this process needs beside."""
BYTES_EACH = 24_000
"""What the service may take for one of them."""


@pytest.fixture
def room():
    """Descriptors for all connections at both ends, which are two processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE * 9 // 8 + SPARE:
        pytest.skip(f"NOT TESTED: {IDLE} idle connections need ulimit -Hn {IDLE * 9 // 8 + SPARE}, and it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_ten_thousand_idle_connections(tmp_path, room):
    """Rows are still learned and predicted; one connection too many gets 503."""
    with serving(tmp_path) as (child, url), httpx.Client(base_url=url, timeout=60) as client, ExitStack() as held:
        await_listening(url)
        assert 200 == eventually(200, lambda: client.get("/readyz").status_code)
        client.put("/models/m", json={"algorithm": "rls", "task": "regression"}).raise_for_status()
        row = {"features": {"a": 1.0}, "label": 2.0}
        assert 1 == client.post("/models/m/feedback", json=row).json()["version"]
        before = psutil.Process(child.pid).memory_info().rss
        began, address = time.monotonic(), (client.base_url.host, client.base_url.port)
        idle = [held.enter_context(socket.create_connection(address, 60)) for _ in range(IDLE - 1)]
        assert 2 == client.post("/models/m/feedback", json=row).json()["version"]
        client.post("/models/m/predict", json={"features": {"a": 1.0}}).raise_for_status()
        if time.monotonic() < began + HEAD_S / 2:  # on a busy machine some of them are gone by now
            assert 503 == httpx.get(f"{url}/healthz", timeout=60).status_code
        assert BYTES_EACH * IDLE > psutil.Process(child.pid).memory_info().rss - before
        for one in idle:
            one.close()
        assert 200 == eventually(200, lambda: httpx.get(f"{url}/healthz", timeout=60).status_code)
