"""A body that is cut into lines as it arrives, in whatever pieces that is.

What is held is what one ``receive`` of the server brings, and the beginning of a line; a line over the limit is not
kept, but read to its end.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from service.api.bodies import SMALL_BYTES
from service.runtime.threads import THREAD_BYTES

SEGMENT_ROWS = 256
"""Most lines that are answered together: a millisecond of learning, for which other models wait."""
SEGMENT_BYTES = THREAD_BYTES
"""Most bytes of several lines; a longer line is read by itself, away from the event loop."""
IDLE_S = 60.0
"""How long a stream may wait for its next line."""


Line = bytes | None
"""A line without its end; None: it was longer than the limit."""


class Intake:
    """The lines of a body.

    Args:
        receive: the server's.
        limit: most bytes of a line.
        hold: told how many bytes of a long line are held.
    """

    def __init__(self, receive: Receive, limit: int, hold: Callable[[int], None]) -> None:
        self._receive, self._limit, self._hold = receive, limit, hold
        self._data, self._at = b"", 0
        self._begun = bytearray()
        self._long: list[Line] = []
        self._skipping = self.ended = False

    @property
    def more(self) -> bool:
        """Whether further lines are here."""
        return self._at < len(self._data) or bool(self._long)

    async def take(self, most: int) -> list[Line]:
        """The next lines, one to ``most``, blank ones left out; none where the body has ended.

        Raises:
            TimeoutError: no line came in time.
            ClientDisconnect: the client is gone.
            BodiesFull: as many bytes of bodies are held as may be.
        """
        if found := self._cut(most):
            return found
        async with asyncio.timeout(IDLE_S) as idle:
            while not self.ended:
                seen = await self._more()
                if found := self._cut(most):
                    return found
                if seen:  # blank lines, by which a client keeps an idle stream open
                    idle.reschedule(asyncio.get_running_loop().time() + IDLE_S)
        return []

    def _cut(self, most: int) -> list[Line]:
        """Lines that are here, up to a segment of them."""
        if self._long:
            found, self._long = self._long, []
            return found
        while self._at < len(self._data):
            data, begin = self._data, self._at
            end = data.rfind(b"\n", begin, begin + SEGMENT_BYTES)
            if end < 0:
                end = data.find(b"\n", begin)
            lines = data[begin:end].split(b"\n", most)
            if len(lines) > most:
                end -= len(lines.pop()) + 1
            self._at = end + 1
            if kept := [line for line in lines if line and not line.isspace()]:
                return [*kept]
        return []

    async def _more(self) -> bool:
        """Receive once; whether a line ended in it. Every whole line has been cut before."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            self.ended = True
            body += b"\n"  # what stands behind the last line end is a line, too
        last = body.rfind(b"\n") + 1
        if last:
            self._end_line(body, last)
        self._begin_line(body[last:])
        return last > 0

    def _end_line(self, body: bytes, last: int) -> None:
        """What has begun ends in ``body``, of which the whole lines end before ``last``."""
        if not self._skipping and len(self._begun) + last <= 2 * SMALL_BYTES:
            self._data, self._at = bytes(self._begun) + body[:last], 0
            self._begun.clear()
            return
        first = body.find(b"\n") + 1 if self._skipping or self._begun else 0
        if first:
            self._begin_line(body[: first - 1])
            if self._skipping or (self._begun and not self._begun.isspace()):
                self._long = [None if self._skipping else cast("bytes", self._begun)]  # what reads it takes both
            self._begun, self._skipping = bytearray(), False
        self._data, self._at = body[first:last], 0

    def _begin_line(self, part: bytes) -> None:
        """Keep the beginning of a line, unless it is too long."""
        if not self._skipping and part:
            self._begun += part
            if len(self._begun) > self._limit:
                self._begun, self._skipping = bytearray(), True
            elif len(self._begun) > SMALL_BYTES:
                self._hold(len(self._begun))
