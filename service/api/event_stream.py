"""Drift events as they become known, as server-sent events.

    event: start   once, where the client did not say where to go on, or named a place that is yet to come:
                   data {"position"}
    event: drift   data: an event as it was at its first alarm, or a later alarm of one (kind ``joined``)
    event: gap     data {"after", "first", "missed"}: what was asked for is no longer kept

The ``id`` of each is its position in the stream, and the header Last-Event-ID resumes behind it, at whichever replica.
Positions count, so that gaps are found and told. A key of some models is shown their times alone (``TIME-0``), since
numbers would count the events of the others. It is told where its stream begins by the newest event of its own that is
kept, or, where none is, by a time before which it has none; and of a gap no more than that there may be one. Where
nothing comes a comment keeps the connection open.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import suppress
from time import time
from typing import Any

import msgspec
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.keys import Key, Keys
from service.api.lines import lines_of
from service.errors import StoreDown, Unauthorized
from service.runtime.broadcast import Gap, Listener
from service.store.drift import DriftStream
from service.store.events import START, StoredEvent, StreamPosition, position

logger = logging.getLogger(__name__)

SKEW_MS = 60_000
"""Servers of a cluster may disagree so much about the time."""
NUMBER_MAX = 10**16 - 1
"""Behind every entry of one time, of which there is one."""
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


# ---------------------------------------------------------------- addresses


def is_limited(caller: Key | None) -> bool:
    """Whether a key is one of some models only."""
    return caller is not None and bool(caller.models)


def wanted_by(caller: Key | None) -> Callable[[str], bool]:
    """Whether the request's key may know of a model."""
    return (lambda _: True) if caller is None else caller.allows


def address(at: StreamPosition, limited: bool) -> str:
    """A position as a key is shown it."""
    return f"{at.time_ms}-0" if limited else str(at)


def located(text: str, limited: bool) -> StreamPosition | None:
    """The position that a key was shown, or made up; None: the text is none."""
    found = position(text)
    return found._replace(number=NUMBER_MAX) if found is not None and limited else found


# ---------------------------------------------------------------- what is sent


async def events(
    stream: DriftStream, listener: Listener, resume: StreamPosition | None, limited: bool
) -> AsyncIterator[bytes]:
    """What the client is sent, until the listener is over: what it has missed, then what comes."""
    try:
        reached = START
        if resume is None or await _is_ahead(stream, listener, resume, limited):
            begin = await _begin(stream, listener) if limited else str(listener.start)
            yield _event("start", begin, msgspec.json.encode({"position": begin}))
        else:
            reached = resume
            async for item in _missed(stream, listener, resume, limited):
                yield _shown(item, listener, limited)
        while True:
            new = await listener.take(KEEP_ALIVE_S)
            if listener.over.is_set():
                return
            if new is None:
                yield KEEPALIVE_COMMENT
            elif isinstance(new, Gap) or new.position > reached:  # another replica's reader may have been ahead of ours
                yield _shown(new, listener, limited)
    except StoreDown as error:
        logger.info("a stream of drift events ends, its client comes back: %s", error.detail)


async def _is_ahead(stream: DriftStream, listener: Listener, after: StreamPosition, limited: bool) -> bool:
    """Whether a position is yet to come; another replica's reader may be before this one's."""
    if limited:  # by the clock: how far the stream is tells of the others
        return after.time_ms > time() * 1000 + SKEW_MS
    return after > listener.start and after > await stream.newest()


async def _begin(stream: DriftStream, listener: Listener) -> str:
    """Behind the newest event of these models, or at a time that is past for every server."""
    newest = await stream.last(lambda known: listener.wanted(known.model), str(listener.start))
    before = StreamPosition(int(time() * 1000) - SKEW_MS, 0)
    return address(before if newest is None else newest.position, limited=True)


async def _missed(
    stream: DriftStream, listener: Listener, after: StreamPosition, limited: bool
) -> AsyncIterator[StoredEvent | Gap]:
    """The events between where the client was and where the listener begins."""
    if after < listener.start and (gap := await _gap(stream, after, listener.start, limited)) is not None:
        yield gap
    while after < listener.start:
        page = await stream.after(after, PAGE, listener.start)
        for known in page:
            if listener.wanted(known.model):
                yield known
        if not page:
            return
        after = page[-1].position


async def _gap(stream: DriftStream, after: StreamPosition, until: StreamPosition, limited: bool) -> Gap | None:
    """What is no longer kept, found by counting; where only a time is known, there may be some before the oldest."""
    found = await stream.after(after, 1, until)
    first = found[0].position if found else None
    if limited:
        oldest = await stream.after(START, 1) if first is not None and first.number > 1 else []
        return Gap("", first, None) if oldest[:1] == found != [] else None
    missed = (until.number if first is None else first.number - 1) - after.number
    return None if missed == 0 else Gap(str(after), first, missed if missed > 0 else None)  # or it has begun again


def _shown(item: StoredEvent | Gap, listener: Listener, limited: bool) -> bytes:
    if isinstance(item, StoredEvent):
        return _event("drift", address(item.position, limited), item.shown())
    if limited:
        return _event("gap", None, msgspec.json.encode({"after": None, "first": None, "missed": None}))
    first = item.first
    before = listener.start if first is None else StreamPosition(first.time_ms, first.number - 1)
    data = {"after": item.after, "first": None if first is None else str(first), "missed": item.missed}
    return _event("gap", str(before), msgspec.json.encode(data))


def _event(kind: str, where: str | None, data: bytes) -> bytes:
    return format_sse_event(event=kind, data_str=data.decode(), id=where)


async def _while_allowed(frames: AsyncIterable[Any], keys: Keys, sent: Mapping[bytes, bytes]) -> AsyncIterator[Any]:
    """What is sent while the key of the request is what it was: one that is gone, or of other models, ends it."""
    with suppress(Unauthorized):
        begun = keys.caller(sent)
        async for frame in frames:
            if (key := keys.caller(sent)) is not None and (begun is None or key.models != begun.models):
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
        self.body_iterator = _while_allowed(self.body_iterator, scope["app"].context.keys, lines_of(scope))
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
