"""One open stream that shows documents: what its client has not been sent yet.

Of each event only the newest document waits, so that a slow client costs no memory: it is sent fewer of them. One that
does not read at all is cut.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

KEEP_ALIVE_S = 15.0
"""How often something is sent where nothing changes."""
SLOW_S = 30.0
"""How long a document may wait for a client that does not read."""


class Viewer:
    """The documents of one stream.

    Attributes:
        over: set when the stream has to end.
    """

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self._waiting: dict[str, bytes] = {}
        self._more = asyncio.Event()
        self._since = 0.0
        self._reason: str | None = None

    def put(self, event: str, frame: bytes) -> None:
        """Send a document, in place of one of the same event that still waits."""
        if not self._waiting:
            self._since = asyncio.get_running_loop().time()
        self._waiting[event] = frame
        self._more.set()

    @property
    def stuck(self) -> bool:
        """Whether its client has read nothing for too long."""
        return bool(self._waiting) and asyncio.get_running_loop().time() > self._since + SLOW_S

    def end(self, reason: str) -> None:
        """End the stream; the client is told why."""
        if not self.over.is_set():
            self._reason = reason
            self.over.set()
            self._more.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """What the client is sent."""
        while not self.over.is_set():
            if self._waiting:
                yield self._next()
            elif not await self._has_more():
                yield KEEPALIVE_COMMENT
        yield format_sse_event(event="end", data_str=msgspec.json.encode({"reason": self._reason}).decode())

    def _next(self) -> bytes:
        self._since = asyncio.get_running_loop().time()
        return self._waiting.pop(next(iter(self._waiting)))

    async def _has_more(self) -> bool:
        """Wait for a document, or for the end; False where neither came."""
        self._more.clear()
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                await self._more.wait()
        except TimeoutError:
            return False
        return True
