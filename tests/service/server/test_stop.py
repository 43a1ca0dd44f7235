"""How a service ends: the drain before it, the grace of it, and the process after it."""

import asyncio
import logging
import signal
import subprocess
import sys

import pytest
from redis import Redis

from service.app import Grace, leave
from service.embedded import EmbeddedStore
from service.main import Drain, _not_repeated
from service.server import http_protocol, progress
from service.server.progress import untaken_bytes
from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import GET, POST, status
from tests.service.server.test_slow_readers import client_of
from tests.service.waiting import until


def test_the_stop_is_due_when_the_drain_is_over():
    """It begins once; who asks for the stop again gets it now."""
    now, begun = 100.0, []
    drain = Drain(5.0, lambda: begun.append(now), lambda: now)
    assert (False, True, False) == (drain.over, drain.begin(), drain.begin())
    now = 104.9
    assert not drain.over
    now = 105.0
    assert (True, [100.0]) == (drain.over, begun)


def test_without_a_drain_a_stop_is_one():
    """The default: nobody waits where there is no balancer."""
    drain = Drain(0.0, lambda: pytest.fail("it has begun"))
    assert (False, False) == (drain.begin(), drain.over)


async def test_a_service_that_leaves_is_not_ready_and_answers(start):
    """Balancers send nothing more; what they sent before they looked is learned."""
    api = await start()
    path = await api.learnt()
    leave(api.app)
    answer = await api.ask("GET", "/readyz")
    assert (503, False, "up") == (answer.status_code, answer.json()["checks"]["stays"], answer.json()["store"])
    await api.post(f"{path}/feedback", {"features": {"a": 1, "b": 2}, "label": "UP"})


def test_requests_and_snapshots_share_the_grace_period():
    """It begins when the stop is asked for, not when the requests are done, and is never begun again."""
    now = 100.0
    grace = Grace(20.0, lambda: now)
    assert (20.0, 10.0) == (grace.left_s, grace.for_requests_s)
    grace.begin()
    now += grace.for_requests_s
    grace.begin()
    assert 10.0 == grace.left_s
    now += 50.0
    assert 0.0 == grace.left_s


async def test_slow_clients_do_not_hold_up_a_stop(monkeypatch):
    """A body that does not come is refused, an answer that is not read is cut; what was asked in full is answered."""
    monkeypatch.setattr(http_protocol, "STOP_STALL_S", 0.2)
    async with running(LocalServer(long_answer)) as server:
        silent, asked, deaf = [await server.connect() for _ in range(3)]
        silent[1].write(POST)
        asked[1].write(GET + b"\r\n")
        with await client_of(server) as reading_nothing:
            await asyncio.get_running_loop().sock_sendall(reading_nothing, GET.replace(b"/ ", b"/long ") + b"\r\n")
            await until(lambda: any(own.transport.get_write_buffer_size() for own in server.state.connections))
            for connection in [*server.state.connections]:
                connection.shutdown()
            refused = await asyncio.wait_for(silent[0].read(), 5)
            assert (408, True) == (status(refused), b"in 0.2 s" in refused)
            assert 200 == status(await asyncio.wait_for(asked[0].read(), 5))
            assert b"" == await asyncio.wait_for(deaf[0].read(), 5)
            async with asyncio.timeout(5):
                while server.state.connections:
                    await asyncio.sleep(0.01)


