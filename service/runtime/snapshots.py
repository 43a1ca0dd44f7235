"""Snapshots off the request path: when the log outgrows the last one, or takes long to replay, and on stop.

A snapshot of version v is written only after the answers and the alarms up to v: a replica that loads it finds the
earlier ones in the store and rebuilds the later ones from the log. The state must also have been read back: one that
cannot be read must not replace the older snapshots, or the log behind them. On stop, when time is short, a state is
read back only if something other than rows has been applied since the last one that was.
"""

import asyncio
import logging
import math

from core.model import save
from service.errors import ModelDown, NotFound, OnepassError, Recreated, RequestConflict, Unavailable, no_model
from service.runtime.commit.answerer import AnswerWriter
from service.runtime.commit.committer import Committer
from service.runtime.replicas.model_cache import ModelCache
from service.runtime.replicas.replica import Replica
from service.runtime.replicas.saved import REST
from service.runtime.stats import Stats
from service.runtime.threads import in_thread_if_large
from service.store.states.pieces import digest
from service.store.states.snapshots import SnapshotInfo, Snapshots

logger = logging.getLogger(__name__)

PAUSE_S = 0.25  # how often models whose log has grown are checked
ANSWERS_BYTES = 4 * 2**20
"""A replica that only reads writes a snapshot itself when the answers it holds outgrow the last one by this much: the
process that appends has not written one for a long time."""
AT_ONCE = 8  # snapshots under way together, so that their round trips overlap


