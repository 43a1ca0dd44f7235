"""Drift events as they become known, as server-sent events.

    event: start   once, where the client did not say where to go on, or named a place that is yet to come:
                   data {"position"}
    event: drift   data: the event, as it was at its first alarm: later ones are not sent
    event: gap     data {"after", "first", "missed"}: what was asked for is no longer kept

The ``id`` of each is its address, and the header Last-Event-ID resumes behind it, at whichever replica:

    positions   TIME-NUMBER, for keys of every model: NUMBER counts events, so that gaps are found and told
    own ids     the ids of events, for keys of some models: a position would count the events of the others, and the
                newest one would tell when the last of them was

A key of some models is told where its stream begins by the newest of its own events that is kept, or, where none is,
by a time (``TIME-0``): no event of its models is older. Something is missing where that event is not kept any more, or
may be where that time is long past; how much is not told. Where nothing comes a comment keeps the connection open.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import suppress
from time import time
from typing import Any, NamedTuple

import msgspec
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from core.problems import Invalid
from service.api.keys import Key, Keys
from service.api.lines import lines_of
from service.errors import StoreDown, Unauthorized
from service.runtime.broadcast import Gap, Listener
from service.store.drift import DriftStreams
from service.store.events import START, StoredEvent, StreamPosition, is_event_id, position, shown

SKEW_MS = 60_000
"""Servers of a cluster may disagree so much about the time."""
AWAY_MS = 3_600_000
"""Events are kept for as long, unless there are very many."""
Wanted = Callable[[str], bool]
"""Whether a client may know of the events of a model."""


class Resume(NamedTuple):
    """Where a client wants to go on.

    Attributes:
        given: in its own words.
        position: in the stream; None: it named an event that is not kept, or none of its own.
    """

    given: str
    position: StreamPosition | None


class Positions:
    """Positions in the stream of all models, for one listener."""

    def __init__(self, streams: DriftStreams, listener: Listener) -> None:
        self._streams, self._start = streams, listener.start

    def of(self, event: StoredEvent) -> str:
        """Behind an event."""
        return str(event.position)

    def of_gap(self, gap: Gap) -> tuple[str | None, dict[str, Any]]:
        """Before the first event that is kept."""
        first = gap.first
        where = self._start if first is None else StreamPosition(first.time_ms, first.number - 1)
        return str(where), {"after": gap.after, "first": None if first is None else str(first), "missed": gap.missed}

    async def begin(self) -> str:
        """Behind the newest event."""
        return str(self._start)

    async def ahead(self, resume: Resume, /) -> bool:
        """Whether it is behind the newest event; another replica's reader may be before this one's."""
        after = resume.position
        return after is not None and after > self._start and after > await self._streams.newest()

    async def gap(self, resume: Resume) -> Gap | None:
        """Found by counting: numbers are consecutive."""
        after = resume.position or START
        page = await self._streams.of_service(after, 1, self._start) if after < self._start else []
        first = page[0].position if page else None
        missed = (self._start.number if first is None else first.number - 1) - after.number
        if resume.position is not None and (after >= self._start or missed == 0):
            return None
        known = resume.position is not None and missed > 0  # negative: the numbering has started again
        return Gap(resume.given, first, missed if known else None)


class OwnIds:
    """Ids of events of some models, for one listener."""

    def __init__(self, streams: DriftStreams, listener: Listener) -> None:
        self._streams, self._listener = streams, listener

    def of(self, event: StoredEvent) -> str:
        """Behind an event."""
        return event.id

    def of_gap(self, gap: Gap) -> tuple[str | None, dict[str, Any]]:
        """Nothing but that there may be one: how many events are missing, and between which, counts those of others."""
        named = gap.after if is_event_id(gap.after) else None
        return None, {"after": named, "first": None, "missed": None}

    async def begin(self) -> str:
        """Behind the newest event of these models, or at a time that is past for every server."""
        newest = await self._streams.last(lambda known: self._listener.wanted(known.model), str(self._listener.start))
        return str(StreamPosition(int(time() * 1000) - SKEW_MS, 0)) if newest is None else newest.id

    async def ahead(self, _: Resume, /) -> bool:
        """Never: it would tell how far the others are."""
        return False

    async def gap(self, resume: Resume) -> Gap | None:
        """Where its event is not kept any more, or its time is long past: the oldest event that is may be another's."""
        after = resume.position
        if after is not None and (is_event_id(resume.given) or after.time_ms > time() * 1000 - AWAY_MS):
            return None
        return Gap(resume.given, None, None)


Addresses = Positions | OwnIds
"""The two ways to tell places in the stream."""


def limited(caller: Key | None) -> bool:
    """Whether a key is one of some models only."""
    return caller is not None and bool(caller.models)


def addresses_for(caller: Key | None, streams: DriftStreams, listener: Listener) -> Addresses:
    """How the holder of a key is told places."""
    return OwnIds(streams, listener) if limited(caller) else Positions(streams, listener)


def cursor_at(caller: Key | None, event: StoredEvent) -> str:
    """Behind an event of a list."""
    return event.id if limited(caller) else str(event.position)


def wanted_by(caller: Key | None) -> Wanted:
    """Whether the request's key may know of a model."""
    return (lambda _: True) if caller is None else caller.allows


async def resume_at(given: str | None, caller: Key | None, streams: DriftStreams) -> Resume | None:
    """Where a client goes on by the header Last-Event-ID; None: it begins.

    Raises:
        Invalid: the header is no id.
    """
    if given is None or given == "":
        return None
    found = position(given)
    if found is not None:
        return Resume(given, StreamPosition(found.time_ms, 0) if limited(caller) else found)
    if not is_event_id(given):
        raise Invalid.of("Last-Event-ID", "is not the id of an event", "an id of this stream, or of an event")
    return Resume(given, await position_of(given, caller, streams))


async def position_of(event_id: str, caller: Key | None, streams: DriftStreams) -> StreamPosition | None:
    """Where an event is that the key may know of; None: it is not kept, or there is none."""
    wanted = wanted_by(caller)
    found = await streams.last(lambda known: known.id == event_id and wanted(known.model))
    return None if found is None else found.position


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
