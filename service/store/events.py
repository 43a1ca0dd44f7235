"""A drift event as clients, streams and webhooks see it, and how it is addressed.

    id          INCARNATION-VERSION-INDEX   the same for every replica that finds the alarm
    key         (version, index)            among the events of its model; the id of its entry in the model's stream
    position    TIME-NUMBER                 in the service's stream: when it was added there (the store's clock, ms) and
                                            a consecutive number, from which a reader sees what it has missed

The JSON is made once, when the event is published; all readers pass on the same bytes.
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
        body: the JSON.
    """

    key: EventKey
    id: str
    kind: str
    time_ms: int
    body: bytes


class StoredEvent(NamedTuple):
    """An event as a stream of the store holds it; in a model's own stream ``position`` holds its EventKey."""

    position: StreamPosition
    model: str
    id: str
    time_ms: int
    body: bytes


def event(model: str, incarnation: str, drift: Drift) -> Event:
    """The event of an alarm."""
    key = EventKey(*drift.place)
    identity = f"{incarnation}-{key}"
    body = _encode({"id": identity, "model": model, "time": iso(drift.time_ms), **drift.to_json()})
    return Event(key, identity, drift.kind, drift.time_ms, body)


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
