"""Expiry without traffic: what is past its time leaves the store also where nobody appends.

Every append with ids, every new tracked prediction and every label of one sweeps some of its model's. The rest is for
``Expiry.sweep``, which one process at a time calls for all models in turn; the lease says which, and two at once do no
harm.
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.errors import Unavailable
from service.store.keys import SWEEPER, ModelKeys
from service.store.log.appends import failed
from service.store.log.scripts import BASICS, SWEEP
from service.store.redis.connection import Call, Connection, Script

# KEYS meta, seen, seen_due, pending, pending_due; ARGV incarnation, most of each.
# A store without memory removes all the same: what a script removes first makes room for the count.
EXPIRE = Script(
    BASICS
    + SWEEP
    + """
if call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return {0, 0} end
local ids, predictions = sweep(KEYS[2], KEYS[3], tonumber(ARGV[2])), sweep(KEYS[4], KEYS[5], tonumber(ARGV[2]))
count_expired(KEYS[1], predictions)
return {ids, predictions}
"""
)

# KEYS the lease; ARGV who asks, life in ms
_LEASE = Script("""
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if holder then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")


class Swept(NamedTuple):
    """What has left a model.

    Attributes:
        ids, predictions: how many of each.
        more: whether there may be more past their time.
    """

    ids: int
    predictions: int
    more: bool


class Expiry:
    """Removes what is past its time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def sweep(self, models: Sequence[tuple[str, str]], most: int) -> list[Swept | Unavailable]:
        """Remove ids and tracked predictions past their time, in one round trip.

        Args:
            models: names and incarnations; of one that is gone nothing is removed.
            most: of each kind and model.
        """
        calls = []
        for name, incarnation in models:
            keys = ModelKeys(name, incarnation)
            own = (keys.meta, keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due)
            calls.append(Call(EXPIRE, own, (incarnation, most)))
        results = await self._connection.run(calls) if calls else []
        return [
            failed(found) if isinstance(found, Exception) else Swept(found[0], found[1], most in found)
            for found in results
        ]

    async def lease(self, holder: str, life_ms: int) -> bool:
        """Take or renew the right to sweep for a while; whether ``holder`` has it now.

        Raises:
            StoreDown, StoreFull: the store did not answer, or cannot.
        """
        return bool(await self._connection.one(Call(_LEASE, (SWEEPER,), (holder, life_ms))))
