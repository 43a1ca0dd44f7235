"""The streams of drift events: one per model, one of the service, each event in each of them once.

    onepass:{NAME}:INC:drift   VERSION-INDEX   e JSON of the first alarm, t time of its entry in ms, h where held back
    onepass:drift              TIME-NUMBER     m model, i id, and the same

Beside each stream a hash has the later alarms of its events, by the ids of their entries, as "COUNT JSON". A stream
that drops an event drops these, too.

Every replica finds the same alarms and tries to add them. The last entry of the model's stream tells which events are
new there; the service's stream has the key of each model's last event beside it (its *mark*). These are two slots in a
cluster, so there are two scripts: the second follows the first, both add only events after the last they hold, and may
be repeated. Later alarms are added to the last event only, and only where they are more than it has: an event is
complete before the next one of its model begins. The mark of a deleted model becomes "gone" and is swept an hour
later, so that events of a slow publisher are still recognised.

An event whose entry a failover has cut from its log stays in the service's stream (another slot, another server), and
an event that gets the same key later is taken for a repeat.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from service.store.appends import failed
from service.store.events import NONE_LATER, START, Event, EventKey, Later, Reached, StoredEvent, StreamPosition
from service.store.keys import DRIFT, DRIFT_ALARMS, DRIFT_GONE, DRIFT_MARKS, ModelKeys
from service.store.redis.connection import Call, Connection, Script

BEFORE_FIRST = EventKey(0, 0)
"""Before every event of a model."""
NOTHING = Reached(0, 0, 0)
"""No event of a model is known."""
GONE_MS = 3_600_000
"""How long the mark of a deleted model is kept."""
EVENTS_ALL_MAX = 10_000
"""Events kept of all models together."""
SCAN = 500
"""Events read in one round trip while looking for one."""

PLACES = """
local call = redis.call
local function parts(place)
  local a, b = string.match(place, '^(%d+)-(%d+)$')
  return tonumber(a), tonumber(b)
end
local function before(left, right)
  local a, b = parts(left)
  local c, d = parts(right)
  return a < c or a == c and b < d
end
local function reached(last, joined) return last .. '-' .. string.format('%.0f', joined) end
-- Whether the caller believes more to be there than the event ``last`` with so many later alarms.
local function lacks(last, joined, reach)
  local place, count = string.match(reach, '^(%d+%-%d+)%-(%d+)$')
  return before(last, place) or last == place and joined < tonumber(count)
