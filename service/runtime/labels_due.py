"""Learns the label of ``labels_due`` for tracked predictions whose own label is overdue.

Every process looks once a second and commits each due label that it finds as feedback to the tracked prediction. The
store remembers its id, so the label is learned exactly once, even if other processes do the same or die meanwhile. If
the prediction's own label came first, the store says so. If the model refuses the label, as after a reset to other
features, or its configuration no longer has one, the prediction expires.
"""

import asyncio
import logging
from collections.abc import Sequence

import numpy as np

from core.entry import Rows
from service.errors import ModelDown, NotFound, OnepassError, Recreated, RequestConflict, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.commit.answerer import DUE, Refused
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica, Reply
from service.store.due_labels import DueLabel, DueLabels
from service.store.keys import LABEL
from service.store.log import codec

logger = logging.getLogger(__name__)

LOOK_S = 1.0  # pause between two looks
MODELS_MAX, VISITS_MAX = 1000, 100  # models per look, and how many of them are visited, which loads them
LABELS_MAX, TURNS_MAX = 256, 8
"""Most labels of a model learned together, and how often that is repeated before other models have their turn."""
AT_ONCE, VISIT_S = 8, 2.0  # models visited together, and how long the next ones wait for them
UNABLE_S = 10.0  # how long a model that cannot be visited here is left to other processes, which may be able to
BACKOFF_S, BACKOFF_S_MAX = 1.0, 30.0  # pauses while the store does not answer


class LabelsDueLearner:
    """Learns due labels of all models of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._due = engine, DueLabels(engine.store.connection)
        self._visits: dict[tuple[str, str], asyncio.Task[None]] = {}  # those under way, by model and incarnation
        self._unable: dict[tuple[str, str], float] = {}  # models that are left alone, and until when

    async def run(self) -> None:
        """Look forever; the supervisor restarts it if it dies."""
        try:
            await Backoff(BACKOFF_S, BACKOFF_S_MAX).repeat(self._look, LOOK_S)
        finally:
            for visit in self._visits.values():
                visit.cancel()
            self._visits.clear()  # a visit cancelled before it began does not remove itself

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        self._unable = {model: until for model, until in self._unable.items() if now < until}
        passed = self._visits.keys() | self._unable.keys()  # these stay at the front until they are settled
        due = await self._due.models(MODELS_MAX + len(passed))
        models = [model for model in due if model not in passed][:VISITS_MAX]
        for at in range(0, len(models), AT_ONCE):
            visits = [self._begin(*model) for model in models[at : at + AT_ONCE]]
            await asyncio.wait(visits, timeout=VISIT_S)  # a visit that takes longer goes on in the background

    def _begin(self, name: str, incarnation: str) -> "asyncio.Task[None]":
        visit = asyncio.get_running_loop().create_task(self._visit_and_settle(name, incarnation))
        self._visits[name, incarnation] = visit
        return visit

    async def _visit_and_settle(self, name: str, incarnation: str) -> None:
        try:
            following = await self._visit(name, incarnation)
            await self._due.settle({(name, incarnation): following})
        except (ModelDown, Unavailable):
            self._unable[name, incarnation] = asyncio.get_running_loop().time() + UNABLE_S
            logger.info("model %s: will look for its due labels again", name)
        except Exception:
            logger.exception("the due labels of model %s could not be learned", name)
        finally:
            self._visits.pop((name, incarnation), None)

    async def _visit(self, name: str, incarnation: str) -> int:
        """Learn the due labels of a model; returns when the next one is due, in ms since the epoch; 0: never."""
        try:
            replica = await self._engine.replica(name)
        except NotFound:
            return 0
        following = 0
        for _ in range(TURNS_MAX):
            found, following = await self._due.take(name, incarnation, LABELS_MAX)
            if not found:  # nothing is due any more, or the model is gone
                break
            if replica.incarnation != incarnation:  # this process still has an earlier model of that name
                raise Recreated(f"model {name} was created again")
            try:
                await replica.inbox.sync()  # a PATCH that this process has not applied yet may have changed the label
                replica = self._engine.models.current(replica)
            except NotFound:
                return 0
            await self._learn(replica, found)
        return following

    async def _learn(self, replica: Replica, found: Sequence[DueLabel]) -> None:
        """Learn some due labels; those that cannot be learned now are found again after the lease."""
        due = replica.model.config.labels_due
        if due is None or due["then"] == "drop":  # a PATCH has changed it
            ids = [one.prediction_id for one in found]
            dropped = await self._engine.pending.drop(replica.name, replica.incarnation, ids)
            await self._count_expired(replica, dropped)
            return
        replies = await asyncio.gather(
            *[self._submit(replica, one, due["then"]["label"]) for one in found], return_exceptions=True
        )
        done = list[str]()
        for one, reply in zip(found, replies, strict=True):
            if isinstance(reply, RequestConflict | ValueError):  # its own label came first, or this cannot be learned
                came_first = isinstance(reply, RequestConflict) and reply.problems  # else the model refuses the label
                level = logging.INFO if came_first else logging.WARNING
                logger.log(level, "a due label of model %s was not learned: %s", replica.name, reply)
                done.append(one.prediction_id)
            elif isinstance(reply, BaseException) and not isinstance(reply, OnepassError):
                raise reply
            elif not isinstance(reply, BaseException):
                done.append(one.prediction_id)
        await self._count_expired(replica, sum(isinstance(reply, Refused) for reply in replies))
        if done:
            await self._due.forget(replica.name, replica.incarnation, done)

    async def _count_expired(self, replica: Replica, count: int) -> None:
        if count:
            await self._due.count_expired(replica.name, replica.incarnation, count)

    async def _submit(self, replica: Replica, one: DueLabel, label: object) -> Reply:
        """Learn the label for one prediction's row; ``ValueError`` if the stored prediction is corrupt."""
        kept = codec.decode_tracked(one.blob)
        y = np.array([label], np.float64) if replica.model.regression else [label]
        ids = (LABEL + one.prediction_id,)
        rows = Rows(kept.space, None, kept.raw, y, served=kept.served, ids=ids, due=True)  # type: ignore[arg-type]  # a label of the configuration
        return await replica.inbox.submit(rows, (DUE,), one.prediction_id)
