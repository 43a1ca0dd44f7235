"""Clients that send no more once they have asked: what was asked in full is answered, and nothing is kept for them."""

import asyncio

import pytest

from service.server import http_protocol
from tests.service.local_server import running
from tests.service.server.test_http_protocol import GET, POST, read_answer, status
from tests.service.server.test_pipelining import HEALTH, Server
from tests.service.server.test_tls import LOOPS, SecureServer, ca, pem  # noqa: F401  fixtures
from tests.service.waiting import until

SLOW = b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"


async def last_answer(server, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """What comes back until the server closes, to a client that sends no more."""
    reader, writer = await server.connect()
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause_s)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 10)
    await until(lambda: not server.state.connections)
    return answer


def on_each_loop(story):
    """A test that runs a story with a server, on each of the loops."""

    async def told():
        async with running(Server()) as server:
            await story(server)

    @pytest.mark.parametrize("loop", LOOPS)
    def test(loop):
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(told())

    return test


@on_each_loop
async def test_what_was_asked_in_full_is_answered(server):
    """With and without a body, at once or slowly, however many wait; then the connection is closed."""
    for sent, said in ((GET + b"\r\n", b"/ 0"), (POST + b"x" * 1000, b"/b 1000"), (SLOW, b"/slow 0")):
        answer = await last_answer(server, sent)
        assert (200, True) == (status(answer), answer.endswith(said))
    assert b"connection: close" in answer
    for last, count in ((SLOW, 2), (HEALTH, 1)):
        answer = await last_answer(server, SLOW + HEALTH * 10 + last)
        assert [12, count] == [answer.count(said) for said in (b"HTTP/1.1 200", b"/slow 0")]
    large = POST.replace(b"1000", b"300000") + b"x" * 300_000
    assert (await last_answer(server, large, pause_s=0.05)).endswith(b"/b 300000")


@on_each_loop
async def test_half_a_request_is_dropped(server):
    """Half a head, half a body, or nothing: closed at once; what was asked in full before it is answered."""
    for half in (b"", b"\r\n", GET, POST, POST + b"x" * 999):
        assert b"" == await last_answer(server, half)
        answer = await last_answer(server, SLOW + half)
        assert (1, True) == (answer.count(b"HTTP/1.1 "), answer.endswith(b"/slow 0"))
    reader, writer = await server.connect()
    writer.write(GET + b"\r\n")
    assert b"/ 0" == (await read_answer(reader))[1]
    writer.write_eof()
    assert b"" == await asyncio.wait_for(reader.read(), 3)  # the idle connection would be kept for five seconds
    assert [] == server.refused


@on_each_loop
async def test_a_stream_ends(server):
    """Whether it had begun or not: a client that has left looks no different."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(http_protocol, "STREAM_S", 0.05)
        for target in (b"/endless HTTP/1.1", b"/late HTTP/1.1", b"/endless HTTP/1.0"):
            before = server.ended
            answer = await last_answer(server, GET.replace(b"/ HTTP/1.1", target) + b"\r\n", pause_s=0.05)
            assert 200 == status(answer)
            await until(lambda before=before: server.ended > before)
    assert 0 == server.streams


@on_each_loop
async def test_a_client_that_has_left_is_forgotten(server):
    """Its request is answered to nobody, and its connection counts no more."""
    _, writer = await server.connect()
    writer.write(SLOW)
    await until(lambda: server.state.tasks)
    writer.close()
    await until(lambda: not server.state.connections)
    await until(lambda: not server.state.tasks)


@on_each_loop
async def test_a_stop_waits_for_the_answer(server):
    """And for nothing else."""
    reader, writer = await server.connect()
    writer.write(SLOW)
    writer.write_eof()
    await until(lambda: server.state.tasks)
    await asyncio.sleep(0.05)
    for connection in list(server.state.connections):
        connection.shutdown()
    assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"/slow 0")
    await until(lambda: not server.state.connections)


@pytest.mark.parametrize("loop", LOOPS)
def test_tls_has_no_half_closed_connections(loop, ca, pem, caplog):  # noqa: F811  fixtures
    """Its end is that of both directions; the loop has nothing to say about it."""

    async def story():
        async with running(SecureServer(pem, ca)) as server:
            _, writer = await server.connect()
            writer.write(SLOW)
            await until(lambda: server.state.tasks)
            writer.close()
            await until(lambda: not server.state.connections)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())
    assert not [line for line in caplog.messages if "eof_received" in line]
