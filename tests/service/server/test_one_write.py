"""Answers leave in one write each at the end of a turn, in their order, and nothing is held for longer."""

import asyncio

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from service.server.http_protocol import Gate, bounded
from service.server.one_write import HELD_BYTES_MAX, Burst, Held
from tests.service.server.test_http_protocol import GET, echo

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Recorder:
    """A transport that records what it is told."""

    def __init__(self):
        self.told, self.closing = [], False

    def get_extra_info(self, _):
        return None

    def is_closing(self):
        return self.closing

    def write(self, data):
        self.told.append(data)

    def pause_reading(self):
        self.told.append("pause")

    def resume_reading(self):
        self.told.append("read")

    def write_eof(self):
        self.told.append("eof")

    def can_write_eof(self):
        return True

    def close(self):
        self.told.append("close")

    def abort(self):
        self.told.append("abort")


@pytest.fixture
async def connection():
    """(the transport as the protocol has it, what the real one was told)."""
    recorder, loop = Recorder(), asyncio.get_running_loop()
    return Held(recorder, Burst(loop), loop), recorder


async def test_head_and_body_are_one_write(connection):
    """Also when the next answer follows at once."""
    transport, recorder = connection
    for _ in range(2):
        transport.write(HEAD)
        transport.write(b"ok")
    assert [] == recorder.told
    await asyncio.sleep(0)
    assert [(HEAD + b"ok") * 2] == recorder.told
    transport.write(HEAD)
    await asyncio.sleep(0)
    assert [(HEAD + b"ok") * 2, HEAD] == recorder.told


async def test_the_answers_of_all_connections_leave_together():
    """In the order in which they were ready."""
    told, loop = [], asyncio.get_running_loop()
    burst, transports = Burst(loop), []
    for _ in range(3):
        recorder = Recorder()
        recorder.told = told
        transports.append(Held(recorder, burst, loop))
    for number, transport in enumerate(transports):
        transport.write(b"%d" % number)
        assert [] == told
    transports[0].abort()
    await asyncio.sleep(0)
    assert ["abort", b"1", b"2"] == told


@pytest.mark.parametrize(("requests", "turns"), [(1, 1), (2, 2)])
async def test_an_only_answer_does_not_wait(requests, turns):
    """It leaves in the turn in which it is made, others in the next; in one write, all the same."""
    config, state = Config(echo, lifespan="off", log_config=None), ServerState()
    config.load()
    opened, recorders = bounded(Gate(100, lambda status: None)), [Recorder() for _ in range(requests)]
    for recorder in recorders:
        protocol = opened(config=config, server_state=state, app_state={})
        protocol.connection_made(recorder)
        protocol.data_received(GET + b"\r\n")
    for _ in range(turns):
        assert [[]] * requests == [recorder.told for recorder in recorders]
        await asyncio.sleep(0)
    assert [1] * requests == [len(recorder.told) for recorder in recorders]
    assert all(recorder.told[0].endswith(b"/ 0") for recorder in recorders)
    for protocol in [*state.connections]:
        protocol.connection_lost(None)


async def test_a_close_that_lingers(connection):
    """It reads on, closes for writing at once, and for good later, once; the next close is an ordinary one."""
    transport, recorder = connection
    transport.linger_s = 0.01
    transport.write(HEAD)
    transport.close()
    assert [HEAD, "read", "eof"] == recorder.told
    await asyncio.sleep(0.05)
    assert [HEAD, "read", "eof", "abort"] == recorder.told
    transport.close()
    assert [HEAD, "read", "eof", "abort", "close"] == recorder.told


async def test_what_is_written_after_a_close_is_dropped(connection):
    """However much it is: a connection that closes for writing first would raise."""
    transport, recorder = connection
    transport.linger_s = 0.01
    transport.close()
    for late in (b"late", b"x" * (HELD_BYTES_MAX + 1)):
        assert transport.is_closing()
        transport.write(late)
        await asyncio.sleep(0)
    assert ["read", "eof"] == recorder.told


async def test_one_connection_that_takes_nothing_more_does_not_keep_the_others_waiting():
    """As one does that uvloop has closed for writing meanwhile."""
    loop = asyncio.get_running_loop()
    burst, (broken, fine) = Burst(loop), (Recorder(), Recorder())

    def refuse(_):
        raise RuntimeError("Cannot call write() after write_eof()")

    broken.write = refuse
    for recorder in (broken, fine):
        Held(recorder, burst, loop).write(HEAD)
    await asyncio.sleep(0)
    assert (["abort"], [HEAD]) == (broken.told, fine.told)


async def test_a_large_body_is_not_copied(connection):
    """It is written at once, as it is."""
    transport, recorder = connection
    body = bytes(HELD_BYTES_MAX + 1)
    transport.write(body)
    assert body is recorder.told[0]


@pytest.mark.parametrize(("end", "told"), [("close", "close"), ("write_eof", "eof")])
async def test_what_is_held_is_written_before_the_end(connection, end, told):
    """A refusal without a body, then the end of the connection."""
    transport, recorder = connection
    transport.write(HEAD)
    getattr(transport, end)()
    await asyncio.sleep(0)
    assert [HEAD, told] == recorder.told


async def test_an_aborted_connection_is_written_nothing(connection):
    """Nor is one that its client has closed meanwhile."""
    transport, recorder = connection
    transport.write(HEAD)
    transport.abort()
    await asyncio.sleep(0)
    assert ["abort"] == recorder.told
    transport.write(HEAD)
    recorder.closing = True
    await asyncio.sleep(0)
    assert ["abort"] == recorder.told
