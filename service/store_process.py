"""The process of the private store's server, and questions to it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import hiredis

_ANSWER_S = 1.0

# Becomes the server. Linux sends SIGTERM when the thread that started this ends, hence the thread in `ServerProcess`;
# if the service has died before prctl was called, that signal would never come.
LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the service has died")
os.umask(0o077)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerProcess:
    """The server process, and the thread that started it and lives as long."""

    def __init__(self, command: list[str], log: Path, lock: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._started, self._ended = threading.Event(), threading.Event()
        self._error: OSError | None = None
        thread = threading.Thread(target=self._live, args=(command, log, lock), name="onepass-store", daemon=True)
        thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def alive(self) -> bool:
        """Whether the server runs."""
        return not self._ended.is_set()

    def stop(self, timeout_s: float) -> None:
        """SIGTERM lets the server write and sync its file; SIGKILL is for one that hangs.

        The signal is sent again and again: a server that cannot end at that moment forgets it.
        """
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while self.alive():
            left_s = deadline - time.monotonic()
            self._process.send_signal(signal.SIGTERM if left_s > 0 else signal.SIGKILL)
            self._ended.wait(min(0.5, left_s) if left_s > 0 else 0.5)

    def _live(self, command: list[str], log: Path, lock: int) -> None:
        try:
            with open(log, "ab", opener=no_link) as out:
                self._process = _spawn(command, out.fileno(), lock)
        except OSError as error:
            self._error = error
        self._started.set()
        if self._process is not None:
            self._process.wait()
        self._ended.set()


def _spawn(command: list[str], out: int, lock: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603  our own interpreter and a server we have looked up
        [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        pass_fds=(lock,),
        start_new_session=True,  # Ctrl-C in the terminal stops the service, which stops the server last
    )


def no_link(path: str, flags: int) -> int:
    """Open a file that is not a symbolic link; a new one is for this user alone."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def ask(path: Path, *command: str) -> Any:
    """Send a command, by default a ping, to the server behind a socket; None: no answer, or an error.

    A server that is loading its data answers only INFO, and only now and then. The client library would first exchange
    several messages with it, and wait that long for each.
    """
    reader = hiredis.Reader(encoding="utf-8", errors="replace")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(str(path))
            connection.sendall(hiredis.pack_command(command or ("PING",)))  # type: ignore[arg-type]  # as in node
            while (answer := reader.gets()) is False and (more := connection.recv(4096)):
                reader.feed(more)
    except OSError:
        return None
    return None if answer is False or isinstance(answer, hiredis.HiredisError) else answer


def information(path: Path) -> dict[str, str] | None:
    """The fields of the server's INFO; None if it does not answer."""
    text = ask(path, "INFO")
    return None if text is None else dict(line.partition(":")[::2] for line in text.splitlines())
