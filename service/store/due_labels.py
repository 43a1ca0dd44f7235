"""Which tracked predictions are learned with the label of ``labels_due``, and when; every process looks for them.

A model keeps its predictions in its own slot, sorted by the time when their label is due. One index in another slot
lists all models that have some, by the time of the next look at them: a look reads the time of the first label, and the
model is visited only if that has passed. A prediction is announced there before it is kept (a mark), so that none is
overlooked after a crash in between. While a mark is young, its prediction may still be kept right after a look: the
next look comes when that prediction's label would be due. If a failover of the index's server has lost marks, processes
that hold the models announce them again.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.store.keys import LABELS_DUE, LABELS_MARKED, ModelKeys, pair, raw, text
from service.store.lua import script
from service.store.redis.connection import Call, Connection
from service.store.redis.node import Command

_MARK = script("basics", "young_mark", "mark_due")
_MODELS = script("basics", "due_models")
_DUE = script("basics", "due_labels")
_EXPIRED = script("basics", "count_expired")
_SETTLE = script("basics", "young_mark", "settle_due")
GRACE_MS = 31 * 86_400_000
"""How long a prediction is kept after its label was due, in case no process is running that could learn it."""
LEASE_MS = 2_000  # how long predictions that one process is learning are left alone by others
MARK_LIFE_MS = 60_000  # longer than any prediction takes from its mark until it is kept
PAUSE_MS = 1_000  # least time between two looks at a model


class DueLabel(NamedTuple):
    """A tracked prediction whose label is due."""

    prediction_id: str
    blob: bytes


class DueLabels:
    """The index of one store; every method raises StoreDown if the store does not answer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def mark(self, models: Mapping[tuple[str, str], int]) -> None:
        """Announce predictions: ``models`` has, by name and incarnation, the ms until the first label is due."""
        args = [part for (name, own), life in models.items() for part in (ModelKeys(name, own).member(), life)]
        await self._connection.one(Call(_MARK, (LABELS_DUE, LABELS_MARKED), (MARK_LIFE_MS, *args)))

    async def mark_lost(self, models: Sequence[tuple[str, str]]) -> None:
        """Announce those of these models, by name and incarnation, that the index lacks, as after a failover."""
        asked: list[Command] = []
        for keys in itertools.starmap(ModelKeys, models):
            asked += [("ZCARD", keys.labels_due), ("ZSCORE", LABELS_DUE, keys.member())]
        found = await self._connection.ask(*asked)
        counts = zip(models, found[::2], found[1::2], strict=True)
        if lost := {model: 0 for model, waiting, score in counts if waiting and score is None}:
            await self.mark(lost)

    async def models(self, most: int) -> list[tuple[str, str]]:
        """Names and incarnations of models that have a label due, or may have one because their server did not answer.

        These are found among up to ``most`` models whose turn has come; the rest of those are settled.
        """
        now, members = await self._connection.one(Call(_MODELS, (LABELS_DUE,), (most,)))
        models = [pair(member) for member in members]
        keys = [ModelKeys(*model).labels_due for model in models]
        firsts = await self._connection.run([Call(None, (key,), ("ZRANGE", key, 0, 0, "WITHSCORES")) for key in keys])
        due, later = list[tuple[str, str]](), dict[tuple[str, str], int]()
        for model, first in zip(models, firsts, strict=True):
            if isinstance(first, Exception) or (first and int(first[1]) <= now):
                due.append(model)
            else:
                later[model] = int(first[1]) if first else 0
        if later:
            await self.settle(later)
        return due

    async def take(self, name: str, incarnation: str, most: int) -> tuple[list[DueLabel], int]:
        """Up to ``most`` predictions of a model whose label is due, and when (ms) the next one is; 0: never."""
        keys = ModelKeys(name, incarnation)
        own = (keys.meta, keys.pending, keys.labels_due)
        found, following = await self._connection.one(Call(_DUE, own, (incarnation, most, LEASE_MS)))
        pairs = zip(found[::2], found[1::2], strict=True)
        return [DueLabel(text(identity), blob) for identity, blob in pairs], int(following)

    async def forget(self, name: str, incarnation: str, prediction_ids: list[str]) -> None:
        """Forget that the labels of these predictions become due."""
        keys = ModelKeys(name, incarnation)
        await self._connection.ask(("ZREM", keys.labels_due, *map(raw, prediction_ids)))

    async def count_expired(self, name: str, incarnation: str, count: int) -> None:
        """Count as expired predictions that were removed because their due label was not learned."""
        await self._connection.one(Call(_EXPIRED, (ModelKeys(name, incarnation).meta,), (incarnation, count)))

    async def settle(self, models: Mapping[tuple[str, str], int]) -> None:
        """Set when (ms) the next label is due: ``models`` has this time by name and incarnation; 0: never."""
        args = [part for model, following in models.items() for part in (ModelKeys(*model).member(), following)]
        await self._connection.one(Call(_SETTLE, (LABELS_DUE, LABELS_MARKED), (MARK_LIFE_MS, PAUSE_MS, *args)))
