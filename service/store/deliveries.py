"""Deliveries of drift events: a consumer group of the service's stream for each webhook.

A consumer that claims an event has to deliver it. Events of a consumer that dies stay pending, and another one claims
them after a while; a consumer that is still trying renews its claim (``touch``). A group begins with the events after
its creation, and stays when its webhook is no longer configured.
"""

from dataclasses import dataclass
from typing import Any

from service.store.drift import stored_event
from service.store.events import StoredEvent
from service.store.keys import DRIFT
from service.store.redis.connection import Call, Connection, Script

IDLE_MS = 60_000
"""How long a consumer may be silent about an event before others claim it."""
FORGOTTEN_MS = 3_600_000
"""How long a consumer without pending events may be silent before it is deleted."""

# KEYS stream; ARGV group, consumer, most events, how long an owner may be silent, when a consumer is forgotten.
# Answers: how many events left the capped stream before the group got to them, then events claimed, then new ones.
_CLAIM = Script("""
local call, most = redis.call, tonumber(ARGV[3])
local function number(id) return tonumber(string.match(id, '%-(%d+)$')) end
local function flat(list)
  local map = {}
  for i = 1, #list, 2 do map[list[i]] = list[i + 1] end
  return map
end

local reached = nil
if call('EXISTS', KEYS[1]) == 1 then
  for _, group in ipairs(call('XINFO', 'GROUPS', KEYS[1])) do
    group = flat(group)
    if group.name == ARGV[1] then reached = group['last-delivered-id'] end
  end
end
if not reached then
  call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '$', 'MKSTREAM')
  return {0, {}, {}}
end

-- One that left the stream while it was pending comes as nothing, or (Redis 7) not at all: it is settled, and missed.
local missed, claimed = 0, {}
local answer = call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[4], '0-0', 'COUNT', most)
for _, item in ipairs(answer[2]) do
  if item and item[2] then claimed[#claimed + 1] = item end
end
if answer[3] then missed = #answer[3] else
  for _, item in ipairs(call('XPENDING', KEYS[1], ARGV[1], '-', '+', most, ARGV[2])) do
    if #call('XRANGE', KEYS[1], item[1], item[1]) == 0 then
      call('XACK', KEYS[1], ARGV[1], item[1])
      missed = missed + 1
    end
  end
end

local fresh = {}
if #claimed < most then
  local read = call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', most - #claimed, 'STREAMS', KEYS[1], '>')
  if read then fresh = read[1][2] end
end
if #fresh > 0 then
  missed = missed + math.max(0, number(fresh[1][1]) - number(reached) - 1)
end
for _, consumer in ipairs(call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  consumer = flat(consumer)
  if consumer.name ~= ARGV[2] and consumer.pending == 0 and consumer.idle > tonumber(ARGV[5]) then
    call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
  end
end
return {missed, claimed, fresh}
""")

# KEYS stream; ARGV group, entry. 0 where another consumer has settled it meanwhile.
_ACKNOWLEDGE = Script("return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])")

# KEYS stream; ARGV group, consumer, entry. 0 where the event is this consumer's no more.
_TOUCH = Script("""
local owned = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
if #owned == 0 then return 0 end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')
return 1
""")


@dataclass(frozen=True, slots=True)
class Claimed:
    """Events to deliver, those of dead consumers first, and how many were lost from the capped stream."""

    events: tuple[StoredEvent, ...]
    missed: int


class Deliveries:
    """One consumer of one group.

    Every method raises StoreDown where the store did not answer, or answered that it cannot.

    Args:
        connection: the store.
        group: names the webhook.
        consumer: names this process.
    """

    def __init__(self, connection: Connection, group: str, consumer: str) -> None:
        self._connection, self._group, self._consumer = connection, group, consumer

    async def claim(self, limit: int) -> Claimed:
        """Claim up to ``limit`` events that no other consumer is delivering."""
        args = (self._group, self._consumer, limit, IDLE_MS, FORGOTTEN_MS)
        answer: list[Any] = await self._connection.one(Call(_CLAIM, (DRIFT,), args))
        missed, claimed, fresh = answer
        return Claimed(tuple(stored_event(item) for item in (*claimed, *fresh)), missed)

    async def acknowledge(self, known: StoredEvent) -> bool:
        """Mark an event as delivered or given up; False where another consumer has done so."""
        args = (self._group, str(known.position))
        return bool(await self._connection.one(Call(_ACKNOWLEDGE, (DRIFT,), args)))

    async def touch(self, known: StoredEvent) -> bool:
        """Renew the claim on an event; False where another consumer has claimed it."""
        args = (self._group, self._consumer, str(known.position))
        return bool(await self._connection.one(Call(_TOUCH, (DRIFT,), args)))
