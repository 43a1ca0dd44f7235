"""Head and body of an answer in one write: uvicorn makes two, and every write is a system call and a packet."""

import asyncio
from typing import Any

HEAD = b"HTTP/1.1 "
JOINED_BYTES_MAX = 65_536
"""A larger body is written by itself: copying it would cost more than a system call."""


class OneWrite:
    """A transport that holds the head of an answer until its body is written, or the loop's next turn.

    Args:
        transport: the connection's; everything but writing and closing is its own.
        loop: the connection's.
    """

    __slots__ = ("_held", "_linger_s", "_loop", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._held = transport, loop, b""
        self._linger_s = 0.0
        self.is_closing = transport.is_closing  # asked for with every request, and __getattr__ is slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write some bytes, behind the head that is held."""
        if self._held:
            head, self._held = self._held, b""
            if len(data) > JOINED_BYTES_MAX:
                self._transport.write(head)
                self._transport.write(data)
            else:
                self._transport.write(head + data)
        elif data.startswith(HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def linger(self, seconds: float) -> None:
        """Let ``close`` close for writing only, and for good so much later.

        Closed with bytes unread, a socket would take away from the client what it has not read yet.
        """
        self._linger_s = seconds

    def write_at_once(self, data: bytes) -> None:
        """Write a whole answer, head and body."""
        self._flush()
        self._transport.write(data)

    def close(self) -> None:
        """Close once everything is written."""
        self._flush()
        linger_s, self._linger_s = self._linger_s, 0.0
        if not linger_s or self._transport.is_closing():
            self._transport.close()
        elif self._transport.can_write_eof():
            self._transport.write_eof()
            self._loop.call_later(linger_s, self._transport.abort)
        else:  # TLS
            self._loop.call_later(linger_s, self._transport.close)

    def write_eof(self) -> None:
        """Write what is held, and that nothing follows."""
        self._flush()
        self._transport.write_eof()

    def abort(self) -> None:
        """Close at once; what is held is lost."""
        self._held = b""
        self._transport.abort()

    def _flush(self) -> None:
        if self._held and not self._transport.is_closing():
            self._transport.write(self._held)
        self._held = b""
