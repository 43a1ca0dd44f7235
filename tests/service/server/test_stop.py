"""How a service ends: the drain before it, the grace of it, and the process after it."""

import signal
import subprocess
import sys

import pytest

from service.app import Grace, leave
from service.main import Drain


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
