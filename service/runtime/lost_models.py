"""Models that are gone from the store: deleted by somebody, or lost with the store's data; and the way back.

Deleting leaves a mark in the store. A model that is gone without one is lost: the store came back empty, or older than
the model. What is held of it in memory is then kept: it predicts, it learns nothing, and ``refill`` writes it back.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from service.errors import ModelLost, OnepassError, Recreated, no_model
from service.runtime.model_cache import ModelCache
from service.runtime.replica import Replica
from service.runtime.snapshots import pack
from service.runtime.stats import Stats
from service.runtime.summaries.summary_state import SummaryState
from service.store import refill
from service.store.catalog import Catalog
from service.store.redis.connection import Connection

logger = logging.getLogger(__name__)


Outcome = Literal["refilled", "replaced", "kept", "taken", "deleted", "failed"]


class Refilled(NamedTuple):
    """What became of a lost model.

    Attributes:
        name, incarnation: the model.
        version: the version that this process holds.
        outcome: see service/store/refill.py; "failed" where it could not be read or written.
        stored: the version that the store has now; 0: none.
        detail: why it failed, else empty.
    """

    name: str
    incarnation: str
    version: int
    outcome: Outcome
    stored: int = 0
    detail: str = ""


class LostModels:
    """Tells lost models from deleted ones, and writes lost ones back.

    Args:
        models: the loaded models.
        catalog: asked what was deleted.
        connection: where models are written back.
        stats: counters.
    """

    def __init__(self, models: ModelCache, catalog: Catalog, connection: Connection, stats: Stats) -> None:
        self._models, self._catalog, self._connection, self._stats = models, catalog, connection, stats

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
                "memory: POST /refill writes it back",
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

    async def refill(self, allowed: Callable[[str], bool]) -> list[Refilled]:
        """Write every lost model back that ``allowed`` says, one after the other.

        Raises:
            StoreDown: the store did not answer; what is written back stays so.
        """
        await self._connection.ping()  # nothing is known to be lost while the store is away
        return [await self._refilled(replica) for replica in self._models.lost if allowed(replica.name)]

    async def _refilled(self, replica: Replica) -> Refilled:
        name, incarnation = replica.name, replica.incarnation
        try:
            state, info, size = await pack(replica)
        except OnepassError as error:
            return Refilled(name, incarnation, replica.version, "failed", detail=error.detail)
        lost = refill.Lost(name, incarnation, replica.first_config, replica.created_ms, info)
        outcome, stored = await refill.refill(self._connection, lost, state)
        if outcome in {"refilled", "replaced"}:
            self._stats.refilled_models += 1
            replica.saved.note(info, size)
            replica.outdated = False  # what was written back is a state of this code, and all load it
            replica.summary.take_over(SummaryState())  # the store has none, and is given this one
            logger.warning("model %s was written back at version %d", name, info.version)
        if outcome == "deleted":
            self._forget(replica, deleted=True)
        elif outcome != "taken":
            self._models.release(replica)
        return Refilled(name, incarnation, info.version, outcome, stored)