class Snapshotter:
    """Writes the snapshots of all loaded models, one at a time for each model.

    ``keep`` snapshots are kept per model; ``least_bytes`` is the least growth of the log between two.

    Attributes:
        grown: models whose log has grown, and whether by an append of this process.
    """

    def __init__(
        self,
        models: ModelCache,
        committer: Committer,
        answers: AnswerWriter,
        snapshots: Snapshots,
        stats: Stats,
        *,
        keep: int,
        least_bytes: int,
    ) -> None:
        self._models, self._committer, self._answers = models, committer, answers
        self._snapshots, self._stats = snapshots, stats
        self._keep, self._least_bytes = keep, least_bytes
        self.grown: dict[Replica, bool] = {}
        self._attempts: dict[Replica, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Write due snapshots forever; the supervisor restarts it if it dies."""
        while True:
            await asyncio.sleep(PAUSE_S)
            if not self._committer.store_down:
                self._begin_due()
            self._models.shrink()

    def _begin_due(self) -> None:
        """Write due snapshots, each in its own task, so that a locked model does not delay others."""
        loop = asyncio.get_running_loop()
        for replica, own in [*self.grown.items()]:
            due_at = self._due_at(replica, own)
            if due_at == math.inf:
                del self.grown[replica]
            elif loop.time() >= due_at and replica not in self._attempts and len(self._attempts) < AT_ONCE:
                task = self._attempts[replica] = loop.create_task(self._attempt(replica))
                task.add_done_callback(lambda _, replica=replica: self._attempts.pop(replica))  # type: ignore[misc]

    async def flush(self) -> None:
        """Write a snapshot of every loaded model that has changed since its last one, longest tail first."""
        fine = [replica for replica in self._models.loaded if not (replica.down or replica.lost)]
        moved = [replica for replica in fine if replica.saved.log_bytes > 0]
        waiting = iter(sorted(moved, key=lambda replica: -replica.saved.log_bytes))

        async def write() -> None:
            for replica in waiting:
                await self._attempt(replica, check=False)

        await asyncio.gather(*(write() for _ in range(AT_ONCE)))

    def _due_at(self, replica: Replica, own: bool) -> float:
        """When to write a snapshot: decided by the log if this process appends, else by the answers it holds."""
        saved = replica.saved
        if replica.down or replica.gone or replica.lost or replica.ledger is None:
            return math.inf
        if own:
            return saved.due_at(self._least_bytes)
        outgrown = replica.answers.nbytes > max(saved.size, self._least_bytes) + ANSWERS_BYTES
        return saved.retried if outgrown else math.inf

    async def _attempt(self, replica: Replica, *, check: bool = True) -> None:
        try:
            await self.take(replica, check=check)
        except (NotFound, Recreated) as error:  # it was deleted meanwhile: there is nothing to keep
            self.grown.pop(replica, None)
            logger.debug("model %s: no snapshot: %s", replica.name, error.detail)
        except RequestConflict as error:  # another process has probably written one: after the next append we try again
            self.grown.pop(replica, None)
            logger.warning("model %s: no snapshot: %s", replica.name, error.detail)
        except Unavailable as error:
            replica.saved.fail()
            logger.warning("model %s: no snapshot: %s", replica.name, error.detail)
        except OnepassError as error:
            replica.saved.fail()
            logger.error("model %s: no snapshot: %s", replica.name, error.detail)  # noqa: TRY400
        except Exception as error:  # such as MemoryError; the other models' snapshots are still written
            replica.saved.fail()
            logger.exception("model %s: no snapshot: %s", replica.name, type(error).__name__)

    async def guard(self, replica: Replica) -> None:
        """Write a snapshot that is kept until the next guard; raises Unavailable or ModelDown if that fails."""
        try:
            await self.take(replica, guard=True)
        except RequestConflict as error:
            raise Unavailable(f"nothing was changed, because no snapshot could be written: {error.detail}") from error

    async def take(self, replica: Replica, *, guard: bool = False, check: bool = True) -> SnapshotInfo:
        """Write a snapshot of the replica's present version; ``guard`` as in ``Snapshots.write``.

        Raises:
            ModelDown: the state cannot be read back, which is a bug, or the model is out of service.
            StoreDown: the store did not answer; the older snapshots still hold.
            NotFound: the model was deleted meanwhile.
            RequestConflict: the replica was behind its log, or off it; it has caught up now.
        """
        async with replica.saved.lock:
            time = asyncio.get_running_loop().time
            began = time()
            blob, info, (size, flops) = await pack(replica)
            if check or replica.saved.changed > replica.saved.read_back:
                await read_back(replica.name, blob)
                replica.saved.read_back = info.version
            try:
                await self._answers.record(replica, info.version)
            except RequestConflict:
                await replica.inbox.sync()
                raise
            await self._models.until_published(replica)
            written = await self._snapshots.write(
                replica.name, replica.incarnation, info, blob, self._keep, guard=guard
            )
            if written.outcome == "differs":
                self._note_divergence(replica, info, written.digest)
            if written.held:
                self._stats.snapshots += 1
                replica.saved.record(info, size, flops)
                replica.saved.rested = time() + REST * (time() - began)
                logger.debug("model %s: wrote the snapshot of version %d: %d bytes", replica.name, info.version, size)
                await replica.drop_answers(info.version)
            elif replica.gone:
                raise no_model(replica.name)
            else:
                await replica.inbox.sync()
                raise RequestConflict(
                    f"version {info.version} is older than the kept snapshots, or no longer on the log"
                )
            return info

    def _note_divergence(self, replica: Replica, info: SnapshotInfo, published: str) -> None:
        """Report that two replicas made different states of one log: different code or CPUs, or a fault."""
        self._stats.diverged += 1
        logger.error(
            "model %s has diverged: at version %d its state here has the digest %s, the published snapshot %s",
            replica.name,
            info.version,
            info.digest,
            published,
        )


async def read_back(name: str, state: bytes) -> None:
    """Read a state that was just made; raises ``ModelDown`` if it cannot be read, which is a bug."""
    try:
        await in_thread_if_large(len(state), save.from_bytes, state)
    except ValueError as error:
        raise ModelDown(f"the state of model {name} cannot be read back: {error}") from error


async def pack(replica: Replica) -> tuple[bytes, SnapshotInfo, tuple[int, float]]:
    """A snapshot of a replica's present version, its description, and what it covers: bytes of the log, and flops."""
    async with replica.held():
        version, uid, rows, time_ms = replica.version, replica.uid, replica.model.rows, replica.time_ms
        stamp = {"incarnation": replica.incarnation, "version": version, "uid": uid}
        held = replica.saved.log_bytes, replica.saved.flops
        blob = await in_thread_if_large(replica.model.nbytes, save.to_bytes, replica.model, stamp)
    checksum = await in_thread_if_large(len(blob), digest, blob)
    return blob, SnapshotInfo(version, uid, rows, time_ms, len(blob), checksum), held
