"""Drift events as they become known, as server-sent events.

    event: start   once, where the client did not say where to go on, or named a place that is yet to come:
                   data {"position"}
    event: drift   data: the event
    event: gap     data {"after", "first", "missed"}: what was asked for is no longer kept

The ``id`` of each is its position in the service's stream, and the header Last-Event-ID resumes behind it, at whichever
replica. Where nothing comes a comment keeps the connection open.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.errors import StoreDown
from service.runtime.broadcast import Broadcast, Gap, Listener
from service.store.drift import DriftStreams
from service.store.events import START, StoredEvent, StreamPosition

logger = logging.getLogger(__name__)

KEEP_ALIVE_S = 15.0
"""How often something is sent where there is no event."""
PAGE = 100
"""Events read in one round trip while a client catches up."""
LAST_WORD_S = 1.0
"""How long the end of a stream may take to be written."""
COMMENT = b": keep-alive\n\n"


class Resume:
    """Where a client wants to go on: after a position, or after an event whose position is not known any more."""

    def __init__(self, given: str, position: StreamPosition | None) -> None:
        self.given, self.position = given, position


async def frames(streams: DriftStreams, listener: Listener, resume: Resume | None) -> AsyncIterator[bytes]:
    """What the client is sent: what it has missed, then what comes."""
    reached = START
    if resume is None or await _ahead(streams, listener, resume):
        yield _frame("start", listener.start, msgspec.json.encode({"position": str(listener.start)}))
    else:
        reached = resume.position or START
        async for item in _missed(streams, listener, resume):
            yield _shown(item, listener)
    while True:
        new = await listener.take(KEEP_ALIVE_S)
        if new is None:
            yield COMMENT
        elif isinstance(new, Gap) or new.position > reached:  # another replica's reader may have been ahead of this one
            yield _shown(new, listener)


async def _ahead(streams: DriftStreams, listener: Listener, resume: Resume) -> bool:
    """Whether a client names a place that the stream has not reached; another replica's reader may be before this."""
    after = resume.position
    return after is not None and after > listener.start and after > await streams.newest()


async def _missed(streams: DriftStreams, listener: Listener, resume: Resume) -> AsyncIterator[StoredEvent | Gap]:
    """The events between where the client was and where the listener begins."""
    after = resume.position or START
    page = await streams.of_service(after, PAGE, listener.start) if after < listener.start else []
    first = page[0].position if page else None
    missed = (listener.start.number if first is None else first.number - 1) - after.number
    if resume.position is None or (after < listener.start and missed != 0):
        known = resume.position is not None and missed > 0  # less than none: the numbers have begun anew
        yield Gap(resume.given, first, missed if known else None)
    while page:
        for event in page:
            if listener.wanted(event.model):
                yield event
        after = page[-1].position
        page = await streams.of_service(after, PAGE, listener.start) if after < listener.start else []


def _shown(item: StoredEvent | Gap, listener: Listener) -> bytes:
    if isinstance(item, StoredEvent):
        return _frame("drift", item.position, item.body)
    first = item.first
    where = listener.start if first is None else StreamPosition(first.time_ms, first.number - 1)
    data = {"after": item.after, "first": None if first is None else str(first), "missed": item.missed}
    return _frame("gap", where, msgspec.json.encode(data))


def _frame(kind: str, position: StreamPosition, data: bytes) -> bytes:
    """One event; JSON as it is made here holds no line break."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), str(position).encode(), data)


class EventStream(Response):
    """The response; it ends when the client leaves, when it is too slow, and when the service stops.

    Args:
        broadcast: where the listener is signed off in the end.
        listener: what is new.
        body: what is sent.
    """

    media_type = "text/event-stream"

    def __init__(self, broadcast: Broadcast, listener: Listener, body: AsyncIterator[bytes]) -> None:
        self._broadcast, self._listener, self._body = broadcast, listener, body
        self._begun = False
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  ASGI says which arguments there are
        """Send until it is over."""
        loop = asyncio.get_running_loop()
        ends = [loop.create_task(part) for part in (self._write(send), self._left(receive), self._listener.over.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            gone = ends[1].done()
        finally:
            self._broadcast.leave(self._listener)
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        if self._begun and not gone:
            await self._close(send)

    async def _write(self, send: Send) -> None:
        self._begun = True
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for frame in self._body:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        except StoreDown as error:
            logger.info("a stream of drift events ends, its client comes back: %s", error.detail)

    async def _left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _close(self, send: Send) -> None:
        """The last word, where the client takes it; one who does not read is hung up on without."""
        try:
            async with asyncio.timeout(LAST_WORD_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            logger.warning("a stream of drift events was cut: its client does not read")
