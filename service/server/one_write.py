"""Head and body of an answer leave in one write.

uvicorn writes them separately: each write costs a system call and a packet, and wakes up the client. Here, bytes
written in a turn of the event loop are held until its end. Then the answers of all connections are written one after
the other: a callback for each of them would cost a twentieth of a prediction. An answer waits only if other requests
are under way: on one connection, predictions came a seventh sooner without the wait.
"""

import asyncio
from typing import Any

HELD_BYTES_MAX = 65_536  # more than this is not held: copying it would cost more than a system call


class Burst:
    """The connections of a loop that hold something to write."""

    __slots__ = ("_holding", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._holding = loop, list[Held]()

    def add(self, held: "Held") -> None:
        """Write what a connection holds at the end of this turn."""
        if not self._holding:
            self._loop.call_soon(self._write)
        self._holding.append(held)

    def _write(self) -> None:
        holding, self._holding = self._holding, []
        for held in holding:
            try:
                held.flush()
            except RuntimeError:  # from uvloop, for a connection that takes nothing more; the others still get answers
                held.abort()


class Held:
    """A transport that holds what is written until the end of the loop's turn, when ``burst`` writes it.

    ``linger_s``: if not 0, ``close`` first closes for writing only and reads on, and closes completely that many
    seconds later. If a socket is closed with unread bytes, the client loses what it has not read yet.
    """

    __slots__ = ("_burst", "_held", "_loop", "_transport", "is_closing", "linger_s")

    def __init__(self, transport: asyncio.Transport, burst: Burst, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._burst, self._loop = transport, burst, loop
        self._held, self.linger_s = b"", 0.0
        self.is_closing = transport.is_closing  # asked for with every request, and __getattr__ is slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write some bytes after those that are held."""
        if self._held:
            self._held += data
            if len(self._held) > HELD_BYTES_MAX:
                self.flush()
        elif len(data) > HELD_BYTES_MAX:
            if not self.is_closing():
                self._transport.write(data)
        elif data:
            self._held = data
            self._burst.add(self)

    def flush(self) -> None:
        """Write what is held."""
        held, self._held = self._held, b""
        if held and not self.is_closing():
            self._transport.write(held)

    def close(self) -> None:
        """Close once everything is written; what is written from now on is dropped."""
        self.flush()
        linger_s, self.linger_s = self.linger_s, 0.0
        closing, self.is_closing = self.is_closing(), lambda: True
        if not linger_s or closing:
            self._transport.close()
            return
        self._transport.resume_reading()  # reading is paused if the client sent more than was wanted at once
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._loop.call_later(linger_s, self._transport.abort)
        else:  # TLS
            self._loop.call_later(linger_s, self._transport.close)

    def write_eof(self) -> None:
        """Write what is held, then the end of the stream."""
        self.flush()
        self._transport.write_eof()

    def abort(self) -> None:
        """Close at once; what is held is lost."""
        self._held = b""
        self._transport.abort()