end
-- The first write of a script is the only one that can fail: its error is the answer, and nothing has changed.
local function put(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then return answer end
end
-- Add an event; those that it pushes out of the stream take their later alarms with them.
local function add(key, alarms, id, most, held_back, ...)
  local over, out, words = call('XLEN', key) + 1 - tonumber(most), {}, {...}
  if over > 0 then out = call('XRANGE', key, '-', '+', 'COUNT', over) end
  if held_back == '1' then
    words[#words + 1] = 'h'
    words[#words + 1] = '1'
  end
  local refused = put('XADD', key, 'MAXLEN', '=', most, id, unpack(words))
  if refused then return refused end
  for _, entry in ipairs(out) do call('HDEL', alarms, entry[1]) end
end
"""

# KEYS meta, drift, alarms; ARGV incarnation, the reach after which the caller sends all, most kept, then of each event
# place, time, JSON, whether it is held back, number and JSON of its later alarms. A stream that lacks what the caller
# believes to be there adds nothing: the caller sends that first.
_TO_MODEL = Script(
    PLACES
    + """
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return {'gone', 0} end
local top = call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local last, added = top and top[1] or '0-0', 0
local joined = tonumber(string.match(call('HGET', KEYS[3], last) or '0', '^%d+'))
if lacks(last, joined, ARGV[2]) then return {reached(last, joined), 0} end
for i = 4, #ARGV, 6 do
  local place, count, refused = ARGV[i], tonumber(ARGV[i + 4]), nil
  if before(last, place) then
    refused = add(KEYS[2], KEYS[3], place, ARGV[3], ARGV[i + 3], 't', ARGV[i + 1], 'e', ARGV[i + 2])
    if refused then return refused end
    last, joined, added = place, 0, added + 1
  end
  if place == last and joined < count then
    refused = put('HSET', KEYS[3], place, ARGV[i + 4] .. ' ' .. ARGV[i + 5])
    if refused then return refused end
    joined = count
  end
end
return {reached(last, joined), added}
"""
)

# KEYS stream, marks, alarms; ARGV model's field, reach as above, most kept, model, then of each event the same and its
# id. The later alarms of an event that is no longer in the stream are counted at its mark, and not kept.
_TO_SERVICE = Script(
    PLACES
    + """
local last, added = call('HGET', KEYS[2], ARGV[1]) or '0-0', 0
if last == 'gone' then return {'gone', 0} end
local field = ARGV[1] .. ' joined'
local joined, at = string.match(call('HGET', KEYS[2], field) or '0 0-0', '^(%d+) (.+)$')
joined = tonumber(joined)
if lacks(last, joined, ARGV[2]) then return {reached(last, joined), 0} end
local top = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local time, number = parts(top and top[1] or '0-0')
local clock = call('TIME')
time = math.max(time, clock[1] * 1000 + math.floor(clock[2] / 1000))
local moved, refused = false, nil
for i = 5, #ARGV, 7 do
  local place, count = ARGV[i], tonumber(ARGV[i + 4])
  if before(last, place) then
    number = number + 1
    at = string.format('%.0f-%.0f', time, number)
    refused = add(KEYS[1], KEYS[3], at, ARGV[3], ARGV[i + 3],
                  'm', ARGV[4], 'i', ARGV[i + 6], 't', ARGV[i + 1], 'e', ARGV[i + 2])
    if refused then return refused end
    last, joined, added, moved = place, 0, added + 1, true
  end
  if place == last and joined < count then
    if #call('XRANGE', KEYS[1], at, at) > 0 then
      refused = put('HSET', KEYS[3], at, ARGV[i + 4] .. ' ' .. ARGV[i + 5])
    end
    if refused then return refused end
    joined, moved = count, true
  end
end
if moved then
  refused = put('HSET', KEYS[2], ARGV[1], last, field, string.format('%.0f', joined) .. ' ' .. at)
end
return refused or {reached(last, joined), added}
"""
)

# KEYS marks, gone; ARGV model's field, how long the mark is kept.
_FORGET = Script("""
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  call('HDEL', KEYS[1], ARGV[1] .. ' joined')  -- first: what needs room is let through behind it, also in a full store
  call('HSET', KEYS[1], ARGV[1], 'gone')
  call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[1])
end
local old = call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - tonumber(ARGV[2])), 'LIMIT', 0, 1000)
if #old > 0 then
  call('HDEL', KEYS[1], unpack(old))
  call('ZREM', KEYS[2], unpack(old))
end
return #old
""")


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one model, oldest first: all that its replica keeps after ``after``."""

    name: str
    incarnation: str
    after: Reached
    events: tuple[Event, ...]


def forget(name: str, incarnation: str) -> Call:
    """The call that marks a deleted model; its own stream is gone, its events stay in the service's."""
    return Call(_FORGET, (DRIFT_MARKS, DRIFT_GONE), (ModelKeys(name, incarnation).member(), GONE_MS))


