"""The streams of drift events: one per model, one of the service, each event in each of them once.

    onepass:{NAME}:INC:drift   VERSION-INDEX   e JSON, t time of the entry in ms
    onepass:drift              TIME-NUMBER     m model, i id, t time of the entry in ms, e JSON

Every replica finds the same alarms and tries to add them. The last entry of the model's stream tells which events are
new there; the service's stream has the key of each model's last event beside it (its *mark*). These are two slots in a
cluster, so there are two scripts: the second follows the first, both add only events after the last they hold, and may
be repeated. The mark of a deleted model becomes "gone" and is swept an hour later, so that events of a slow publisher
are still recognised.

An event whose entry a failover has cut from its log stays in the service's stream (another slot, another server), and
an event that gets the same key later is taken for a repeat.
"""

from dataclasses import dataclass
from typing import Any

from service.store.appends import failed
from service.store.events import START, Event, EventKey, StoredEvent, StreamPosition
from service.store.keys import DRIFT, DRIFT_GONE, DRIFT_MARKS, ModelKeys
from service.store.redis.connection import Call, Connection, Script

BEFORE_FIRST = EventKey(0, 0)
"""Before every event of a model."""
GONE_MS = 3_600_000
"""How long the mark of a deleted model is kept."""
SCAN = 500
"""Events read in one round trip while looking for one."""

_PLACES = """
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
-- XADD is the first write of a script, and the only one that can fail: failing at the first event changes nothing.
local function add(key, id, most, ...)
  return redis.pcall('XADD', key, 'MAXLEN', '=', most, id, ...)
end
"""

# KEYS meta, drift; ARGV incarnation, the place after which the caller sends all, most kept, then place, time, JSON of
# each. A stream that lacks what the caller believes to be there adds nothing: the caller sends that first.
_TO_MODEL = Script(
    _PLACES
    + """
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return {'gone', 0} end
local top = call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local last, added = top and top[1] or '0-0', 0
if before(last, ARGV[2]) then return {last, 0} end
for i = 4, #ARGV, 3 do
  if before(last, ARGV[i]) then
    local answer = add(KEYS[2], ARGV[i], ARGV[3], 't', ARGV[i + 1], 'e', ARGV[i + 2])
    if type(answer) == 'table' and answer.err then return answer end
    last, added = ARGV[i], added + 1
  end
end
return {last, added}
"""
)

# KEYS stream, marks; ARGV model's field, place as above, most kept, model, then place, time, JSON, id of each.
_TO_SERVICE = Script(
    _PLACES
    + """
local last, added = call('HGET', KEYS[2], ARGV[1]) or '0-0', 0
if last == 'gone' then return {'gone', 0} end
if before(last, ARGV[2]) then return {last, 0} end
local top = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local time, number = parts(top and top[1] or '0-0')
local clock = call('TIME')
time = math.max(time, clock[1] * 1000 + math.floor(clock[2] / 1000))
for i = 5, #ARGV, 4 do
  if before(last, ARGV[i]) then
    number = number + 1
    local id = string.format('%.0f-%.0f', time, number)
    local answer = add(KEYS[1], id, ARGV[3], 'm', ARGV[4], 'i', ARGV[i + 3], 't', ARGV[i + 1], 'e', ARGV[i + 2])
    if type(answer) == 'table' and answer.err then return answer end
    last, added = ARGV[i], added + 1
  end
end
if added > 0 then call('HSET', KEYS[2], ARGV[1], last) end
return {last, added}
"""
)

# KEYS marks, gone; ARGV model's field, how long the mark is kept.
_FORGET = Script("""
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
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
    after: EventKey
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

    async def to_model(self, batch: Batch) -> EventKey | None:
        """Add new events to the model's stream; the key of its newest one, None where the model is gone."""
        keys = ModelKeys(batch.name, batch.incarnation)
        args: list[bytes | str | int] = [batch.incarnation, str(batch.after), self._model_max]
        for event in batch.events:
            args += (str(event.key), event.time_ms, event.body)
        return (await self._added(Call(_TO_MODEL, (keys.meta, keys.drift), args)))[0]

    async def to_service(self, batch: Batch) -> tuple[EventKey | None, int]:
        """The same for the service's stream, and how many were new: the last ones of the batch."""
        member = ModelKeys(batch.name, batch.incarnation).member()
        args: list[bytes | str | int] = [member, str(batch.after), self._service_max, batch.name]
        for event in batch.events:
            args += (str(event.key), event.time_ms, event.body, event.id)
        return await self._added(Call(_TO_SERVICE, (DRIFT, DRIFT_MARKS), args))

    async def _added(self, call: Call) -> tuple[EventKey | None, int]:
        (answer,) = await self._connection.run([call])
        if isinstance(answer, Exception):
            raise failed(answer)
        last, added = answer
        return None if last == b"gone" else _event_key(last), added

    # ---------------------------------------------------------------- reading

    async def of_model(self, name: str, incarnation: str, after: EventKey, limit: int) -> list[StoredEvent]:
        """Up to ``limit`` events of a model after a key, oldest first."""
        key = ModelKeys(name, incarnation).drift
        (found,) = await self._connection.ask(("XRANGE", key, f"({after}", "+", "COUNT", limit))
        return [stored_event(item) for item in found]

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

    async def find(self, event_id: str) -> StreamPosition | None:
        """The position of the event with this id, newest first looked for; None where it is not kept."""
        end = "+"
        while True:
            (found,) = await self._connection.ask(("XREVRANGE", DRIFT, end, "-", "COUNT", SCAN))
            for known in map(stored_event, found):
                if known.id == event_id:
                    return known.position
            if len(found) < SCAN:
                return None
            end = f"({found[-1][0].decode()}"


def _event_key(text: bytes) -> EventKey:
    version, _, index = text.partition(b"-")
    return EventKey(int(version), int(index))


def stored_event(item: Any) -> StoredEvent:
    """An event from the server's reply for an entry of one of the streams."""
    entry_id, flat = item
    # Scripts return names and values in turn; for plain commands the client library makes a dict of them.
    fields = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    model, identity = (fields.get(name, b"").decode() for name in (b"m", b"i"))
    return StoredEvent(StreamPosition(*_event_key(entry_id)), model, identity, int(fields[b"t"]), fields[b"e"])
