"""The process that reads large bodies: functions come through a socket, with a body each, and their results go back.

It answers one request after the other, and ends when its socket does: however the service ends, also by SIGKILL, no
reader is left. What travels is pickled by ``multiprocessing.connection``, between these two processes of one program;
nothing of it is kept, and a body is never unpickled.
"""

import ctypes
import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

READY = "ready"
NICE = 5
"""Below the event loop and the store, which answer everybody."""

TRIM_BYTES = 4 * 2**20
"""After a larger body, memory is collected and given back: that costs some milliseconds."""
COLLECT_EVERY = 100
"""And after so many bodies of any size."""


def main(descriptor: int) -> None:
    """Read until the socket ends.

    Args:
        descriptor: of the socket, inherited.
    """
    for kind in (signal.SIGINT, signal.SIGTERM):  # a Ctrl-C or a stop is the service's, which stops its reader last
        signal.signal(kind, signal.SIG_IGN)
    os.nice(NICE)
    with socket.socket(fileno=os.dup(descriptor)) as watched:
        threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
        gc.freeze()
        gc.disable()  # bodies become tables of many objects, none of them in a cycle
        with Connection(descriptor) as connection:
            connection.send(READY)
            answered = 0
            while (size := _answer_one(connection)) is not None:
                answered += 1
                if size > TRIM_BYTES or answered % COLLECT_EVERY == 0:
                    gc.collect()
                    _return_memory()


def _end_with(watched: socket.socket) -> None:
    """End this process as soon as the other end of its socket is gone, whatever it is at."""
    poll = select.poll()
    poll.register(watched, getattr(select, "POLLRDHUP", 0) | select.POLLHUP)
    poll.poll()
    os._exit(0)


def _answer_one(connection: Connection) -> int | None:
    """Answer one request; the size of its body, or None where no more come."""
    try:
        work, args = connection.recv()
        body = connection.recv_bytes()
        connection.send(_answer(work, args, body))
    except (EOFError, OSError):
        return None
    return len(body)


def _answer(work: Callable[..., Any], args: tuple[Any, ...], body: bytes) -> tuple[bool, Any]:
    """Whether it went well, and the result or the exception."""
    try:
        return True, work(*args, body)
    except Exception as error:  # noqa: BLE001  it is raised in the service
        error.add_note(f"in the reader of large bodies:\n{traceback.format_exc()}")
        return False, error


def _return_memory() -> None:
    """Give the memory of a large body back to the system, where the C library has a call for it."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
