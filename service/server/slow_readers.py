"""A client that does not take its answer is hung up on: what is held for it would be held for as long as it likes.

Looked at only while there is more to write than the transport buffers, so that an answer in time costs nothing.
"""

import asyncio
import logging

logger = logging.getLogger(__name__)

ANSWER_PAUSE_S = 30.0
"""A client that is behind is looked at so often."""
ANSWER_BYTES_PER_S = 4_096
"""What it has to take meanwhile; less is a client that holds an answer to hold it."""


class Backlog:
    """What is written to one connection, and has not been taken.

    Args:
        transport: the connection.
        loop: its own.
    """

    __slots__ = ("_late", "_loop", "_transport", "_waiting")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._late: asyncio.TimerHandle | None = None
        self._waiting = 0

    def begin(self) -> None:
        """More waits than the transport buffers."""
        if self._late is None:
            self._look()

    def end(self) -> None:
        """It has been taken, or the connection is gone."""
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _look(self) -> None:
        self._waiting = self._transport.get_write_buffer_size()
        self._late = self._loop.call_later(ANSWER_PAUSE_S, self._check)

    def _check(self) -> None:
        taken = self._waiting - self._transport.get_write_buffer_size()
        if taken < ANSWER_BYTES_PER_S * ANSWER_PAUSE_S:
            logger.info("a client was hung up on: it took %d bytes of its answer in %g s", taken, ANSWER_PAUSE_S)
            self._late = None
            self._transport.abort()
        else:
            self._look()
