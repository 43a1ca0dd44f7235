"""The process that serves: uvicorn around the app, from the first connection to an orderly stop.

Importing this module imports core, which compiles missing kernels; ``onepass serve`` compiles them before that.
"""

import asyncio
import logging
import os
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn

import core.numerics.lapack  # noqa: F401  before any kernel is loaded, for which Numba would import all of scipy.linalg
from service import memory_limit
from service.api.routes import App
from service.app import Grace, build, end_streams, leave, refused
from service.server import descriptors, handshakes
from service.server.http_protocol import Gate, bounded
from service.settings import Settings

logger = logging.getLogger(__name__)


class Drain:
    """The time between the request to stop and the stop: /readyz fails, but the service still answers every request.

    A balancer that checks /readyz moves the traffic meanwhile, so that no client meets a closed port. It lasts
    ``seconds`` (0: none); ``begun`` is called when it begins.
    """

    def __init__(self, seconds: float, begun: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        self._seconds, self._begun, self._clock = seconds, begun, clock
        self._until: float | None = None

    def begin(self) -> bool:
        """Begin; False if there is no drain or it has begun: a second request to stop means now."""
        if not self._seconds or self._until is not None:
            return False
        self._until = self._clock() + self._seconds
        self._begun()
        text = "stopping: still serving for %g s while load balancers move the traffic"
        Context().run(logger.info, text, self._seconds)  # without the id of the request that the signal interrupts
        return True

    @property
    def over(self) -> bool:
        """Whether the stop is due."""
        return self._until is not None and self._clock() >= self._until


class Server(uvicorn.Server):
    """The server of one app, with a drain before the stop, and ``grace``, the bound on everything after the drain."""

    def __init__(self, config: uvicorn.Config, gate: Gate, app: App, settings: Settings, grace: Grace) -> None:
        super().__init__(config)
        self._gate, self._app, self._settings, self._grace = gate, app, settings, grace
        self._is_new = is_new(settings)  # before the store is started
        self._drain = Drain(settings.drain_s, lambda: leave(app))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the drain; a second signal, or one without a drain or during the start, stops the server."""
        if not (self.started and self._drain.begin()):
            self._grace.begin()
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Stop once the drain is over."""
        if self._drain.over:
            self._grace.begin()
            self.should_exit = True
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and announce the address."""
        if self.config.ssl is not None:
            loop = asyncio.get_running_loop()
            handshakes.bound(self.config.ssl, self._gate, self.server_state.connections, loop)
        await super().startup(sockets)
        if self.started:
            scheme = "https" if self.config.is_ssl else "http"
            url = _url_at(scheme, self._app.root_path, self.servers[0].sockets[0].getsockname())
            _announce(url, is_new=self._is_new, logged=self._settings.log_format == "json")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then requests, then the app, then the process."""
        end_streams(self._app)
        await super().shutdown(sockets)
        _end_process()


def run(settings: Settings, *, keys_file: Path | None, ssl: Mapping[str, Any]) -> int:
    """Serve until a signal; an orderly stop ends the process. Returns the exit status if the start fails.

    ``keys_file`` is the file that the keys were read from, if there is one; ``ssl`` has uvicorn's options for https.
    """
    memory_limit.return_memory()
    logging.getLogger("uvicorn.error").addFilter(_not_repeated)
    grace = Grace(settings.grace_s)
    try:
        app = build(settings, grace=grace, keys_file=keys_file)
        memory_limit.put_compiler_away()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    connections_max = descriptors.for_clients(descriptors.raise_limit(), settings.connections_max)
    gate = Gate(connections_max, lambda status: refused(app, status))
    server = Server(_config(settings, app, gate, grace, ssl), gate, app, settings, grace)
    try:
        server.run()
    except SystemExit:  # uvicorn exits with its own status if the start failed
        if server.started:
            raise
    return 0 if server.started or grace.begun else 1


def _config(settings: Settings, app: App, gate: Gate, grace: Grace, ssl: Mapping[str, Any]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=bounded(gate),
        ws="none",
        timeout_keep_alive=settings.keep_alive_s,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # the guard reads what proxies say; nothing else asks who the client is
        server_header=False,
        timeout_graceful_shutdown=grace.for_requests_s,  # type: ignore[arg-type]  # passed to asyncio, which takes fractions
        backlog=2048,
        **ssl,
    )


def _not_repeated(record: logging.LogRecord) -> bool:
    """Drop lines of uvicorn that repeat others: that a start failed, tracebacks of CannotStart and cancellations."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        return False
    text = record.getMessage()
    failed = text.startswith("Application startup failed")
    return not (failed or (text.startswith("Traceback") and "CannotStart" in text))


def _end_process() -> None:
    """End the process at once: models are saved and the store is stopped.

    asyncio and Python would wait, beyond the grace period, for threads that are still learning.
    """
    logging.getLogger("uvicorn.error").info("Finished server process [%d]", os.getpid())
    logging.shutdown()
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(0)


def is_new(settings: Settings) -> bool:
    """Whether the service starts empty: its private store has no data yet."""
    private = not (settings.redis_url and settings.redis_url.get_secret_value())
    try:
        return private and not any(settings.data_dir.iterdir())
    except OSError:  # it is not there, or the store's start says why it cannot be used
        return private


def _url_at(scheme: str, root: str, address: tuple[Any, ...]) -> str:
    """A URL that can be opened on this machine."""
    host, port = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0]), address[1]  # noqa: S104  compared, not bound
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{root}/"


def _announce(url: str, *, is_new: bool, logged: bool) -> None:
    """Print the address, and for an empty service the demo; with ``logged`` the address is a line of the log."""
    if logged:
        logger.info("Onepass serves on %s", url)
        return
    with suppress(OSError):  # stdout may be closed
        print(f"Onepass serves on {url}", flush=True)
        if is_new:
            print(f"To see models that learn and drift, run in another terminal: {_own_command()} demo", flush=True)


def _own_command() -> str:
    """How to call this command: by its name if the shell finds it, else by its path as it was given."""
    given = Path(sys.argv[0])
    return "onepass" if given.name != "onepass" or shutil.which("onepass") == str(given) else str(given)
