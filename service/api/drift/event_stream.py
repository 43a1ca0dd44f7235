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

from service.api.http.keys import Key, Keys
from service.api.http.lines import lines_of
from service.errors import StoreDown, Unauthorized
from service.runtime.broadcast import EventSubscription
from service.store.drift.drift import DriftStream
from service.store.drift.events import START, StreamPosition, position

logger = logging.getLogger(__name__)

SKEW_MS = 60_000
"""Servers of a cluster may disagree so much about the time."""
NUMBER_MAX = 10**16 - 1
"""Behind every entry of one time, of which there is one."""
KEEP_ALIVE_S = 15.0
"""How often something is sent where there is no event."""
PAGE = 100
"""Events read in one round trip while a client catches up."""
AGAIN_S = 1.0
"""Pause before a store that did not answer is asked again."""
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
    stream: DriftStream,
    subscription: EventSubscription,
    wanted: Callable[[str], bool],
    newest: StreamPosition,
    after: StreamPosition | None,
    limited: bool,
) -> AsyncIterator[bytes]:
    """What a client is sent, until the subscription is over: what it has missed, then what comes.

    Args:
        stream: what is read.
        subscription: says that there is more.
        wanted: whether the client is to hear of a model.
        newest: where the stream is.
        after: where the client goes on; None: there.
        limited: whether it may not count the events of others.
    """
    if after is None or (after.time_ms > time() * 1000 + SKEW_MS if limited else after > newest):
        after = newest  # what is yet to come begins here; a limited key is not told how far the stream is
        begin = await _begin(stream, wanted, newest) if limited else str(newest)
        yield _event("start", begin, msgspec.json.encode({"position": begin}))
    elif limited and await _may_have_missed(stream, after):
        yield _gap(after, None, limited)
    while not subscription.over.is_set():
        try:
            page = await stream.after(after, PAGE)
        except StoreDown:
            await asyncio.sleep(AGAIN_S)
            continue
        for item in page:
            if item.position.number != after.number + 1 and after.number != NUMBER_MAX:
                yield _gap(after, item.position, limited)
            after = item.position
            if wanted(item.model):
                yield _event("drift", address(after, limited), item.shown())
        if len(page) < PAGE and not await subscription.wait(KEEP_ALIVE_S):
            yield KEEPALIVE_COMMENT


async def _begin(stream: DriftStream, wanted: Callable[[str], bool], newest: StreamPosition) -> str:
    """Behind the newest event of these models, or at a time that is past for every server."""
    known = await stream.last(lambda event: wanted(event.model), str(newest))
    before = StreamPosition(int(time() * 1000) - SKEW_MS, 0)
    return address(before if known is None else known.position, limited=True)


async def _may_have_missed(stream: DriftStream, after: StreamPosition) -> bool:
    """Whether entries have left the stream that may have come after a time."""
    oldest = await stream.after(START, 1)
    return bool(oldest) and oldest[0].position.number > 1 and oldest[0].position > after


def _gap(after: StreamPosition, first: StreamPosition | None, limited: bool) -> bytes:
    """What is no longer kept between two positions; of a stream that has begun again nobody knows how much that is."""
    if limited or first is None:
        return _event("gap", None, msgspec.json.encode({"after": None, "first": None, "missed": None}))
    missed = first.number - after.number - 1
    data = {"after": str(after), "first": str(first), "missed": missed if missed > 0 else None}
    return _event("gap", f"{first.time_ms}-{first.number - 1}", msgspec.json.encode(data))


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