class DriftStreams:
    """The streams of one store.

    Every method raises StoreDown where the store did not answer, or answered that it cannot.

    Args:
        connection: the store.
        own_connection: for the blocking reads of ``news`` only.
        model_max: events kept per model.
        service_max: events kept of all models together.
        wait_s: how long one blocking read waits at most.
    """

    def __init__(
        self, connection: Connection, own_connection: Connection, *, model_max: int, service_max: int, wait_s: float
    ) -> None:
        self._connection, self._own = connection, own_connection
        self._model_max, self._service_max, self._wait_s = model_max, service_max, wait_s

    async def to_model(self, batch: Batch) -> Reached | None:
        """Add what is new to the model's stream; how far that is now, None where the model is gone."""
        keys = ModelKeys(batch.name, batch.incarnation)
        args: list[bytes | str | int] = [batch.incarnation, str(batch.after), self._model_max]
        for event in batch.events:
            args += _words(event)
        return (await self._added(Call(_TO_MODEL, (keys.meta, keys.drift, keys.alarms), args)))[0]

    async def to_service(self, batch: Batch) -> tuple[Reached | None, int]:
        """The same for the service's stream, and how many events were new: the last ones of the batch."""
        member = ModelKeys(batch.name, batch.incarnation).member()
        args: list[bytes | str | int] = [member, str(batch.after), self._service_max, batch.name]
        for event in batch.events:
            args += (*_words(event), event.id)
        return await self._added(Call(_TO_SERVICE, (DRIFT, DRIFT_MARKS, DRIFT_ALARMS), args))

    async def _added(self, call: Call) -> tuple[Reached | None, int]:
        (answer,) = await self._connection.run([call])
        if isinstance(answer, Exception):
            raise failed(answer)
        last, added = answer
        return None if last == b"gone" else Reached(*map(int, last.split(b"-"))), added

    # ---------------------------------------------------------------- reading

    async def of_model(self, name: str, incarnation: str, after: EventKey, limit: int) -> list[StoredEvent]:
        """Up to ``limit`` events of a model after a key, oldest first, with those of unlabelled rows (unlabelled)."""
        keys = ModelKeys(name, incarnation)
        found = await self._connection.ask(
            *(("XRANGE", key, f"({after}", "+", "COUNT", limit) for key in (keys.drift, keys.unlabelled))
        )
        events = [stored_event(item) for part in found for item in part]
        return sorted(events, key=lambda known: known.position)[:limit]

    async def of_model_back(
        self, name: str, incarnation: str, before: EventKey, after: EventKey, limit: int
    ) -> list[StoredEvent]:
        """The same of those between two keys, newest first."""
        keys = ModelKeys(name, incarnation)
        found = await self._connection.ask(
            *(("XREVRANGE", key, f"({before}", f"({after}", "COUNT", limit) for key in (keys.drift, keys.unlabelled))
        )
        events = [stored_event(item) for part in found for item in part]
        return sorted(events, key=lambda known: known.position, reverse=True)[:limit]

    async def later_of_model(self, name: str, incarnation: str, found: Sequence[StoredEvent]) -> list[Later]:
        """What has joined each of these events of a model's stream."""
        return await self._later(ModelKeys(name, incarnation).alarms, found)

    async def later_of_service(self, found: Sequence[StoredEvent]) -> list[Later]:
        """What has joined each of these events of the service's stream."""
        return await self._later(DRIFT_ALARMS, found)

    async def _later(self, key: str, found: Sequence[StoredEvent]) -> list[Later]:
        if not found:
            return []
        fields = [f"{known.position[0]}-{known.position[1]}" for known in found]
        (kept,) = await self._connection.ask(("HMGET", key, *fields))
        return [NONE_LATER if value is None else _later(value) for value in kept]

    async def of_service(
        self, after: StreamPosition, limit: int, until: StreamPosition | None = None
    ) -> list[StoredEvent]:
        """Up to ``limit`` events of all models after a position, oldest first; none after ``until``."""
        end = "+" if until is None else str(until)
        (found,) = await self._connection.ask(("XRANGE", DRIFT, f"({after}", end, "COUNT", limit))
        return [stored_event(item) for item in found]

    async def newest(self) -> StreamPosition:
        """The position of the newest event of all models."""
        (found,) = await self._connection.ask(("XREVRANGE", DRIFT, "+", "-", "COUNT", 1))
        return stored_event(found[0]).position if found else START

    async def news(self, after: StreamPosition, limit: int) -> list[StoredEvent]:
        """Events of all models after a position; waits for some, and returns none where none came."""
        wait_ms = max(1, int(1000 * self._wait_s))
        command = ("XREAD", "COUNT", limit, "BLOCK", wait_ms, "STREAMS", DRIFT, str(after))
        (found,) = await self._own.ask(command)
        return [stored_event(item) for item in found[0][1]] if found else []

    async def last(self, sought: Callable[[StoredEvent], bool], until: str = "+") -> StoredEvent | None:
        """The newest event of all models that is sought, up to a position; None where none is kept."""
        while True:
            (found,) = await self._connection.ask(("XREVRANGE", DRIFT, until, "-", "COUNT", SCAN))
            for known in map(stored_event, found):
                if sought(known):
                    return known
            if len(found) < SCAN:
                return None
            until = f"({found[-1][0].decode()}"


def _words(event: Event) -> tuple[bytes | str | int, ...]:
    """An event as the scripts take it."""
    held_back = "1" if event.held_back else ""
    return str(event.key), event.time_ms, event.body, held_back, event.joined, event.alarms


def _later(value: bytes) -> Later:
    joined, _, alarms = value.partition(b" ")
    return Later(int(joined), alarms)


def _event_key(text: bytes) -> EventKey:
    version, _, index = text.partition(b"-")
    return EventKey(int(version), int(index))


def stored_event(item: Any) -> StoredEvent:
    """An event from the server's reply for an entry of one of the streams."""
    entry_id, flat = item
    # Scripts return names and values in turn; for plain commands the client library makes a dict of them.
    fields = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    model, identity = (fields.get(name, b"").decode() for name in (b"m", b"i"))
    position = StreamPosition(*_event_key(entry_id))
    return StoredEvent(position, model, identity, int(fields[b"t"]), fields[b"e"], b"h" in fields)
