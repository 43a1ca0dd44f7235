"""The stream of drift events: one for the whole service, each alarm in it once.

    onepass:drift   TIME-NUMBER   m model, i id of the event, t time of its entry in the log, k mark, e JSON (events.py)

Every replica finds the same alarms and tries to add them. In the slot of the stream a hash has the position of each
model's newest published alarm: a script adds only what comes after it, and moves it, so publishing may be repeated.
Another hash has the alarms that have joined each event of the stream, "COUNT JSON,JSON", for the lists; an entry that
leaves the stream takes those of its event with it. Of a deleted model, by its tombstone, nothing is added any more.

An event whose log entry a failover has cut stays in the stream (another slot, another server), and an alarm that gets
the same position later is taken for a repeat.

Drift that shows before the labels come is not implied by the log, and replicas do not find the same. So a model has one
such event in a while, a later one is dropped; and a list of its own keeps them, since no outbox does. Their index
begins above every index of an alarm: a list of both has one order.
"""

from collections.abc import Callable, Sequence
from typing import Any

from core.drift.outbox import AlarmPosition
from service.store.drift.events import NONE_LATER, START, StoredEvent, StreamItem, StreamPosition, position
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_PUBLISHED, TOMBSTONES, ModelKeys
from service.store.log.appends import failed
from service.store.log.scripts import BASICS
from service.store.redis.connection import Call, Connection, Script

KEPT = 10_000
"""Entries of the stream that are kept."""
SCAN = 500
"""Entries read in one round trip while looking for one."""
NOTHING: AlarmPosition = (0, 0, 0)
"""Before every alarm of a model."""
FIRST_UNLABELLED, UNLABELLED_KEPT = 10**9, 100
"""The first index of an event of unlabelled rows, and how many of one model are kept."""
UNLABELLED_PAUSE_MS = 60_000
"""Least time between two of one model."""

# KEYS 1 stream, 2 alarms, 3 tombstones; ARGV 1 model and incarnation, 2 model, 3 most entries kept.
# The first write of a script is the only one that can fail: then nothing has changed.
_ADD = (
    BASICS
    + """
local function add(...)
  local top = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
  local time, number = string.match(top and top[1] or '0-0', '^(%d+)-(%d+)$')
  local id = string.format('%.0f-%.0f', math.max(now, time + 1), number + 1)
  local over, out = call('XLEN', KEYS[1]) + 1 - tonumber(ARGV[3]), {}
  if over > 0 then out = call('XRANGE', KEYS[1], '-', '+', 'COUNT', over) end
  call('XADD', KEYS[1], 'MAXLEN', '=', ARGV[3], id, 'm', ARGV[2], ...)
  for _, entry in ipairs(out) do call('HDEL', KEYS[2], entry[2][4]) end
end
local gone = call('ZSCORE', KEYS[3], ARGV[1])
"""
)

# KEYS 4 published; ARGV 4 the alarm that the caller believes to be the last published, then of each in order: which,
# id of its event, time, mark, JSON. A store that has less than the caller believes adds nothing: the caller sends that
# first.
_PUBLISH = Script(
    _ADD
    + """
if gone then return {'gone', 0} end
local function less(one, other)
  local a, b, c = string.match(one, '^(%d+)-(%d+)-(%d+)$')
  local d, e, f = string.match(other, '^(%d+)-(%d+)-(%d+)$')
  if a ~= d then return tonumber(a) < tonumber(d) end
  if b ~= e then return tonumber(b) < tonumber(e) end
  return tonumber(c) < tonumber(f)
end
-- An alarm that its outbox does not list is counted where its event has others.
local function join(event, reach, alarm)
  local held = call('HGET', KEYS[2], event)
  local listed = held and string.match(held, ' (.*)$')
  if alarm ~= '' then listed = listed and listed .. ',' .. alarm or alarm end
  if listed then call('HSET', KEYS[2], event, string.match(reach, '%d+$') .. ' ' .. listed) end
end
local reached, added = call('HGET', KEYS[4], ARGV[1]) or '0-0-0', 0
if less(reached, ARGV[4]) then return {reached, 0} end
for i = 5, #ARGV, 5 do
  local reach, event, time, mark, body = unpack(ARGV, i, i + 4)
  if less(reached, reach) then
    if body ~= '' then add('i', event, 't', time, 'k', mark, 'e', body) end
    if mark == 'j' then join(event, reach, body) end
    reached, added = reach, added + 1
  end
end
if added > 0 then call('HSET', KEYS[4], ARGV[1], reached) end
return {reached, added}
"""
)

