"""The stream of drift events: one for the whole service, each alarm in it once.

    onepass:drift   TIME-NUMBER   m model, i id of the event, t time of its entry in the log, k mark, e JSON (events.py)

Every replica finds the same alarms and tries to add them. In the slot of the stream a hash has the position of each
model's newest published alarm: a script adds only later alarms and moves that position, so publishing may be repeated.
Another hash has the alarms that have joined each event of the stream, "COUNT JSON,JSON", for the lists; when an entry
leaves the stream, those of its event leave too. Nothing is added for a model with a tombstone: it was deleted.

An event whose log entry a failover has cut stays in the stream (another slot, another server), where a later one may
get its id. Publishers that find the position of such an alarm beyond the log take it back (``take_back``).

Drift found before the labels arrive is not implied by the log, and replicas may find different drifts. So a model has
at most one such event a minute, and others are dropped; the model's own list keeps them, since no outbox does. Their
indices begin above those of all alarms, so that a list of both has one order.
"""

from collections.abc import Callable, Sequence
from typing import Any

from core.drift.outbox import NO_ALARM, AlarmPosition
from service.errors import Unavailable
from service.store.drift.events import NONE_LATER, START, StoredEvent, StreamItem, StreamPosition, position
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_PUBLISHED, TOMBSTONES, ModelKeys
from service.store.lua import script
from service.store.redis.connection import Call, Connection

KEPT = 10_000  # entries of the stream that are kept
SCAN = 500  # entries read in one round trip while looking for one
FIRST_UNLABELLED, UNLABELLED_KEPT = 10**9, 100
"""The first index of an event of unlabelled rows, and how many of one model are kept."""
UNLABELLED_PAUSE_MS = 60_000  # least time between two of one model

_PUBLISH = script("basics", "add_event", "publish_alarms")

_TAKE_BACK = script("take_back")

_ADD_UNLABELLED = script("basics", "add_event", "add_unlabelled")


