"""Events of drift that showed before the labels came: beside those that the log implies, not among them.

    onepass:{NAME}:INC:unlabelled   VERSION-NUMBER   e JSON, t time in ms, n the same by the store's clock

Replicas do not find the same ones, since each sees the predictions that it made itself. So none is told of twice in a
while: one that comes too soon after another of its model is dropped. NUMBER begins above every index of an event of the
log, so that a list of both has one order. Each goes into the model's stream of these, then into the service's stream;
a crash in between leaves it in the first alone.
"""

from service.store.appends import failed
from service.store.drift import PLACES
from service.store.keys import DRIFT, DRIFT_ALARMS, ModelKeys
from service.store.redis.connection import Call, Connection, Script

FIRST_NUMBER = 10**9
KEPT = 100
"""Events of a model that are kept."""
PAUSE_MS = 60_000
"""Least time between two of one model."""

# KEYS meta, unlabelled; ARGV incarnation, version, first number, most kept, least ms since the last one, time, JSON
# behind the id. False where the model is gone, or it is too soon.
_TO_MODEL = Script(
    PLACES
    + """
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return false end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local version, number = tonumber(ARGV[2]), tonumber(ARGV[3])
local top = call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if top then
  if now - tonumber(top[2][2]) < tonumber(ARGV[5]) then return false end
  local a, b = parts(top[1])
  if a >= version then version, number = a, b + 1 end
end
local place = string.format('%.0f-%.0f', version, number)
local body = '{"id":"' .. ARGV[1] .. '-' .. place .. '",' .. ARGV[7]
local refused = put('XADD', KEYS[2], 'MAXLEN', '=', ARGV[4], place, 'n', string.format('%.0f', now),
                    't', ARGV[6], 'e', body)
return refused or {place, body}
"""
)

# KEYS stream, alarms; ARGV most kept, model, id, time, JSON.
_TO_SERVICE = Script(
    PLACES
    + """
local top = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local time, number = parts(top and top[1] or '0-0')
local clock = call('TIME')
time = math.max(time, clock[1] * 1000 + math.floor(clock[2] / 1000))
local id = string.format('%.0f-%.0f', time, number + 1)
return add(KEYS[1], KEYS[2], id, ARGV[1], '', 'm', ARGV[2], 'i', ARGV[3], 't', ARGV[4], 'e', ARGV[5]) or 1
"""
)


class UnlabelledEvents:
    """Where such events are put.

    Args:
        connection: the store.
        service_max: events of all models and kinds that are kept together.
    """

    def __init__(self, connection: Connection, service_max: int) -> None:
        self._connection, self._service_max = connection, service_max

    async def put(self, name: str, incarnation: str, version: int, time_ms: int, body: bytes) -> bool:
        """Add an event, whose JSON lacks the id; False where its model is gone, or had one just now.

        Raises:
            StoreDown, StoreFull: the store did not answer, or answered that it cannot.
        """
        keys = ModelKeys(name, incarnation)
        args = (incarnation, version, FIRST_NUMBER, KEPT, PAUSE_MS, time_ms, body.removeprefix(b"{"))
        told = await self._run(Call(_TO_MODEL, (keys.meta, keys.unlabelled), args))
        if told is None:
            return False
        place, whole = told
        identity = f"{incarnation}-{place.decode()}"
        await self._run(Call(_TO_SERVICE, (DRIFT, DRIFT_ALARMS), (self._service_max, name, identity, time_ms, whole)))
        return True

    async def _run(self, call: Call) -> list[bytes] | None:
        (answer,) = await self._connection.run([call])
        if isinstance(answer, Exception):
            raise failed(answer)
        found: list[bytes] | None = answer
        return found
