"""Drift events as they become known, as server-sent events.

    event: start   once, if the client sent no position or one in the future: data {"position"}
    event: drift   data: an event as it was at its first alarm, or a later alarm of one (kind ``joined``)
    event: gap     data {"after", "first", "missed"}: some of the requested events are no longer kept

The ``id`` of each is its position in the stream; the header Last-Event-ID resumes after it, on any replica. Positions
are numbered, so gaps can be detected and reported. A key for some models only sees the times of positions (``TIME-0``),
because the numbers would reveal how many events the other models have. Its stream starts at the newest kept event of
its own models or, if there is none, at a time before which it has none; of a gap it only learns that there may be one.
A comment keeps an idle connection open.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.api.http.headers import LINES
from service.api.http.keys import Keys
from service.errors import StoreDown, Unauthorized
from service.runtime.broadcast import EventSubscription
from service.store.drift.drift import DriftStream
from service.store.drift.events import START, StreamPosition, position

logger = logging.getLogger(__name__)

SKEW_MS = 60_000  # most that the clocks of a cluster's servers may differ
NUMBER_MAX = 10**16 - 1  # larger than the number of every entry; no two entries have the same time
KEEP_ALIVE_S = 15.0  # how often a comment is sent while there is no event
PAGE = 100  # events read in one round trip while a client catches up
AGAIN_S = 1.0  # pause before the store is asked again after it did not answer
LAST_WORD_S = 1.0  # how long writing the end of a stream may take
EXAMPLE = (
    'event: start\ndata: {"position":"1769860800000-16"}\nid: 1769860800000-16\n\n'
    'event: drift\ndata: {"id":"5f3a9c0d1e2b4a68-1204-0","model":"demo",...}\nid: 1769860801234-17\n\n'
)


# ---------------------------------------------------------------- addresses


def address(at: StreamPosition, limited: bool) -> str:
    """A position in the form that a key may see."""
    return f"{at.time_ms}-0" if limited else str(at)


def located(text: str, limited: bool) -> StreamPosition | None:
    """The position in a text that a client sent; None if it is not a position."""
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
    """The events for a client until its subscription ends: first those it missed, then new ones.

    The stream resumes ``after`` a position; None: after the ``newest``. A key that is ``limited`` to some models must
    not learn how many events others have.
    """
    if after is None or (await _is_ahead(stream, after, newest) if limited else after > newest):
        after = newest  # new events begin here; a limited key does not see this position
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


async def _is_ahead(stream: DriftStream, after: StreamPosition, newest: StreamPosition) -> bool:
    """Whether a time is in the future for every server."""
    return after.time_ms > max(newest.time_ms, await stream.now_ms()) + SKEW_MS


async def _begin(stream: DriftStream, wanted: Callable[[str], bool], newest: StreamPosition) -> str:
    """Where a limited stream begins: after the newest event of its models, or at a time past for every server."""
    known = await stream.last(lambda event: wanted(event.model), str(newest))
    before = StreamPosition(await stream.now_ms() - SKEW_MS, 0)
    return address(before if known is None else known.position, limited=True)


async def _may_have_missed(stream: DriftStream, after: StreamPosition) -> bool:
    """Whether entries that may be later than a time have left the stream."""
    oldest = await stream.after(START, 1)
    return bool(oldest) and oldest[0].position.number > 1 and oldest[0].position > after


def _gap(after: StreamPosition, first: StreamPosition | None, limited: bool) -> bytes:
    """The gap between two positions; its size is unknown if the stream was started again."""
    if limited or first is None:
        return _event("gap", None, msgspec.json.encode({"after": None, "first": None, "missed": None}))
    missed = first.number - after.number - 1
    data = {"after": str(after), "first": str(first), "missed": missed if missed > 0 else None}
    return _event("gap", f"{first.time_ms}-{first.number - 1}", msgspec.json.encode(data))


def _event(kind: str, where: str | None, data: bytes) -> bytes:
    return format_sse_event(event=kind, data_str=data.decode(), id=where)


async def _while_allowed(frames: AsyncIterable[Any], keys: Keys, sent: Mapping[bytes, bytes]) -> AsyncIterator[Any]:
    """Pass events on until the key of the request is removed or covers other models."""
    with suppress(Unauthorized):
        begun = keys.caller(sent)
        async for frame in frames:
            if (key := keys.caller(sent)) is not None and (begun is None or key.models != begun.models):
                return
            yield frame


class EventStream(StreamingResponse):
    """The response; it ends when the client disconnects, loses its key or is too slow, and when the service stops.

    FastAPI's own support for event generators cannot disconnect a client that does not read.

    ``over`` is set when the stream has to end: the body then has little time to write its last event. ``leave`` is
    called at the end.
    """

    media_type = "text/event-stream"

    def __init__(self, body: AsyncIterator[bytes], over: asyncio.Event, leave: Callable[[], None]) -> None:
        super().__init__(body, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._over, self._leave = over, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the stream is over; a client that does not read the end is disconnected without it."""
        self.body_iterator = _while_allowed(self.body_iterator, scope["app"].context.keys, scope[LINES])
        sending = asyncio.create_task(super().__call__(scope, receive, send))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([sending, over], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([sending], timeout=LAST_WORD_S)
            if not sending.done():
                logger.warning("an event stream was closed: its client does not read")
        finally:
            self._leave()
            for task in (sending, over):
                task.cancel()
            await asyncio.gather(sending, over, return_exceptions=True)