async def test_a_slow_client_that_reads_is_not_cut_by_a_stop(monkeypatch):
    """What it takes counts before the socket has room for more, and an answer that begins has its own time."""
    monkeypatch.setattr(progress, "STALL_S", 36_000)
    monkeypatch.setattr(http_protocol, "STOP_STALL_S", 3600)
    monkeypatch.setattr(progress, "BYTES_PER_S", 8192 / 3600)
    loop = asyncio.get_running_loop()
    async with running(LocalServer(long_answer)) as server:
        with await client_of(server) as client:
            await loop.sock_sendall(client, GET.replace(b"/ ", b"/long ") + b"\r\n")
            (own,) = await until(lambda: [one for one in server.state.connections if one.flow.write_paused])
            held = own.transport.get_write_buffer_size()
            before = untaken_bytes(own.transport)
            own.resume_writing()  # so that no watch is on, as at the end of an answer
            own.shutdown()
            begun = own._answer._timer
            own.pause_writing()
            assert (True, True) == (begun.cancelled(), own._answer.begun)
            while before - untaken_bytes(own.transport) < 8192:
                await asyncio.wait_for(loop.sock_recv(client, 1024), 10)
            assert held == own.transport.get_write_buffer_size()
            own._answer._look()
            assert own._answer.begun


async def test_a_request_that_is_cut_off_by_a_stop_leaves_no_traceback(caplog):
    """The server says in one line how many there were; other failures of an app are logged."""
    log = logging.getLogger("uvicorn.error")
    log.addFilter(_not_repeated)
    try:
        for failure in (asyncio.CancelledError(), ValueError()):

            async def app(scope, receive, send, failure=failure) -> None:
                raise failure

            async with running(LocalServer(app)) as server:
                await server.answer(GET + b"Connection: close\r\n\r\n")
    finally:
        log.removeFilter(_not_repeated)
    assert [ValueError] == [line.exc_info[0] for line in caplog.records if line.levelno == logging.ERROR]


async def long_answer(scope, receive, send) -> None:
    """Takes the body; answers at /long more than a connection buffers, elsewhere a second later."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    body = bytes(2**24 if scope["path"] == "/long" else 1)
    await asyncio.sleep(0 if len(body) > 1 else 1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


HELD = """
import asyncio, signal, sys, threading
from service import main
from service.app import Grace
from service.settings import Settings

async def app(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
        await send({"type": message["type"] + ".complete"})

app.root_path, app.state = "", None
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # as ``onepass serve`` does
settings = Settings(redis_url="redis://nowhere")
config = main.uvicorn.Config(app, port=0, log_config=None)
main.Server(config, main.Gate(10, print), app, settings, Grace(1.0)).run()
"""
"""A service with a thread that never ends."""


def test_a_thread_that_still_learns_does_not_hold_up_the_end() -> None:
    """The process ends after its stop, with status 0, although asyncio and Python would wait for the thread."""
    with subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline().startswith(b"Onepass serves on http://127.0.0.1:")
            child.send_signal(signal.SIGTERM)
            assert 0 == child.wait(60)
        finally:
            child.kill()


LOADING = """
import logging, sys
from pathlib import Path
from service import embedded, main
from service.settings import Settings

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
options = embedded.EmbeddedStore._options
embedded.EmbeddedStore._options = lambda self: [*options(self), "--key-load-delay", "500"]
embedded.LOADING_SAID_S = 0.2
settings = Settings(data_dir=Path(sys.argv[1]), port=0, drain_s=60)
sys.exit(main.run(settings, keys_file=None, ssl={}))
"""
"""A service whose store takes more than ten seconds to load."""


def test_a_service_that_waits_for_its_store_to_load_ends_at_once(tmp_path) -> None:
    """With status 0, and without a drain: it has served nobody yet."""
    store = EmbeddedStore(tmp_path, "everysec")
    with Redis.from_url(store.start()) as redis:
        redis.eval("for key = 1, 20000 do redis.call('SET', key, key) end", 0)
    store.stop()
    with subprocess.Popen([sys.executable, "-c", LOADING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert any("is loading its data" in line for line in child.stdout)
            child.send_signal(signal.SIGTERM)
            assert 0 == child.wait(15)
            said = child.stdout.read()
            assert "told to stop before the private store was ready" in said
            assert "Traceback" not in said
            assert "ERROR" not in said
        finally:
            child.kill()
    assert store.start()
    store.stop()
