"""A drift event as clients, streams and webhooks see it, and how it is addressed.

    alarm      (version, index)            of an alarm of a model: its entry of the log, and its number there
    id         INCARNATION-VERSION-INDEX   of an event: that of its first alarm, the same for every replica
    position   TIME-NUMBER                 of an entry of the stream: when it was added (the store's clock, ms; no two
                                           entries share one), and a consecutive number that shows what was missed

An event is shown with the alarms that have joined it so far; streams and webhooks send it at its first alarm, and
streams send each later alarm as an event of kind ``joined``.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from core.drift.outbox import AlarmPosition, Drift

_POSITION = re.compile(r"(\d{1,16})-(\d{1,16})")
_encode = msgspec.json.Encoder().encode
HELD_BACK, JOINED = "h", "j"  # marks of entries: events that webhooks do not get, and later alarms


class StreamPosition(NamedTuple):
    """Where an entry is in the stream; positions and their times increase, and ``number`` by one at a time."""

    time_ms: int
    number: int

    def __str__(self) -> str:
        return f"{self.time_ms}-{self.number}"


START = StreamPosition(0, 0)  # before every entry


class StreamItem(NamedTuple):
    """An alarm on its way into the stream."""

    alarm: AlarmPosition
    event_id: str  # of the event that it is, or has joined
    kind: str  # which test found it, or ``joined``
    time_ms: int  # of the event's entry in the log
    mark: str  # HELD_BACK, JOINED or ""
    body: bytes  # JSON; empty if the outbox does not list the alarm: then it is only counted
    later: int = 0  # how many later alarms its event has with it


NONE_LATER = b"0 "
"""The alarms that have joined an event, as the store holds them: their number, and the JSON of those listed."""


class StoredEvent(NamedTuple):
    """An entry of the stream; in a model's own list ``position`` is its version and index."""

    position: StreamPosition
    model: str
    id: str
    time_ms: int
    body: bytes
    mark: str = ""

    @property
    def joined(self) -> bool:
        """Whether it is a later alarm of an event."""
        return self.mark == JOINED

    @property
    def held_back(self) -> bool:
        """Whether webhooks do not get it."""
        return self.mark == HELD_BACK

    def shown(self, later: bytes = NONE_LATER) -> bytes:
        """The JSON that a client is sent, or shown once ``later`` alarms have joined it."""
        if self.joined:
            name = (self.id.encode(), self.model.encode(), self.body)
            return b'{"id":"%b","model":"%b","kind":"joined","alarms":[%b]}' % name
        return _shown(self.body, self.held_back, later)


def items(model: str, incarnation: str, drifts: Iterable[Drift]) -> Iterator[StreamItem]:
    """The alarms of some events, in their order."""
    for drift in drifts:
        of, time_ms = event_id(incarnation, drift), drift.time_ms
        mark = HELD_BACK if drift.held_back else ""
        yield StreamItem(drift.place, of, drift.kind, time_ms, mark, _body(model, incarnation, drift))
        for count, alarm in enumerate(drift.alarms, 1):
            yield StreamItem(alarm.position, of, "joined", time_ms, JOINED, _encode(alarm.to_json()), count)
        if drift.joined > len(drift.alarms):
            yield StreamItem(drift.last_alarm, of, "joined", time_ms, JOINED, b"", drift.joined)


def event_id(incarnation: str, drift: Drift) -> str:
    """The fixed id of an event."""
    return f"{incarnation}-{drift.version}-{drift.index}"


def shown_of(model: str, incarnation: str, drift: Drift) -> bytes:
    """The JSON of an event that a model has in its outbox."""
    listed = b",".join(_encode(alarm.to_json()) for alarm in drift.alarms)
    return _shown(_body(model, incarnation, drift), drift.held_back, b"%d %b" % (drift.joined, listed))


def _body(model: str, incarnation: str, drift: Drift) -> bytes:
    known = {"id": event_id(incarnation, drift), "model": model, "time": iso(drift.time_ms)}
    return _encode({**known, **drift.to_json()})


def _shown(body: bytes, held_back: bool, later: bytes) -> bytes:
    number, _, listed = later.partition(b" ")
    known = (body[:-1], b"true" if held_back else b"false", listed, number)
    return b'%b,"held_back":%b,"alarms":[%b],"alarm_count":%b}' % known


def position(text: str) -> StreamPosition | None:
    """Parse a position; None if the text is not one."""
    found = _POSITION.fullmatch(text)
    return None if found is None else StreamPosition(int(found[1]), int(found[2]))


def iso(time_ms: int) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
