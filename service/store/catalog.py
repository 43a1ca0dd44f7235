"""The models that exist: a meta HASH each, and an index to list them by.

The meta HASH decides. The index is written before it and cleared after it, so after a crash in between it may name a
model that does not exist, until the sweeper finds that; ``names`` looks up the meta of every member. It lacks an
existing model only after a failover of the index's server, until a process that holds the model lists it again.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from core.model import STATE_VERSION, Summary
from service.errors import ModelDown, ModelLost, NotFound, Unavailable, no_model
from service.store.keys import DRIFT_PUBLISHED, INDEX, LABELS_DUE, LABELS_MARKED, TOMBSTONES, ModelKeys, meta_key, pair
from service.store.log import codec
from service.store.lua import script
from service.store.metas import metas
from service.store.redis.connection import Call, Connection
from service.store.summaries import StoredSummary, SummaryWrite, decode, write_call

STEP_NAMES = 1000  # names looked at in one step, at least, if only some are wanted
STEPS_MAX = 10  # most such steps if the names are only a hint
STEP_MODELS = 250
"""Most models read in one round trip, which delays rows on the same connection by a few tenths of a millisecond; and
most decoded in one turn of the event loop."""

Absent = set[tuple[str, str]]  # models by name and incarnation
Wanted = Callable[[str], bool]  # whether a list should include the model of this name

_META = ("config", "version", "uid", "created", "updated", "summary", "code", "origin")
_CREATE = script("basics", "create")

DELETED_MS = 7 * 86_400_000
"""How long a deletion is remembered: a replica that still holds the model must not take it for lost."""
DELETED_MAX = 10_000  # how many deletions are remembered, the latest ones

LOST_MS = 120_000
"""How long the name of a lost model is reserved after a service that holds it last looked (follower.py)."""

_REMEMBER = script("basics", "remember")

_DELETE = script("basics", "delete")
_REPLACE = script("replace_damaged")

_JUDGE = script("judge_missing")


@dataclass(frozen=True, slots=True)
class Existing:
    """The model that has the name now; ``created`` if this caller created it, also by a call whose reply got lost."""

    incarnation: str
    config: bytes
    created: bool


@dataclass(frozen=True, slots=True)
class ModelMeta:
    """A model as the store knows it."""

    name: str
    incarnation: str
    config: bytes
    version: int
    uid: str
    created_ms: int
    updated_ms: int
    summary: bytes = b""  # the stored record; empty: none
    state_version: int = STATE_VERSION  # of the code that appended
    based: bool = False  # it is a copy: it began with a snapshot, not as a model that has learned nothing

    @property
    def listed(self) -> StoredSummary:
        """What a list shows of it: the summary, or if none is readable, what the configuration says."""
        if (stored := decode(self.summary)) is not None:
            return stored
        try:
            found = codec.config(self.config)
        except ValueError:
            found = {}
        unknown = Summary(found.get("algorithm", ""), found.get("task", ""), None, None, None, "steady")
        return StoredSummary(self.version, self.updated_ms, unknown)


class Listed(NamedTuple):
    """A model in the list of all."""

    name: str
    incarnation: str
    summary: StoredSummary
    rows_per_s: float | None = None  # rows it learns per second, if this process knows


class Catalog:
    """The models of one store.

    Every method raises StoreDown if the store did not answer, or answered that it cannot.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, name: str, incarnation: str, config: bytes, summary: bytes = b"") -> Existing:
        """Create a model with its own incarnation, unless the name is taken.

        ``summary`` is its first record, as ``summaries.encode_first`` makes it. ``ModelLost`` if a service holds a
        model of that name that the store has lost.
        """
        keys = ModelKeys(name, incarnation)
        await self._connection.ask(("ZADD", INDEX, 0, keys.member()))
        old = await self._connection.one(Call(_CREATE, (keys.meta, keys.lost), (incarnation, config, summary)))
        if old is None or old[0] == incarnation.encode():
            return Existing(incarnation, config, created=True)
        await self._connection.ask(("ZREM", INDEX, keys.member()))  # ours will never be created
        if old[0] == b"":
            raise ModelLost(name)
        if (meta := await self.read(name)) is None:  # deleted meanwhile
            return await self.create(name, incarnation, config, summary)
        await self.relist([(name, meta.incarnation)])
        return Existing(meta.incarnation, meta.config, created=False)

    async def relist(self, models: Sequence[tuple[str, str]]) -> None:
        """Add existing models, by name and incarnation, to the index again if it lacks them."""
        if not models:
            return
        (scores,) = await self._connection.ask(("ZMSCORE", INDEX, *map(" ".join, models)))
        missing = [model for model, score in zip(models, scores, strict=True) if score is None]
        if missing:  # one that is being deleted leaves the index last: it no longer exists
            living = await self._living(missing)
            await self._connection.ask(*[("ZADD", INDEX, 0, f"{name} {own}") for name, own, *_ in living])

    async def read(self, name: str) -> ModelMeta | None:
        """The model of that name, or None; ``ModelDown`` if its meta cannot be read."""
        (meta,) = await metas(self._connection, [name], _META, partial(_meta, name))
        if isinstance(meta, ModelDown):
            raise meta
        return meta

    async def missing(self, name: str) -> NotFound | ModelLost:
        """The error for a name that no model in the store has; a service may hold one that the store has lost."""
        return no_model(name) if await self._lost(name) is None else ModelLost(name)

    async def _lost(self, name: str) -> str | None:
        (incarnation,) = await self._connection.ask(("GET", ModelKeys(name, "").lost))
        return None if incarnation is None else incarnation.decode()

    async def delete(self, name: str) -> bool:
        """Delete the model that has the name now, with all its keys, or give up a lost one; False if there is none."""
        while (found := (await metas(self._connection, [name], (), str))[0]) is not None:
            if isinstance(found, ModelDown):  # not even the incarnation can be read, but the index has it
                own = await self._listed(name)
                data = [key for keys in (ModelKeys(name, one) for one in own) for key in (keys.log, keys.snapshots)]
                await self._connection.one(Call(_REPLACE, (meta_key(name), *data), own))
            elif await self._delete(ModelKeys(name, found)):
                return True
            # Read it again: it was damaged, or deleted elsewhere and the name was given away in between.
        await self._unlist_deleted(name)
        if (lost := await self._lost(name)) is not None:
            await self.give_up(name, lost)
        return lost is not None

    async def _delete(self, keys: ModelKeys) -> bool:
        ids = (keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due, keys.labels_due)
        own = (keys.meta, keys.snapshots, keys.states, keys.log, *ids, keys.lost, keys.deleted)
        if not await self._connection.one(Call(_DELETE, own, (keys.incarnation, keys.chunks_prefix, DELETED_MS))):
            return False
        await self._unlist(keys)
        return True

    async def _unlist(self, keys: ModelKeys) -> None:
        own = keys.member()
        await self._remember(keys)
        await self._connection.ask(("ZREM", LABELS_DUE, own), ("HDEL", LABELS_MARKED, own))
        await self._connection.ask(("ZREM", INDEX, own))  # last: until then the next DELETE and the sweeper repeat this

    async def _remember(self, keys: ModelKeys) -> None:
        """Remember the mark of a deleted model, remove its drift keys, and the oldest marks beyond the limit."""
        own = (keys.member(), DELETED_MS, DELETED_MAX)
        drift = (TOMBSTONES, DRIFT_PUBLISHED, keys.unlabelled)
        oldest = (await self._connection.one(Call(_REMEMBER, drift, own)))[::2]
        marks = [ModelKeys(*pair(member)).deleted for member in oldest]
        await self._connection.ask(*[("DEL", mark) for mark in marks])

    async def _unlist_deleted(self, name: str) -> None:
        """Remove entries that a process which died while deleting has left in the index."""
        left = await self._listed(name)
        for incarnation, deleted in zip(left, await self.deleted([(name, one) for one in left]), strict=True):
            if deleted:  # others are just being created
                await self._unlist(ModelKeys(name, incarnation))

    async def _listed(self, name: str) -> list[str]:
        """The incarnations that the index has of a name."""
        low, high = f"[{name} ", f"({name}!"
        (members,) = await self._connection.ask(("ZRANGEBYLEX", INDEX, low, high, "LIMIT", 0, STEP_MODELS))
        return [pair(member)[1] for member in members if member.startswith(f"{name} ".encode())]

    async def deleted(self, models: Sequence[tuple[str, str]]) -> list[bool]:
        """For each missing model, by name and incarnation, whether it was deleted; otherwise it is lost."""
        asked = [("EXISTS", ModelKeys(name, incarnation).deleted) for name, incarnation in models]
        return [bool(found) for found in await self._connection.ask(*asked)]

    async def judge(self, models: Sequence[tuple[str, str]]) -> list[bool]:
        """Like ``deleted``, for models in memory; the names of lost models are reserved for them unless taken."""
        keys = [ModelKeys(name, incarnation) for name, incarnation in models]
        calls = [Call(_JUDGE, (own.meta, own.deleted, own.lost), (own.incarnation, LOST_MS)) for own in keys]
        return [bool(found) for found in await self._connection.every(calls)]

    async def give_up(self, name: str, incarnation: str) -> None:
        """Mark a lost model as deleted, for every replica that holds it, and free its name."""
        keys = ModelKeys(name, incarnation)
        await self._connection.ask(("SET", keys.deleted, 1, "PX", DELETED_MS))
        await self._connection.ask(("DEL", keys.lost))  # after the mark, so that no service reserves the name again
        await self._unlist(keys)

    async def count(self) -> int:
        """How many models there are."""
        (found,) = await self._connection.ask(("ZCARD", INDEX))
        return int(found)

    async def names(
        self, limit: int, after: str | None = None, wanted: Wanted | None = None, absent: Absent | None = None
    ) -> tuple[list[tuple[str, str]], str | None]:
        """Up to ``limit`` models that are ``wanted`` as (name, incarnation), by name, and the name to continue after,
        or None at the end; with ``wanted``, at most ``STEPS_MAX`` times ``STEP_NAMES`` names are looked at.

        ``absent`` collects models that are in the index but do not exist, or not yet. In a cluster it leaves out names
        without any model: their server may have lost the model and get it back from its own backup.
        """
        found, following = await self._page(limit, after, wanted, STEPS_MAX, absent)
        return [(name, incarnation) for name, incarnation, *_ in found], following

    async def unlist(self, models: Absent) -> None:
        """Remove from the index models that have been absent for too long to be just being created."""
        for model in models:
            keys, (deleted,) = ModelKeys(*model), await self.deleted([model])
            await (self._unlist(keys) if deleted else self._connection.ask(("ZREM", INDEX, keys.member())))

    async def summaries(
        self, limit: int, after: str | None = None, wanted: Wanted | None = None
    ) -> tuple[list[Listed], str | None]:
        """Like ``names``, with the stored summary of each; nothing else of a model is read."""
        found, following = await self._page(limit, after, wanted)
        listed: list[Listed] = []
        for number, (name, incarnation, record, _) in enumerate(found, 1):
            if number % STEP_MODELS == 0:
                await asyncio.sleep(0)
            summary = decode(record)
            with suppress(ModelDown):
                if summary is None and (meta := await self.read(name)) is not None:
                    summary = meta.listed
            if summary is not None:
                listed.append(Listed(name, incarnation, summary))
        return listed, following

    async def behind(self, limit: int, after: str | None) -> tuple[dict[str, int], str | None]:
        """Of up to ``limit`` models, those with a summary behind the log, and versions; the name to continue after."""
        found, following = await self._page(limit, after, None)
        stored = [(name, int(version), decode(record)) for name, _, record, version in found if version.isdigit()]
        return {name: head for name, head, summary in stored if head > (summary.version if summary else 0)}, following

    async def write_summaries(self, writes: Sequence[SummaryWrite]) -> list[int | Unavailable]:
        """Store the summaries of many models in one round trip; a failure for one does not affect the others.

        Returns what ``summaries.write_call`` says, or Unavailable if the store did not answer, or cannot.
        """
        results = await self._connection.run([write_call(write) for write in writes])
        return [result if isinstance(result, Unavailable) else int(result) for result in results]

    async def _page(
        self,
        limit: int,
        after: str | None,
        wanted: Wanted | None,
        steps: float = math.inf,
        absent: Absent | None = None,
    ) -> "tuple[list[_Row], str | None]":
        found: list[_Row] = []
        low = b"-" if after is None else f"[{after}!".encode()  # "!" follows the space: after all members of that name
        step = limit + 1 if wanted is None else max(limit + 1, STEP_NAMES)
        while len(found) <= limit and steps > 0:
            steps -= wanted is not None
            (members,) = await self._connection.ask(("ZRANGEBYLEX", INDEX, low, b"+", "LIMIT", 0, step))
            if not members:
                break
            pairs = [pair(member) for member in members]
            pairs = pairs if wanted is None else [model for model in pairs if wanted(model[0])]
            for at in range(0, len(pairs), STEP_MODELS):
                found += await self._living(pairs[at : at + STEP_MODELS], absent)
                if len(found) > limit:
                    break
            low = b"(" + members[-1]
        return found[:limit], found[limit - 1][0] if len(found) > limit else None

    async def _living(self, pairs: Sequence[tuple[str, str]], absent: Absent | None = None) -> "list[_Row]":
        """The members of the index that exist, over the lean connection, which takes a sixth of the pool's time."""
        names, found = [name for name, _ in pairs], list[_Row]()
        rows = await metas(self._connection, names, ("summary", "version"), _row, quick=True)
        for (name, incarnation), row in zip(pairs, rows, strict=True):
            if isinstance(row, ModelDown):
                continue
            if row is not None and row[0] == incarnation:
                found.append((name, *row))
            elif absent is not None and (row is not None or self._connection.topology.sole is not None):
                absent.add((name, incarnation))
        return found


_Row = tuple[str, str, bytes | None, bytes]  # name, incarnation, summary and version of a model


def _row(incarnation: str, summary: bytes | None, version: bytes | None) -> tuple[str, bytes | None, bytes]:
    return incarnation, summary, version or b""


def _meta(name: str, incarnation: str, config: bytes, *rest: Any) -> ModelMeta:
    version, uid, created, updated, summary, code, origin = rest
    head, times = (int(version), uid.decode()), (int(created), int(updated))
    record, state, based = summary or b"", int(code or STATE_VERSION), origin is not None
    return ModelMeta(name, incarnation, bytes(config), *head, *times, record, state, based)
