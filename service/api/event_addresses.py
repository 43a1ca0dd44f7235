"""How a client is told where an event stands among those of all models, and how it says where it wants to go on.

    positions   TIME-NUMBER, for keys of every model: NUMBER counts events, so that gaps are found and told
    own ids     the ids of events, for keys of some models: a position would count the events of the others, and the
                newest one would tell when the last of them was

A key of some models is told where its stream begins by the newest of its own events that is kept, or, where none is,
by a time (``TIME-0``): no event of its models is older. Something is missing where that event is not kept any more, or
may be where that time is long past; how much is not told.
"""

from collections.abc import Callable
from time import time
from typing import Any, NamedTuple, Protocol

from core.problems import Invalid
from service.api.keys import Key
from service.runtime.broadcast import Gap, Listener
from service.store.drift import DriftStreams
from service.store.events import START, StoredEvent, StreamPosition, is_event_id, position

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


class Addresses(Protocol):
    """One way to tell places in the stream."""

    def of(self, event: StoredEvent) -> str:
        """Behind an event."""

    def of_gap(self, gap: Gap) -> tuple[str | None, dict[str, Any]]:
        """What a gap is told as: its address, if it has one, and its data."""

    async def begin(self) -> str:
        """Where a listener begins."""

    async def ahead(self, resume: Resume, /) -> bool:
        """Whether a client names a place that the stream has not reached: then it begins anew."""

    async def gap(self, resume: Resume) -> Gap | None:
        """What is missing behind the place that a client names."""


class Positions:
    """Positions in the stream of all models.

    Args:
        streams: the events.
        listener: of one client.
    """

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
    """Ids of events of some models.

    Args:
        streams: the events of all models.
        listener: of one client.
    """

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
