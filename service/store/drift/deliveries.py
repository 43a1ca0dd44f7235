"""Deliveries of drift events to webhooks: for each, the last event settled and the process that delivers the next.

    onepass:{onepass:drift}:webhooks   HASH   WEBHOOK -> "POSITION CONSUMER UNTIL": settled up to, whose turn until when

One process at a time has a webhook's turn, which it renews while it tries and gives back when it stops. If it dies,
another one takes over once its turn is over, with the event that was not settled. A webhook begins with the events
after its first turn, and keeps its place when it is no longer configured.
"""

from typing import NamedTuple

from service.store.drift.drift import stored_event
from service.store.drift.events import StoredEvent
from service.store.keys import DRIFT, DRIFT_WEBHOOKS
from service.store.lua import script
from service.store.redis.connection import Call, Connection

TURN_MS = 30_000  # how long a consumer may be silent before another one takes its turn

_NEXT = script("basics", "next_delivery")


class Due(NamedTuple):
    """The next event for a webhook."""

    missed: int  # entries that left the capped stream before the webhook got them
    event: StoredEvent | None  # None if there is none, or another consumer has the turn


class Deliveries:
    """One consumer of one webhook's events: this process.

    Every method raises StoreDown if the store did not answer, or answered that it cannot.
    """

    def __init__(self, connection: Connection, webhook: str, consumer: str) -> None:
        self._connection, self._webhook, self._consumer = connection, webhook, consumer

    async def next(self, settled: StoredEvent | None = None) -> Due:
        """Take, or renew, the turn; ``settled`` is the event before, delivered or given up in this turn."""
        return await self._turn(TURN_MS, settled)

    async def leave(self, settled: StoredEvent | None = None) -> int:
        """Give the turn back, if this consumer has it; returns how many entries were missed, as ``next`` does."""
        return (await self._turn(0, settled)).missed

    async def _turn(self, lasts_ms: int, settled: StoredEvent | None) -> Due:
        position = "" if settled is None else str(settled.position)
        args = (self._webhook, self._consumer, lasts_ms, position)
        answer = await self._connection.one(Call(_NEXT, (DRIFT, DRIFT_WEBHOOKS), args))
        missed, *entry = answer or (0,)
        return Due(missed, stored_event(*entry) if entry else None)
