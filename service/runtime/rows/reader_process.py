"""The service's side of the process that reads large bodies (``reader_worker``).

Decoding JSON or CSV is one long call into C that holds the interpreter, in a thread as well: 30 MB stop everything else
for half a second. So a process of its own does it: made at the first large body, ended after some idle minutes and with
the service, replaced when it dies. One reads at a time: a core stays for everybody else, and memory for one table.
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from service.errors import Unavailable
from service.runtime.rows import reader_worker

logger = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_S = 300.0
"""How long an idle process is kept."""
START_S_MAX = 60.0
"""How long one may take to start, on a machine that is busy."""
READ_S_MAX = 120.0
"""How long one body may take; the worst of 32 MiB take some seconds."""
RETRY_S = 60.0
"""Pause after a process that could not be started; bodies are read in a thread meanwhile."""
_OF_LIBRARIES = {"OPENBLAS_NUM_THREADS": "1"}
_MAIN = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from service.runtime.rows.reader_worker import main; main(int(sys.argv[1]))"
)


class ReaderDied(Unavailable):
    """The process that read the body died; the next one is read by another."""


class _CannotStart(Exception):
    """No process can be made here."""


class ReaderProcess:
    """Calls functions with large bodies in a process of their own, one after the other.

    Args:
        idle_s: how long the process is kept idle.
    """

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._thread = ThreadPoolExecutor(1, "onepass-reader")
        self._child: _Child | None = None
        self._waiting = 0
        self._end: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._stopped = False

    async def call(self, work: Callable[..., T], args: Callable[[], tuple[Any, ...]], body: bytes) -> T:
        """``work(*args(), body)``, in the process; in a thread where none can be started.

        Args:
            work: a function of a module that the process can import.
            args: gives plain values; called in a thread of this process.
            body: sent as it is.

        Raises:
            ReaderDied: the process died over it, or took too long.
        """
        loop = asyncio.get_running_loop()
        if self._end is not None:
            self._end.cancel()
        self._waiting += 1
        try:
            return await loop.run_in_executor(self._thread, self._call, work, args, body)
        finally:
            self._waiting -= 1
            if self._waiting == 0 and not self._stopped:
                self._end = loop.call_later(self._idle_s, self._thread.submit, self._drop)

    def stop(self) -> None:
        """End the process, and with it what it is at; may be repeated."""
        self._stopped = True
        if self._end is not None:
            self._end.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._child is not None and self._waiting:
            self._child.kill()  # the thread that waits for it closes the socket
        else:
            self._drop()

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        return None if self._child is None else self._child.pid

    def _call(self, work: Callable[..., T], args: Callable[[], tuple[Any, ...]], body: bytes) -> T:
        try:
            child = self._started()
        except _CannotStart as error:
            logger.warning("no process can be started to read large bodies, a thread reads them: %s", error)
            self._not_before = time.monotonic() + RETRY_S
            child = None
        if child is None:
            return work(*args(), body)
        try:
            done, answer = child.ask((work, args()), body)
        except (EOFError, OSError) as error:
            self._drop()
            raise ReaderDied("the body could not be read: its reader died; send it again") from error
        if done:
            return answer  # type: ignore[no-any-return]  # what `work` returned
        raise answer

    def _started(self) -> "_Child | None":
        if self._child is None and not self._stopped and time.monotonic() >= self._not_before:
            self._child = _Child()
        return self._child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.close()
            self._child = None


class _Child:
    """The process and our end of its socket."""

    def __init__(self) -> None:
        try:
            ours, theirs = socket.socketpair()
            self._connection = Connection(ours.detach())
            with theirs:
                self._process = _spawn(theirs.fileno())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise _CannotStart(str(error)) from error
        try:
            if not (self._connection.poll(START_S_MAX) and self._connection.recv() == reader_worker.READY):
                raise EOFError
        except (EOFError, OSError) as error:
            self.kill()
            self.close()
            raise _CannotStart(f"it ended at once, with status {self._process.returncode}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, call: tuple[Callable[..., Any], tuple[Any, ...]], body: bytes) -> Any:
        """The answer to a call.

        Raises:
            EOFError, OSError: the process died, or took too long.
        """
        self._connection.send(call)
        self._connection.send_bytes(body)
        if not self._connection.poll(READ_S_MAX):
            raise TimeoutError
        return self._connection.recv()

    def kill(self) -> None:
        """End it; who waits for its answer gets EOFError."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close our end of the socket, once nobody waits for an answer."""
        self._connection.close()


def _spawn(descriptor: int) -> "subprocess.Popen[bytes]":
    """Our own interpreter, with the same modules; settings, some of which are secrets, are not handed on."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_")}
    return subprocess.Popen(  # noqa: S603  our own interpreter
        [sys.executable, "-c", _MAIN, str(descriptor), *sys.path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env={**own, **_OF_LIBRARIES},
        start_new_session=True,  # Ctrl-C in the terminal is the service's
    )
