"""Expiry without traffic: what is past its time leaves the store also where nobody appends.

Every append with ids, every new tracked prediction and every label of one sweeps some of its model's. The rest is for
``sweep``, which each process calls for all models in turn: for one that has nothing past its time that is a look at two
keys.
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.errors import Unavailable
from service.store.keys import ModelKeys
from service.store.log.appends import failed
from service.store.lua import script
from service.store.redis.connection import Call, Connection

EXPIRE = script("basics", "sweep", "expire")


class Swept(NamedTuple):
    """How many ids and tracked predictions have left a model."""

    ids: int
    predictions: int
    more: bool  # whether there may be more past their time


async def sweep(connection: Connection, models: Sequence[tuple[str, str]], most: int) -> list[Swept | Unavailable]:
    """Remove ids and tracked predictions past their time, at most so many of each kind and model, in one round trip.

    ``models`` are names and incarnations; of one that is gone nothing is removed.
    """
    calls = []
    for name, incarnation in models:
        keys = ModelKeys(name, incarnation)
        own = (keys.meta, keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due)
        calls.append(Call(EXPIRE, own, (incarnation, most)))
    return [
        failed(found) if isinstance(found, Exception) else Swept(found[0], found[1], most in found)
        for found in await connection.run(calls)
    ]
