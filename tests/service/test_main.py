"""The end of the process that serves."""

import signal
import subprocess
import sys

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
main.Server(config, app, settings, Grace(1.0)).run()
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
