"""Cuts off bodies and answers that make no progress; otherwise a client could make the service hold them forever."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ

STALL_S = 10.0
BYTES_PER_S = 4_096  # less than this over ``stall_s`` is no progress


class Progress:
    """A watch on expected bytes; it costs a timer if it ends in time, and nothing if it never begins.

    ``moved`` returns a number that grows with the bytes; ``stalled`` is called once if too few have moved since
    ``begin`` or the last look, ``stall_s`` ago.
    """

    __slots__ = ("_loop", "_moved", "_seen", "_stalled", "_timer", "stall_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, moved: Callable[[], int], stalled: Callable[[], None]) -> None:
        self._loop, self._moved, self._stalled = loop, moved, stalled
        self._timer: asyncio.TimerHandle | None = None
        self._seen, self.stall_s = 0, STALL_S

    @property
    def begun(self) -> bool:
        """Whether bytes are expected."""
        return self._timer is not None

    def begin(self) -> None:
        """Start watching; without effect if the watch is on already."""
        if self._timer is None:
            self._seen = self._moved()
            self._timer = self._loop.call_later(self.stall_s, self._look)

    def end(self) -> None:
        """Stop watching: all bytes have come, or the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def shorten(self, stall_s: float) -> None:
        """Look after this time from now on."""
        self.stall_s = stall_s
        if self.begun:
            self.end()
            self.begin()

    def _look(self) -> None:
        self._timer = None
        if self._moved() - self._seen < BYTES_PER_S * self.stall_s:
            self._stalled()
        else:
            self.begin()


def untaken_bytes(transport: asyncio.Transport) -> int:
    """The bytes that a client has yet to take: in the transport and its socket, which is refilled in large steps."""
    found = transport.get_write_buffer_size()
    with suppress(OSError, ValueError):  # the system does not tell, or the socket is closed
        left = ioctl(transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
        found += int.from_bytes(left, sys.byteorder)
    return found
