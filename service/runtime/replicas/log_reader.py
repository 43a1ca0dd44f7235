"""Reads on in the logs of loaded models, and reloads a replica that no longer joins its log."""

import logging
import time
from collections.abc import Sequence

from service.errors import ModelDown, OnepassError, StoreDown, Unavailable
from service.runtime.replicas.loader import ENTRIES_MAX, Loader
from service.runtime.replicas.model_cache import ModelCache
from service.runtime.replicas.replica import PATH_MAX, Replica
from service.store.log.appends import READ_BYTES_MAX
from service.store.log.entries import OTHER, RawEntry, ReadOn
from service.store.states.states import StateLost

logger = logging.getLogger(__name__)


class LogReader:
    """Brings replicas to the heads of their logs."""

    def __init__(self, loader: Loader, models: ModelCache) -> None:
        self._log, self._loader, self._stats, self._models = loader.store.log, loader, loader.stats, models
        self.tail_lost_at = 0.0  # when the loss of a log's tail was last detected, seconds since the epoch

    async def apply(self, replica: Replica, entries: Sequence[RawEntry], last: int | None = None) -> None:
        """Apply entries of the log, up to the version ``last``; skips those already applied.

        An entry whose state is gone is skipped as well, by loading a snapshot that follows it; ``ModelDown`` if there
        is none.
        """
        new = [raw for raw in entries if raw.version > replica.version and (last is None or raw.version <= last)]
        try:
            await self._loader.apply(replica, new)
        except StateLost as lost:  # the entry may be gone as well, if it was trimmed meanwhile
            logger.warning("reloading model %s: %s", replica.name, lost)
            try:
                await self._loader.reload(replica)
            except ModelDown as error:
                raise replica.quarantine(error.detail) from error

    async def up_to(self, replica: Replica, last: int) -> None:
        """Read on until a version that is on the log is applied; ``StoreDown`` if the log cannot be read on."""
        while replica.version < last:
            more = await self._more(replica)
            if more.code == "other":
                raise replica.quarantine(OTHER)
            if more.code != "ok" or not more.entries:
                raise StoreDown(f"the log of {replica.name} could not be read further: {more.code}")
            await self.apply(replica, more.entries, last)

    async def to_head(self, replica: Replica) -> bool:
        """Apply everything that is on the log now, or raise why that fails; returns whether it took a reload.

        Entries appended meanwhile are left for the next time: others may append faster than this process applies.
        """
        more = await self._more(replica)
        head = more.head
        while more.code == "ok":
            await self.apply(replica, more.entries)
            if replica.version >= head or not more.entries:
                replica.progress.suspect = False
                return False
            more = await self._more(replica)
        if more.code == "gone":
            raise await self.gone(replica, more.head)
        if more.code == "other":
            raise replica.quarantine(OTHER)
        await self.reload(replica, more.code, more.head)
        return True

    async def _more(self, replica: Replica) -> ReadOn:
        position = (replica.name, replica.incarnation, replica.version, replica.uid)
        return await self._log.read_after(*position, READ_BYTES_MAX, ENTRIES_MAX, soon=True)

    async def gone(self, replica: Replica, others: int) -> OnepassError:
        """The error for requests to a model that no longer exists: deleted and dropped, or lost.

        ``others`` is 1 if the name belongs to a new model now.
        """
        try:
            (error,) = await self._models.vanished([(replica, bool(others))])
        except Unavailable as unknown:
            return unknown
        return error

    async def reload(self, replica: Replica, code: str, head: int) -> None:
        """Reload from snapshot and log; if the log has lost its tail, report which entries were lost.

        ``code`` is the log's answer, ``head`` its last version. Raises as ``Loader.reload``.
        """
        if code not in ("ahead", "fork"):
            await self._loader.reload(replica)
            return
        replica.progress.suspect = True
        self._stats.lost_tails += 1
        logger.error(
            "model %s: the log lost its tail (%s): replica at version %d, log at %d; entries after their last common "
            "version are lost; reloading from snapshot plus log",
            replica.name,
            code,
            replica.version,
            head,
        )
        was, path = replica.version, {*replica.path, (replica.version, replica.uid)}
        await self._loader.reload(replica)
        common = [version for version, uid in (*replica.path, (replica.version, replica.uid)) if (version, uid) in path]
        kept = max(common, default=None)  # None: the last version that both have is further back than the path
        lost = was - kept if kept is not None else max(PATH_MAX, was - head)
        self._stats.lost_entries += lost
        self.tail_lost_at = time.time()
        what = f"the entries of versions {was - lost + 1} to {was} are lost, {lost} in all"
        if kept is None:
            what = f"{lost} entries or more are lost, up to version {was}"
        logger.error("model %s: %s", replica.name, what)
