"""Loads a model: the newest intact snapshot that joins the log, then the tail of the log.

A snapshot that is corrupt, of another incarnation, or off the log is skipped with an error in the log file. If none is
left and the log does not begin at version 1, loading fails: a state is never invented.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress

from core.config import Config
from core.model import STATE_VERSION, Model, cost, save
from service.errors import ModelDown, OnepassError, Recreated, StoreDown, no_model
from service.runtime.replicas.batches import MERGED_FLOPS, Batch, MergedEntries, SingleEntry
from service.runtime.replicas.named_states import with_segments, with_states
from service.runtime.replicas.replica import Replica, SummaryState
from service.runtime.stats import Stats
from service.runtime.threads import THREAD_BYTES, in_thread_if_large, load_algorithm, size_of_features
from service.store.catalog import Catalog, ModelMeta
from service.store.log import codec
from service.store.log.appends import READ_BYTES_MAX
from service.store.log.entries import OTHER, RawEntry, ReadOn
from service.store.log.entry_runs import DecodedEntry, entry_runs
from service.store.log.log import Log
from service.store.redis.connection import Connection
from service.store.states.snapshots import SnapshotInfo, Snapshots
from service.store.states.states import States

logger = logging.getLogger(__name__)

ENTRIES_MAX = 1000  # most entries read in one round trip
TURN_ENTRIES = 16  # small entries that are applied before others have a turn
COMPARED = (b"challengers", b"outside")  # one occurs somewhere in the state of every model that is compared
LOADS_MAX = 4  # models loaded at the same time; each takes memory that the budget does not count yet
LARGE_LOADS_MAX = LOADS_MAX - 1  # of these, models with large states, which may take seconds: small ones need not wait
ATTEMPTS_MAX = 10  # how often a load is tried when the snapshots change under it


class _Replaced(Exception):
    """The snapshots, the log or the model itself changed while they were being read."""


class Store:
    """The parts of the store that the runtime uses together, behind one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.log, self.catalog = connection, Log(connection), Catalog(connection)
        self.snapshots, self.states = Snapshots(connection), States(connection)


