"""Snapshots off the request path: when a model's log has outgrown its last snapshot, and on stop.

A snapshot of version v is written only after the answers and the alarms up to v: a replica that loads it finds the
earlier ones in the store and rebuilds the later ones from the log.
"""

import asyncio
import hashlib
import logging

from core.machine import STATE_VERSION
from service.errors import OnepassError, RequestConflict, StoreDown
from service.runtime.committer import Committer
from service.runtime.model_cache import ModelCache
from service.runtime.replica import Replica
from service.runtime.stats import Stats
from service.store.snapshots import SnapshotInfo, Snapshots

logger = logging.getLogger(__name__)

PAUSE_S = 0.25
"""How often models whose log has grown are checked."""
AT_ONCE = 8
"""Snapshots under way together on stop, so that their round trips overlap."""
THREAD_BYTES = 2**20
"""States above this size are packed in a thread."""


class Snapshotter:
    """Writes the snapshots of all loaded models; of one model one at a time.

    Args:
        models: the loaded models.
        committer: stores answers first.
        snapshots: where they are kept.
        stats: counters.
        keep: snapshots kept per model.
        least_bytes: least growth of the log between two snapshots.
    """

    def __init__(
        self,
        models: ModelCache,
        committer: Committer,
        snapshots: Snapshots,
        stats: Stats,
        *,
        keep: int,
        least_bytes: int,
    ) -> None:
        self._models, self._committer, self._snapshots, self._stats = models, committer, snapshots, stats
        self._keep, self._least_bytes = keep, least_bytes

    async def run(self) -> None:
        """Write due snapshots for ever; the supervisor restarts it should it die."""
        while True:
            await asyncio.sleep(PAUSE_S)
            if self._committer.store_down:
                continue
            touched, self._committer.touched = self._committer.touched, {}
            for replica in touched:
                if self._due(replica):
                    await self._attempt(replica)
            self._models.shrink()

    async def flush(self) -> None:
        """Write a snapshot of every loaded model that has moved since its last one, longest tail first."""
        moved = [replica for replica in self._models.loaded if replica.down is None and replica.log_bytes > 0]
        waiting = iter(sorted(moved, key=lambda replica: -replica.log_bytes))

        async def write() -> None:
            for replica in waiting:
                await self._attempt(replica)

        await asyncio.gather(*(write() for _ in range(AT_ONCE)))

    def _due(self, replica: Replica) -> bool:
        outgrown = replica.log_bytes > max(replica.snapshot_bytes, self._least_bytes)
        return outgrown and replica.down is None and not replica.gone and not replica.busy

    async def _attempt(self, replica: Replica) -> None:
        try:
            await self.take(replica)
        except (StoreDown, RequestConflict) as error:
            logger.warning("model %s: no snapshot: %s", replica.name, error.detail)
        except OnepassError as error:
            logger.error("model %s: no snapshot: %s", replica.name, error.detail)  # noqa: TRY400

    async def take(self, replica: Replica) -> SnapshotInfo:
        """Write a snapshot of the replica's present version.

        Raises:
            StoreDown: the store did not answer; the older snapshots still hold.
            RequestConflict: the replica was behind its log, or beside it; it has caught up now.
        """
        async with replica.saving:
            blob, info, size = await self._pack(replica)
            try:
                await self._committer.answer_writer.record(replica, info.version)
            except RequestConflict:
                await self._committer.sync(replica)
                raise
            await self._models.alarms.until_published(replica)
            written = await self._snapshots.write(replica.name, replica.incarnation, info, blob, self._keep)
            if written.outcome == "differs":
                self._note_divergence(replica, info, written.digest)
            if written.held:
                self._stats.snapshots += 1
                replica.log_bytes = max(0, replica.log_bytes - size)  # it may have reloaded meanwhile
                replica.snapshot_bytes, replica.snapshot_version = info.bytes, info.version
            elif not replica.gone:
                await self._committer.sync(replica)
                raise RequestConflict(
                    f"version {info.version} is older than the snapshots kept, or not on the log any more"
                )
            return info

    def _note_divergence(self, replica: Replica, info: SnapshotInfo, published: str) -> None:
        """Two replicas have made two states of one log: other code, another kind of CPU, or a fault."""
        self._stats.diverged += 1
        logger.error(
            "model %s has diverged: at version %d its state here has the digest %s, the published snapshot %s",
            replica.name,
            info.version,
            info.digest,
            published,
        )

    async def _pack(self, replica: Replica) -> tuple[bytes, SnapshotInfo, int]:
        async with replica.held():
            version, uid, rows, time_ms = replica.version, replica.uid, replica.machine.rows, replica.time_ms
            stamp = {"incarnation": replica.incarnation, "version": version, "uid": uid}
            size = replica.log_bytes
            if replica.machine.nbytes > THREAD_BYTES:
                blob = await asyncio.to_thread(replica.machine.to_bytes, stamp)
            else:
                blob = replica.machine.to_bytes(stamp)
        digest = hashlib.blake2b(blob, digest_size=16).hexdigest()
        return blob, SnapshotInfo(version, uid, rows, time_ms, len(blob), digest, STATE_VERSION), size
