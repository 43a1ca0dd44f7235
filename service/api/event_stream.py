"""Drift events as they become known, as server-sent events.

    event: start   once, where the client did not say where to go on, or named a place that is yet to come:
                   data {"position"}
    event: drift   data: the event, as it was at its first alarm: later ones are not sent
    event: gap     data {"after", "first", "missed"}: what was asked for is no longer kept

The ``id`` of each is its address (``event_addresses``), and the header Last-Event-ID resumes behind it, at whichever
replica. Where nothing comes a comment keeps the connection open.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import msgspec
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.datastructures import Headers
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.event_addresses import Addresses, Resume
from service.api.keys import Keys
from service.errors import StoreDown, Unauthorized
from service.runtime.broadcast import Gap, Listener
from service.store.drift import DriftStreams
from service.store.events import START, StoredEvent, shown

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


async def events(
    streams: DriftStreams, listener: Listener, resume: Resume | None, addresses: Addresses
) -> AsyncIterator[bytes]:
    """What the client is sent, until the listener is over: what it has missed, then what comes."""
    try:
        reached = START
        if resume is None or await addresses.ahead(resume):
            start = await addresses.begin()
            yield _event("start", start, msgspec.json.encode({"position": start}))
        else:
            reached = resume.position or START
            async for item in _missed(streams, listener, resume, addresses):
                yield _shown(item, addresses)
        while True:
            new = await listener.take(KEEP_ALIVE_S)
            if listener.over.is_set():
                return
            if new is None:
                yield KEEPALIVE_COMMENT
            elif isinstance(new, Gap) or new.position > reached:  # another replica's reader may have been ahead of ours
                yield _shown(new, addresses)
    except StoreDown as error:
        logger.info("a stream of drift events ends, its client comes back: %s", error.detail)


async def _missed(
    streams: DriftStreams, listener: Listener, resume: Resume, addresses: Addresses
) -> AsyncIterator[StoredEvent | Gap]:
    """The events between where the client was and where the listener begins."""
    gap = await addresses.gap(resume)
    if gap is not None:
        yield gap
    after = resume.position or START
    while after < listener.start:
        page = await streams.of_service(after, PAGE, listener.start)
        for event in page:
            if listener.wanted(event.model):
                yield event
        if not page:
            return
        after = page[-1].position


def _shown(item: StoredEvent | Gap, addresses: Addresses) -> bytes:
    if isinstance(item, StoredEvent):
        return _event("drift", addresses.of(item), shown(item))
    where, data = addresses.of_gap(item)
    return _event("gap", where, msgspec.json.encode(data))


def _event(kind: str, where: str | None, data: bytes) -> bytes:
    return format_sse_event(event=kind, data_str=data.decode(), id=where)


async def _while_allowed(frames: AsyncIterable[Any], keys: Keys, headers: Headers) -> AsyncIterator[Any]:
    """What is sent while the key of the request is what it was: one that is gone, or of other models, ends it."""
    with suppress(Unauthorized):
        begun = keys.caller(headers)
        async for frame in frames:
            if (key := keys.caller(headers)) is not None and (begun is None or key.models != begun.models):
                return
            yield frame


class EventStream(StreamingResponse):
    """The response; it ends when the client leaves, loses its key, or is too slow, and when the service stops.

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
        self.body_iterator = _while_allowed(self.body_iterator, scope["app"].state.context.keys, Headers(scope=scope))
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