class Loader:
    """Loads and reloads replicas."""

    def __init__(self, store: Store, stats: Stats) -> None:
        self.store, self.stats = store, stats
        self._places, self._large_places = asyncio.Semaphore(LOADS_MAX), asyncio.Semaphore(LARGE_LOADS_MAX)

    async def load(self, name: str, from_before: int | None = None) -> Replica:
        """A replica at the present head of its log; with ``from_before``, rebuilt at least from that version on.

        ``NotFound`` if the store has no such model; ``ModelDown`` if its configuration, snapshots or log cannot be
        used.
        """
        incarnation = ""
        try:
            meta = await self.store.catalog.read(name)
            if meta is None:
                raise no_model(name)
            incarnation = meta.incarnation
            if meta.state_version != STATE_VERSION:
                raise ModelDown(f"model {name}: {OTHER}")
            await load_algorithm_of(meta.config)
            async with self._place(meta):
                replica = await self._recovered(meta, from_before)
        except _Replaced:
            return await self.load(name, from_before)
        except ModelDown as error:
            error.incarnation = incarnation
            raise
        except OnepassError:
            raise
        except Exception as error:
            logger.exception("model %s could not be loaded", name)
            raise _down(f"model {name}: it could not be loaded: {type(error).__name__}", incarnation) from error
        self.stats.loads += 1
        logger.debug("loaded model %s: version %d, %d bytes", name, replica.version, replica.nbytes)
        return replica

    async def reload(self, replica: Replica) -> None:
        """Reload a replica from snapshot and log, in place; raises as ``load``, or Recreated."""
        before = replica.progress.head
        loaded = await self.load(replica.name)
        if loaded.incarnation != replica.incarnation:
            raise Recreated(f"model {replica.name} was created again: send the request again")
        async with replica.lock:
            head = replica.progress.head
            replica.take_over(loaded)
            if head > max(before, replica.version):  # others have appended since the load began
                replica.progress.note_head(head)

    async def apply(self, replica: Replica, entries: Sequence[RawEntry]) -> None:
        """Apply entries of the log that follow a replica's version; merges neighbouring plain ones.

        Raises:
            ValueError: the next entry cannot be decoded, or a state that it names is not in the store (``StateLost``).
            StoreDown: the store did not answer.
            ModelDown: apply raised.
        """
        waited = 0
        for run in entry_runs(entries, lambda: cost.rows_to_merge(replica.model, MERGED_FLOPS)):
            await replica.apply(await self._step(replica, run))
            waited += len(run)
            if waited >= TURN_ENTRIES:
                waited = 0
                await asyncio.sleep(0)

    async def _step(self, replica: Replica, run: Sequence[DecodedEntry]) -> Batch:
        """A run as the batch to apply, with the segments and states that it names; raises as ``apply``."""
        if len(run) > 1:
            return MergedEntries(run)
        (own,) = run
        states = self.store.states
        if own.records:
            entry = codec.of_records(own.raw, own.records)
        else:
            whole = await with_segments(states, replica, own.raw)
            entry = await in_thread_if_large(own.size, codec.entry, whole)
        entry = await with_states(states, replica.name, replica.incarnation, entry)
        return SingleEntry(entry, own.raw.uid, own.size)

    @asynccontextmanager
    async def _place(self, meta: ModelMeta) -> AsyncIterator[None]:
        """Hold one of the places for loads; the size of the newest snapshot tells whether the model is large."""
        known = await self.store.snapshots.list(meta.name, meta.incarnation)
        large = bool(known) and known[0].bytes > THREAD_BYTES
        async with self._large_places if large else nullcontext(), self._places:
            yield

    async def _recovered(self, meta: ModelMeta, from_before: int | None) -> Replica:
        """A replica from snapshot plus log; starts again if another replica replaces the snapshots meanwhile.

        ``NotFound`` or ``_Replaced`` if the model itself was deleted, or deleted and created again, meanwhile.
        """
        for _ in range(ATTEMPTS_MAX):
            known = await self.store.snapshots.list(meta.name, meta.incarnation)
            try:
                older = [info for info in known if from_before is None or info.version < from_before]
                replica = await self._from_snapshot(meta, older)
                await self._rebuild(replica)
            except (_Replaced, ModelDown) as error:
                if not isinstance(error, _Replaced) and not await self._replaced(meta, known):
                    raise
            else:
                return replica
        raise StoreDown(f"model {meta.name} could not catch up with its snapshots")

    async def _replaced(self, meta: ModelMeta, known: Sequence[SnapshotInfo]) -> bool:
        now = await self.store.catalog.read(meta.name)
        if now is None:
            raise no_model(meta.name)
        if now.incarnation != meta.incarnation:
            raise _Replaced
        return await self.store.snapshots.list(meta.name, meta.incarnation) != known

    async def _from_snapshot(self, meta: ModelMeta, known: Sequence[SnapshotInfo]) -> Replica:
        for info in known:
            try:
                return await self._restored(meta, info)
            except ValueError as error:
                if not {*known} <= {*await self.store.snapshots.list(meta.name, meta.incarnation)}:
                    raise _Replaced from error
                self.stats.corrupt_snapshots += 1
                logger.error("model %s: skipping the snapshot of version %d: %s", meta.name, info.version, error)  # noqa: TRY400
        return await self._first(meta)

    async def _restored(self, meta: ModelMeta, info: SnapshotInfo) -> Replica:
        blob = await self.store.snapshots.read(meta.name, meta.incarnation, info)
        # The model's algorithm has been imported; its challengers', and what compares, may not have been.
        small = len(blob) <= THREAD_BYTES
        size = THREAD_BYTES + 1 if small and any(name in bytes(blob) for name in COMPARED) else len(blob)
        model, stamp = await in_thread_if_large(size, save.from_bytes, blob)
        if (stamp.get("incarnation"), stamp.get("version")) != (meta.incarnation, info.version):
            raise ValueError("it belongs to another model or version")
        code = await self.store.log.joins(meta.name, meta.incarnation, info.version, str(stamp["uid"]))
        if code not in ("ok", "gone"):
            raise ValueError(f"it does not join the log ({code})")
        replica = self._replica(meta, model, info.version, str(stamp["uid"]), info.time_ms)
        replica.saved.record(info)
        return replica

    async def _first(self, meta: ModelMeta) -> Replica:
        if meta.based:
            raise ModelDown(
                f"model {meta.name}: its first snapshot is incomplete; restore the store from a backup, or "
                "delete the model"
            )
        try:
            raw = codec.config(meta.config)
            size = size_of_features(raw.get("features"))
            config = await in_thread_if_large(size, Config.accepted, raw)
            size = max(size, await in_thread_if_large(size, _state_bytes, config))
            model = await in_thread_if_large(size, Model.first, config)
        except ValueError as error:
            raise ModelDown(f"model {meta.name}: its configuration cannot be read: {error}") from error
        return self._replica(meta, model, 0, meta.incarnation, meta.created_ms)

    def _replica(self, meta: ModelMeta, model: Model, version: int, uid: str, time_ms: int) -> Replica:
        replica = Replica(meta.name, meta.incarnation, meta.created_ms, model, version, uid, time_ms, self.stats)
        replica.summary = SummaryState(meta.summary)
        replica.measure()
        return replica

    async def _rebuild(self, replica: Replica) -> None:
        """Apply the log up to its present head; each part is read while the one before it is being applied."""
        more = await self._tail(replica, replica.version, replica.uid)
        head = more.head
        try:
            while more.entries:
                last = more.entries[-1]
                if last.version >= head:
                    await self.apply(replica, more.entries)
                    break
                ahead = self._tail(replica, last.version, last.uid)
                read, failed = await asyncio.gather(ahead, self.apply(replica, more.entries), return_exceptions=True)
                try:
                    if failed is not None:
                        raise failed
                    if isinstance(read, BaseException):
                        raise read
                    more, head = read, min(head, read.head)  # it is lower if a failover has lost the log's tail
                finally:
                    del read, failed
        except ValueError as error:
            raise ModelDown(f"model {replica.name}: log entry {replica.version + 1}: {error}") from error
        if replica.version < head:
            raise ModelDown(f"model {replica.name}: its log ends before its head")
        replica.measure()

    async def _tail(self, replica: Replica, version: int, uid: str) -> ReadOn:
        """The entries that follow a version on the log of a model that is being loaded."""
        position = replica.name, replica.incarnation, version, uid
        more = await self.store.log.read_after(*position, READ_BYTES_MAX, ENTRIES_MAX)
        if more.code == "gone":
            raise no_model(replica.name)
        if more.code in ("ahead", "fork"):
            raise _Replaced  # it joined the log a moment ago: there was a failover in between
        if more.code == "other":
            raise ModelDown(f"model {replica.name}: {OTHER}")
        if more.code != "ok":
            raise ModelDown(
                f"model {replica.name}: no intact snapshot joins the log ({more.code} after version {version}); "
                "restore the store from a backup, or delete the model"
            )
        return more


def _state_bytes(config: Config) -> int:
    """The size of a first state, as far as the configuration determines it."""
    return 0 if (space := config.space) is None else config.state_bytes(space.width)


async def load_algorithm_of(config: bytes) -> None:
    """Import in a thread what a model with a stored configuration needs, unless that has been done."""
    with suppress(ValueError):  # the error is reported when the configuration is read
        await load_algorithm(codec.config(config))


def _down(why: str, incarnation: str) -> ModelDown:
    error = ModelDown(why)
    error.incarnation = incarnation
    return error
