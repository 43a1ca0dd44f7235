"""A drift event as clients, streams and webhooks see it, and how it is addressed.

    id          INCARNATION-VERSION-INDEX   the same for every replica that finds the alarm
    key         (version, index)            among the events of its model; the id of its entry in the model's stream
    reach       (version, index, joined)    how far a model has got: its newest event, with so many later alarms
    position    TIME-NUMBER                 in the service's stream: when it was added there (the store's clock, ms) and
                                            a consecutive number, from which a reader sees what it has missed

The JSON of the first alarm is made once, when the event is published. What may be added to an event later is kept
beside it, and written behind it when it is shown: ``shown``. Streams and webhooks show it as it was at first.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from core.drift.outbox import Drift

_POSITION = re.compile(r"(\d{1,16})-(\d{1,16})")
_EVENT_ID = re.compile(r"[0-9A-Za-z]{1,64}-\d{1,16}-\d{1,16}")
_encode = msgspec.json.Encoder().encode


class EventKey(NamedTuple):
    """Identifies an event among those of its model: its entry's version, and its index in that entry."""

    version: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.version}-{self.ordinal}"


class Reached(NamedTuple):
    """How far the events of a model are known: up to one of them, and so many of the alarms that have joined it."""

    version: int
    ordinal: int
    joined: int

    def __str__(self) -> str:
        return f"{self.version}-{self.ordinal}-{self.joined}"


class StreamPosition(NamedTuple):
    """Where an event is in the service's stream; positions grow, and ``number`` by one at a time."""

    time_ms: int
    number: int

    def __str__(self) -> str:
        return f"{self.time_ms}-{self.number}"


START = StreamPosition(0, 0)
"""Before every event."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event on its way into the streams.

    Attributes:
        key: among the events of its model.
        id: its own.
        kind: which test found it.
        time_ms: the time of its entry.
        body: the JSON of its first alarm.
        held_back: whether webhooks are not sent it.
        joined: how many later alarms it has by now.
        alarms: the JSON of those that it lists.
    """

    key: EventKey
    id: str
    kind: str
    time_ms: int
    body: bytes
    held_back: bool
    joined: int
    alarms: bytes


class Later(NamedTuple):
    """The later alarms of an event: how many, and the JSON of those that it lists."""

    joined: int = 0
    alarms: bytes = b"[]"


NONE_LATER = Later()


class StoredEvent(NamedTuple):
    """An event as a stream of the store holds it; in a model's own stream ``position`` holds its EventKey."""

    position: StreamPosition
    model: str
    id: str
    time_ms: int
    body: bytes
    held_back: bool = False


def event(model: str, incarnation: str, drift: Drift) -> Event:
    """The event of an episode."""
    key = EventKey(*drift.place)
    identity = f"{incarnation}-{key}"
    body = _encode({"id": identity, "model": model, "time": iso(drift.time_ms), **drift.to_json()})
    alarms = _encode([alarm.to_json() for alarm in drift.alarms])
    return Event(key, identity, drift.kind, drift.time_ms, body, drift.held_back, drift.joined, alarms)


def shown(known: StoredEvent, later: Later = NONE_LATER) -> bytes:
    """The JSON that a client is shown.

    Args:
        known: the event.
        later: the alarms that have joined it; by default none, as when it was sent.
    """
    held_back = b"true" if known.held_back else b"false"
    own = known.body[:-1]
    return b'%b,"held_back":%b,"alarms":%b,"alarm_count":%d}' % (own, held_back, later.alarms, later.joined)


def position(text: str) -> StreamPosition | None:
    """Parse a position; None where the text is none."""
    found = _POSITION.fullmatch(text)
    return None if found is None else StreamPosition(int(found[1]), int(found[2]))


def is_event_id(text: str) -> bool:
    """Whether a text has the form of an event's own id."""
    return _EVENT_ID.fullmatch(text) is not None


def iso(time_ms: int) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