class DriftStream:
    """The stream of one store, of which the last ``kept`` entries stay.

    Every method raises StoreDown if the store did not answer, StoreFull if it has no room.
    ``own_connection`` is for the blocking reads of ``news`` only, each of which waits ``wait_s`` at most.
    """

    def __init__(self, connection: Connection, own_connection: Connection, *, kept: int, wait_s: float) -> None:
        self._connection, self._own, self._kept, self._wait_s = connection, own_connection, kept, wait_s

    # ---------------------------------------------------------------- adding

    async def publish(
        self, name: str, incarnation: str, after: AlarmPosition, alarms: Sequence[StreamItem]
    ) -> tuple[AlarmPosition | None, int]:
        """Add the alarms that are new; without any, find out how far the model's alarms are published.

        ``after`` is the last alarm believed to be published, NO_ALARM if unknown; ``alarms`` follow it, in order.
        Returns the last one published now, None if the model was deleted, and how many were new: the last ones.
        """
        args: list[bytes | str | int] = [ModelKeys(name, incarnation).member(), name, self._kept, _text(after)]
        for each in alarms:
            args += (_text(each.alarm), each.event_id, each.time_ms, each.mark, each.body, each.later)
        own = (DRIFT, DRIFT_ALARMS, TOMBSTONES, DRIFT_PUBLISHED)
        reached, added = await self._connection.one(Call(_PUBLISH, own, args))
        return None if reached == b"gone" else _alarm(reached), added

    async def take_back(
        self, name: str, incarnation: str, last: AlarmPosition, alarms: Sequence[StreamItem]
    ) -> AlarmPosition:
        """Publish what follows the newest of a model's ``alarms`` in the stream: its log has lost ``last``.

        Returns the last one published now, which is another if somebody else was faster. ``Unavailable`` if the stream
        has got other entries meanwhile, this model's perhaps.
        """
        newest = await self.newest()
        known = {(each.event_id, each.body): each.alarm for each in alarms if each.body}
        found = await self.last(lambda event: (event.id, event.body) in known)
        if found is not None:
            back = known[found.id, found.body]
        else:  # those before the oldest entry have left the stream
            begin = next((entry.position.time_ms for entry in await self.after(START, 1)), 0)
            back = max((each.alarm for each in alarms if each.time_ms < begin), default=NO_ALARM)
        args = (ModelKeys(name, incarnation).member(), _text(last), _text(back), str(newest))
        reached = await self._connection.one(Call(_TAKE_BACK, (DRIFT_PUBLISHED, DRIFT), args))
        if reached is None:
            raise Unavailable("the stream of drift events has changed meanwhile")
        return _alarm(reached)

    async def add_unlabelled(
        self, name: str, incarnation: str, version: int, time_ms: int, body: bytes, mark: str = ""
    ) -> bool:
        """Add an event of unlabelled rows, whose JSON lacks the id; False: its model is gone, or had one recently."""
        keys = ModelKeys(name, incarnation)
        place = (incarnation, version, FIRST_UNLABELLED, UNLABELLED_KEPT, UNLABELLED_PAUSE_MS)
        args = (keys.member(), name, self._kept, *place, time_ms, body.removeprefix(b"{"), mark)
        own = (DRIFT, DRIFT_ALARMS, TOMBSTONES, keys.unlabelled)
        return bool(await self._connection.one(Call(_ADD_UNLABELLED, own, args)))

    # ---------------------------------------------------------------- reading

    async def unlabelled(self, name: str, incarnation: str) -> list[StoredEvent]:
        """The events of unlabelled rows of a model; the position of each is its version and index."""
        (found,) = await self._connection.ask(("XRANGE", ModelKeys(name, incarnation).unlabelled, "-", "+"))
        return [stored_event(item) for item in found]

    async def after(
        self, reached: StreamPosition, limit: int, until: StreamPosition | None = None
    ) -> list[StoredEvent]:
        """Up to ``limit`` entries after a position, oldest first; none after ``until``."""
        end = "+" if until is None else str(until)
        (found,) = await self._connection.ask(("XRANGE", DRIFT, f"({reached}", end, "COUNT", limit))
        return [stored_event(item) for item in found]

    async def later_alarms(self, events: Sequence[StoredEvent]) -> list[bytes]:
        """The alarms that have joined each of these events, as ``StoredEvent.shown`` takes them."""
        if not events:
            return []
        (kept,) = await self._connection.ask(("HMGET", DRIFT_ALARMS, *(event.id for event in events)))
        return [value or NONE_LATER for value in kept]

    async def newest(self) -> StreamPosition:
        """The position of the newest entry."""
        found = await self.last(lambda _: True)
        return START if found is None else found.position

    async def now_ms(self) -> int:
        """The store's time, which the positions of new entries have."""
        ((seconds, _),) = await self._connection.ask(("TIME",))
        return 1000 * int(seconds)

    async def news(self, reached: StreamPosition, limit: int) -> list[StoredEvent]:
        """Entries after a position; waits for some, and returns none if none were added in time."""
        wait_ms = max(1, int(1000 * self._wait_s))
        command = ("XREAD", "COUNT", limit, "BLOCK", wait_ms, "STREAMS", DRIFT, str(reached))
        (found,) = await self._own.ask(command)
        return [stored_event(item) for item in found[0][1]] if found else []

    async def last(self, sought: Callable[[StoredEvent], bool], until: str = "+") -> StoredEvent | None:
        """The newest kept entry up to a position for which ``sought`` is true; None if there is none."""
        count = 1
        while True:
            (found,) = await self._connection.ask(("XREVRANGE", DRIFT, until, "-", "COUNT", count))
            for event in map(stored_event, found):
                if sought(event):
                    return event
            if len(found) < count:
                return None
            until, count = f"({found[-1][0].decode()}", SCAN


def _text(alarm: AlarmPosition) -> str:
    return "-".join(map(str, alarm))


def _alarm(text: bytes) -> AlarmPosition:
    version, index = map(int, text.split(b"-"))
    return version, index


def stored_event(item: Any) -> StoredEvent:
    """An event from the server's reply for an entry of the stream, or of a model's list."""
    entry_id, flat = item
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    model, event_id, mark = (fields[name].decode() for name in (b"m", b"i", b"k"))
    at = position(entry_id.decode())
    return StoredEvent(at or START, model, event_id, int(fields[b"t"]), fields[b"e"], mark)
