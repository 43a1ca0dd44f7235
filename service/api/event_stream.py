"""Drift events as they become known, as server-sent events.

    event: start   once, where the client did not say where to go on, or named a place that is yet to come:
                   data {"position"}
    event: drift   data: the event, as it was at its first alarm: later ones are not sent
    event: gap     data {"after", "first", "missed"}: what was asked for is no longer kept

The ``id`` of each is its position in the service's stream, and the header Last-Event-ID resumes behind it, at whichever
replica. Where nothing comes a comment keeps the connection open.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.errors import StoreDown
from service.runtime.broadcast import Gap, Listener
from service.store.drift import DriftStreams
from service.store.events import START, StoredEvent, StreamPosition, shown

logger = logging.getLogger(__name__)

KEEP_ALIVE_S = 15.0
"""How often something is sent where there is no event."""
PAGE = 100
"""Events read in one round trip while a client catches up."""
LAST_WORD_S = 1.0
"""How long the end of a stream may take to be written."""
EXAMPLE = (
    'event: start\ndata: {"position":"1769860800000-16"}\nid: 1769860800000-16\n\n'
    'event: drift\ndata: {"id":"5f3a9c0d1e2b4a68-1204-0","model":"demo",...}\nid: 1769860801234-17\n\n'
)


class Resume(NamedTuple):
    """Where a client wants to go on: after a position, or after an event whose position is not known any more."""

    given: str
    position: StreamPosition | None


async def events(streams: DriftStreams, listener: Listener, resume: Resume | None) -> AsyncIterator[bytes]:
    """What the client is sent, until the listener is over: what it has missed, then what comes."""
    try:
        reached = START
        if resume is None or await _ahead(streams, listener, resume):
            yield _event("start", listener.start, msgspec.json.encode({"position": str(listener.start)}))
        else:
            reached = resume.position or START
            async for item in _missed(streams, listener, resume):
                yield _shown(item, listener)
        while True:
            new = await listener.take(KEEP_ALIVE_S)
            if listener.over.is_set():
                return
            if new is None:
                yield KEEPALIVE_COMMENT
            elif isinstance(new, Gap) or new.position > reached:  # another replica's reader may have been ahead of ours
                yield _shown(new, listener)
    except StoreDown as error:
        logger.info("a stream of drift events ends, its client comes back: %s", error.detail)


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
        known = resume.position is not None and missed > 0  # negative: the numbering has started again
        yield Gap(resume.given, first, missed if known else None)
    while page:
        for event in page:
            if listener.wanted(event.model):
                yield event
        after = page[-1].position
        page = await streams.of_service(after, PAGE, listener.start) if after < listener.start else []


def _shown(item: StoredEvent | Gap, listener: Listener) -> bytes:
    if isinstance(item, StoredEvent):
        return _event("drift", item.position, shown(item))
    first = item.first
    where = listener.start if first is None else StreamPosition(first.time_ms, first.number - 1)
    data = {"after": item.after, "first": None if first is None else str(first), "missed": item.missed}
    return _event("gap", where, msgspec.json.encode(data))


def _event(kind: str, position: StreamPosition, data: bytes) -> bytes:
    return format_sse_event(event=kind, data_str=data.decode(), id=str(position))


class EventStream(StreamingResponse):
    """The response; it ends when the client leaves, when it is too slow, and when the service stops.

    What FastAPI does for generators that yield events has no way to cut off a client that does not read.

    Args:
        body: what is sent.
        over: set when the stream has to end: then the body has little time left to say so.
        leave: called in the end.
    """

    media_type = "text/event-stream"

    def __init__(self, body: AsyncIterator[bytes], over: asyncio.Event, leave: Callable[[], None]) -> None:
        super().__init__(body, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._over, self._leave = over, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until it is over; a client that does not read the end is hung up on without."""
        sending = asyncio.create_task(super().__call__(scope, receive, send))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([sending, over], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([sending], timeout=LAST_WORD_S)
            if not sending.done():
                logger.warning("a stream of events was cut: its client does not read")
        finally:
            self._leave()
            for task in (sending, over):
                task.cancel()
            await asyncio.gather(sending, over, return_exceptions=True)