# KEYS 4 the model's list; ARGV 4 incarnation, 5 version, 6 first index, 7 most kept in the list, 8 least ms since the
# last one, 9 time, 10 JSON behind the id.
_ADD_UNLABELLED = Script(
    _ADD
    + """
local version, index = tonumber(ARGV[5]), tonumber(ARGV[6])
local last = call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
if gone or last and now - tonumber(last[2][2]) < tonumber(ARGV[8]) then return 0 end
if last then
  local a, b = string.match(last[1], '^(%d+)-(%d+)$')
  if tonumber(a) >= version then version, index = a, b + 1 end
end
local place = string.format('%.0f-%.0f', version, index)
local event = ARGV[4] .. '-' .. place
local body = '{"id":"' .. event .. '",' .. ARGV[10]
add('i', event, 't', ARGV[9], 'k', '', 'e', body)
call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[7], place,
  'n', string.format('%.0f', now), 'm', ARGV[2], 'i', event, 't', ARGV[9], 'k', '', 'e', body)
return 1
"""
)


class DriftStream:
    """The stream of one store.

    Every method raises StoreDown where the store did not answer, StoreFull where it has no room.

    Args:
        connection: the store.
        own_connection: for the blocking reads of ``news`` only.
        kept: entries that are kept.
        wait_s: how long one blocking read waits at most.
    """

    def __init__(self, connection: Connection, own_connection: Connection, *, kept: int, wait_s: float) -> None:
        self._connection, self._own, self._kept, self._wait_s = connection, own_connection, kept, wait_s

    # ---------------------------------------------------------------- adding

    async def publish(
        self, name: str, incarnation: str, after: AlarmPosition, alarms: Sequence[StreamItem]
    ) -> tuple[AlarmPosition | None, int]:
        """Add the alarms that are new; without any, ask how far they are published.

        Args:
            name: of the model.
            incarnation: likewise.
            after: how far its alarms are believed to be published; NOTHING: not known.
            alarms: those after it, in order.

        Returns:
            How far they are now, None where the model was deleted; and how many were new: the last ones.
        """
        args: list[bytes | str | int] = [ModelKeys(name, incarnation).member(), name, self._kept, _text(after)]
        for each in alarms:
            args += (_text(each.alarm), each.event_id, each.time_ms, each.mark, each.body)
        reached, added = await self._run(Call(_PUBLISH, (DRIFT, DRIFT_ALARMS, TOMBSTONES, DRIFT_PUBLISHED), args))
        if reached == b"gone":
            return None, 0
        version, index, joined = map(int, reached.split(b"-"))
        return (version, index, joined), added

    async def add_unlabelled(self, name: str, incarnation: str, version: int, time_ms: int, body: bytes) -> bool:
        """Add an event of unlabelled rows, whose JSON lacks the id; False: its model is gone, or had one just now."""
        keys = ModelKeys(name, incarnation)
        place = (incarnation, version, FIRST_UNLABELLED, UNLABELLED_KEPT, UNLABELLED_PAUSE_MS)
        args = (keys.member(), name, self._kept, *place, time_ms, body.removeprefix(b"{"))
        return bool(await self._run(Call(_ADD_UNLABELLED, (DRIFT, DRIFT_ALARMS, TOMBSTONES, keys.unlabelled), args)))

    async def _run(self, call: Call) -> Any:
        (answer,) = await self._connection.run([call])
        if isinstance(answer, Exception):
            raise failed(answer)
        return answer

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
        """What has joined each of these events, as ``StoredEvent.shown`` takes it."""
        if not events:
            return []
        (kept,) = await self._connection.ask(("HMGET", DRIFT_ALARMS, *(event.id for event in events)))
        return [value or NONE_LATER for value in kept]

    async def newest(self) -> StreamPosition:
        """The position of the newest entry."""
        found = await self.last(lambda _: True)
        return START if found is None else found.position

    async def news(self, reached: StreamPosition, limit: int) -> list[StoredEvent]:
        """Entries after a position; waits for some, and returns none where none came."""
        wait_ms = max(1, int(1000 * self._wait_s))
        command = ("XREAD", "COUNT", limit, "BLOCK", wait_ms, "STREAMS", DRIFT, str(reached))
        (found,) = await self._own.ask(command)
        return [stored_event(item) for item in found[0][1]] if found else []

    async def last(self, sought: Callable[[StoredEvent], bool], until: str = "+") -> StoredEvent | None:
        """The newest entry that is sought, up to a position; None where none is kept."""
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


def stored_event(item: Any) -> StoredEvent:
    """An event from the server's reply for an entry of the stream, or of a model's list."""
    entry_id, flat = item
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    model, event_id, mark = (fields[name].decode() for name in (b"m", b"i", b"k"))
    at = position(entry_id.decode())
    return StoredEvent(at or START, model, event_id, int(fields[b"t"]), fields[b"e"], mark)
