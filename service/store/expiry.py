"""Expiry without traffic: expired ids and predictions leave the store even if nothing is appended.

Every append with ids, every new tracked prediction and every label for one removes some of its model's. ``sweep``
removes the rest; each process calls it for all models in turn. If nothing has expired, it only looks at two keys.
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.errors import Unavailable
from service.store.keys import ModelKeys
from service.store.lua import script
from service.store.redis.connection import Call, Connection

EXPIRE = script("basics", "sweep", "expire")


class Swept(NamedTuple):
    """How many ids and tracked predictions of a model were removed."""

    ids: int
    predictions: int
    more: bool  # whether more may have expired


async def sweep(connection: Connection, models: Sequence[tuple[str, str]], most: int) -> list[Swept | Unavailable]:
    """Remove expired ids and tracked predictions, at most ``most`` of each kind and model, in one round trip.

    ``models`` are names and incarnations; models that are gone are skipped.
    """
    calls = []
    for name, incarnation in models:
        keys = ModelKeys(name, incarnation)
        own = (keys.meta, keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due)
        calls.append(Call(EXPIRE, own, (incarnation, most)))
    return [
        found if isinstance(found, Unavailable) else Swept(found[0], found[1], most in found)
        for found in await connection.run(calls)
    ]
