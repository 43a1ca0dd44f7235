"""Models that are gone from the store: deleted by somebody, or lost with the store's data.

Deleting leaves a mark in the store. A model that is gone without one is lost: the store came back empty, or older than
the model. What is held of it in memory is then kept: it predicts and learns nothing, until the store has the model
again or somebody deletes it.
"""

import logging
from collections.abc import Sequence

from service.errors import ModelLost, OnepassError, Recreated, no_model
from service.runtime.model_cache import ModelCache
from service.runtime.replica import Replica
from service.runtime.stats import Stats
from service.store.catalog import Catalog

logger = logging.getLogger(__name__)


class LostModels:
    """Tells lost models from deleted ones.

    Args:
        models: the loaded models.
        catalog: asked what was deleted.
        stats: counters.
    """

    def __init__(self, models: ModelCache, catalog: Catalog, stats: Stats) -> None:
        self._models, self._catalog, self._stats = models, catalog, stats

    async def vanished(self, replica: Replica, others: bool) -> OnepassError:
        """Deal with a replica whose model is not in the store; the error for its requests.

        Args:
            replica: the replica.
            others: whether the name belongs to another model now.

        Raises:
            StoreDown: it cannot be known.
        """
        (deleted,) = await self._catalog.deleted([(replica.name, replica.incarnation)])
        return self._judged(replica, others, deleted)

    async def all_vanished(self, found: Sequence[tuple[Replica, bool]]) -> None:
        """``vanished`` for several replicas in one round trip."""
        marks = await self._catalog.deleted([(replica.name, replica.incarnation) for replica, _ in found])
        for (replica, others), deleted in zip(found, marks, strict=True):
            self._judged(replica, others, deleted)

    def _judged(self, replica: Replica, others: bool, deleted: bool) -> OnepassError:
        if deleted or others:
            self._forget(replica, deleted)
            name = replica.name
            return Recreated(f"model {name} was created again: send the request again") if others else no_model(name)
        error = ModelLost(replica.name)
        if not replica.lost and not replica.gone and self._models.keep_lost(replica):
            self._stats.lost_models += 1
            replica.progress.refuse(error)
            logger.error(
                "the store has lost model %s (incarnation %s, version %d), which nobody has deleted; it is kept in "
                "memory, predicts, and learns nothing until the store is restored or the model is deleted",
                replica.name,
                replica.incarnation,
                replica.version,
            )
        return error

    def _forget(self, replica: Replica, deleted: bool) -> None:
        if deleted:
            logger.info("model %s was deleted elsewhere", replica.name)
        elif not replica.gone:
            self._stats.lost_models += 1
            logger.error(
                "the store has lost model %s (incarnation %s, version %d), and its name is another model's by now: it "
                "is dropped",
                replica.name,
                replica.incarnation,
                replica.version,
            )
        self._models.forget(replica)

    def found(self, replica: Replica) -> None:
        """A lost model is in the store again."""
        if replica.lost:
            self._models.release(replica)
            logger.warning("model %s is in the store again", replica.name)
