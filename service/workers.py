"""Several processes of the service on one machine, behind one port and on one store.

The parent holds the private store, if there is one, and the listening sockets; it serves nothing itself. Each worker is
``onepass serve`` on a socket of its own to the same address (SO_REUSEPORT), so the kernel spreads connections evenly.
The parent keeps those sockets open: what connects while a worker is being replaced waits in the socket's queue. Where
there is no SO_REUSEPORT that spreads (outside Linux), all share one socket.

Workers know nothing of each other. They keep each other's models current as replicas on several machines do. Only their
metrics meet, in a directory of the parent's: whichever worker is asked answers for all (monitor/siblings.py).
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service.embedded import EmbeddedStore

logger = logging.getLogger(__name__)

POLL_S = 0.1
"""How often the workers and the store are looked after."""
YOUNG_S = 5.0
"""A worker that ends sooner has not really served."""
DEATHS_MAX = 5
"""So many of those in a row, and the service gives up."""
AGAIN_S = 0.5
"""Pause before a worker that died young is started again, longer each time."""
LATE_S = 5.0
"""On top of the grace period, before a worker that does not end is killed."""
BACKLOG = 2048
USAGE = 2
"""Exit status of a worker whose settings cannot be used: starting it again is no use."""


@dataclass(slots=True)
class _Worker:
    """One process, and the socket that outlives it."""

    number: int
    socket: socket.socket
    samples: Path
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    again_at: float = 0.0
    deaths: int = 0

    def start(self, environment: Mapping[str, str]) -> None:
        """Start it; it ends by itself when this process does, however that ends."""
        command = [sys.executable, "-m", "service.cli", "serve", "--fd", str(self.socket.fileno()), "--until-eof"]
        command += ["--samples", str(self.samples)]
        self.process = subprocess.Popen(  # noqa: S603  our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            pass_fds=(self.socket.fileno(),),
            env=dict(environment),
            start_new_session=True,  # Ctrl-C in the terminal is for the parent, who tells the workers
        )
        self.started = time.monotonic()


@dataclass(slots=True)
class Workers:
    """Starts workers, replaces those that die, stops them together.

    Args:
        sockets: one per worker, listening.
        samples: an empty directory for their metrics.
        environment: of every worker.
        private: the store they share, started; None where they are given another one.
        grace_s: how long a worker's stop may take.
    """

    sockets: list[socket.socket]
    samples: Path
    environment: Mapping[str, str]
    private: EmbeddedStore | None
    grace_s: float
    _stopping: bool = False
    _workers: list[_Worker] = field(default_factory=list)

    def run(self) -> int:
        """Serve until a signal says stop; the exit status."""
        for kind in (signal.SIGTERM, signal.SIGINT):
            signal.signal(kind, self._stop)
        self._workers = [_Worker(number, held, self.samples / str(number)) for number, held in enumerate(self.sockets)]
        status = 0
        try:
            for worker in self._workers:
                worker.start(self.environment)
            while not self._stopping and status == 0:
                time.sleep(POLL_S)
                self._look_after_store()
                status = max(self._look_after(worker) for worker in self._workers)
        finally:
            status = max(status, self._end())
        return status

    def stop(self) -> None:
        """Have ``run`` end in good order."""
        self._stopping = True

    def _stop(self, *_: object) -> None:
        self.stop()

    def _look_after(self, worker: _Worker) -> int:
        """Replace a worker that has died; other than 0: give up with that exit status."""
        now = time.monotonic()
        if worker.process is None:
            if now >= worker.again_at:
                worker.start(self.environment)
            return 0
        status = worker.process.poll()
        if status is None:
            return 0
        logger.error("worker %d ended with status %d; it is started again", worker.number, status)
        self._close(worker)
        worker.deaths = worker.deaths + 1 if now - worker.started < YOUNG_S else 0
        worker.again_at = now + AGAIN_S * worker.deaths
        if status == USAGE or worker.deaths >= DEATHS_MAX:
            logger.error("workers cannot be started; the service stops")
            return status if status > 0 else 1
        return 0

    def _close(self, worker: _Worker) -> None:
        if worker.process is not None and worker.process.stdin is not None:
            worker.process.stdin.close()
        worker.process = None

    def _look_after_store(self) -> None:
        if self.private is None or self.private.alive():
            return
        logger.error("the private store died; it is started again")
        try:
            self.private.restart()
        except Exception:
            logger.exception("the private store could not be started again; trying on")

    def _end(self) -> int:
        """Stop all workers at the same time; 1 where one of them did not end well."""
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + self.grace_s + LATE_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                logger.exception("a worker did not end in time; it is killed")
                process.kill()
                process.wait()
        return int(any(process.returncode for process in running))


def listening(host: str, port: int, count: int) -> list[socket.socket]:
    """A socket per worker, all on one address; port 0 takes a free one.

    Raises:
        OSError: the address cannot be listened on.
    """
    spread = sys.platform == "linux"
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made: list[socket.socket] = []
    for _ in range(count if spread else 1):
        one = socket.socket(family, kind)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if spread:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((address[0], made[0].getsockname()[1], *address[2:]) if made else address)
        one.listen(BACKLOG)
        made.append(one)
    return made if spread else made * count


def serve(count: int, host: str, port: int, make_store: Callable[[], EmbeddedStore] | None, grace_s: float) -> int:
    """Run so many workers until told to stop; the exit status.

    Args:
        count: how many.
        host: address to listen on.
        port: likewise; 0 takes a free one.
        make_store: makes the private store they share; None where they are given another one.
        grace_s: how long a worker's stop may take.

    Raises:
        OSError: the address cannot be listened on, or there is no temporary directory.
        CannotStart: the private store cannot be started.
    """
    sockets = listening(host, port, count)
    private = None if make_store is None else make_store()
    environment = {**os.environ, "ONEPASS_WORKERS": "1"}
    try:
        if private is not None:
            environment["ONEPASS_REDIS_URL"] = private.start()
        name, number = sockets[0].getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        logger.info("listening on http://%s:%d, starting %d workers (Press CTRL+C to quit)", shown, number, count)
        with tempfile.TemporaryDirectory(prefix="onepass-workers-", ignore_cleanup_errors=True) as samples:
            return Workers(sockets, Path(samples), environment, private, grace_s).run()
    finally:
        if private is not None:
            private.stop()
        for one in sockets:
            one.close()
