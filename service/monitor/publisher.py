"""Publishes the alarms in the models' outboxes to the stream: one event per drift.

A replica notifies the publisher when an applied entry of any process has left alarms in its outbox; the stream ignores
alarms that it already has. So every replica may publish, and publish again after a crash or a rebuild. Failures are
simply retried: alarms wait in the outboxes, which are bounded.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from operator import attrgetter

from core.config.watch import KINDS
from core.drift.outbox import KEPT, NO_ALARM, AlarmPosition
from service.errors import ModelDown, NotFound, Recreated, StoreDown, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica
from service.store.drift.drift import DriftStream
from service.store.drift.events import StreamItem, items

logger = logging.getLogger(__name__)

AT_ONCE = 8  # models whose alarms are sent to the store at the same time, and models that read on before
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0  # first pause after a failure, which doubles; the longest
LATE = "model %s: alarms came faster than they could be published; some may be lost"


class Publisher:
    """Publishes for the replicas of one process; ``published`` counts by kind the events that it published first."""

    def __init__(self, engine: Engine, stream: DriftStream, failpoint: Callable[[str], None] | None) -> None:
        self._models, self._stream = engine.models, stream
        self._pass = failpoint or (lambda _: None)
        self._slots, self._syncing = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        self._busy: dict[Replica, asyncio.Task[None]] = {}
        self._running = False
        self.published = Counter(dict.fromkeys(KINDS, 0))
        engine.models.on_alarm, engine.models.publish = self.notify, self.publish

    async def publish(self, replica: Replica) -> None:
        """Publish the alarms that the replica's outbox holds, and those it gets meanwhile.

        ``Unavailable`` if the store did not answer or has no room: nothing is lost. ``ModelDown``: out of service, or
        lost. ``NotFound``, ``Recreated``: the model is gone.
        """
        asked = False
        while replica.unpublished:
            after = replica.published
            # If it was just loaded, most alarms may be published; if its log went back, they may be of lost entries.
            asking = replica.progress.suspect or (after == NO_ALARM and not asked)
            alarms = [] if asking else await self._after(replica, after)
            async with self._slots:
                last, added = await self._stream.publish(replica.name, replica.incarnation, after, alarms)
            if added:
                self._pass("published")
                if (
                    len({each.event_id for each in alarms[len(alarms) - added :]}) >= KEPT // 2
                    and replica.model.outbox.total > KEPT
                ):
                    logger.warning(LATE, replica.name)
            self.published.update(each.kind for each in alarms[len(alarms) - added :] if each.kind != "joined")
            if last is None:  # the model was deleted, and its alarms with it
                last = replica.model.outbox.last
            elif replica.progress.suspect or last < after or last > replica.model.outbox.last:
                last = await self._on_the_log(replica, last)
            asked = True
            if replica.published == after:  # nobody else was faster
                replica.published = last

    async def _on_the_log(self, replica: Replica, last: AlarmPosition) -> AlarmPosition:
        """Read on to the log's head, since the log or the stream may have gone back; returns the last alarm published.

        An alarm beyond the head is of an entry that the log has lost.
        """
        async with self._syncing:
            await replica.inbox.sync()
        replica.progress.suspect = False
        if last <= replica.model.outbox.last or replica.ledger is None:
            return last
        async with replica.held():
            alarms = [*items(replica.name, replica.incarnation, replica.model.outbox.after(NO_ALARM))]
        return await self._stream.take_back(replica.name, replica.incarnation, last, alarms)

    async def _after(self, replica: Replica, after: AlarmPosition) -> list[StreamItem]:
        async with replica.held():
            drifts = replica.model.outbox.after(after)
        found = [each for each in items(replica.name, replica.incarnation, drifts) if each.alarm > after]
        return sorted(found, key=attrgetter("alarm"))  # alarms of several learners take turns

    # ---------------------------------------------------------------- replicas that notify

    def notify(self, replica: Replica) -> None:
        """Publish a replica's alarms, unless that is already under way."""
        if self._running and replica not in self._busy:
            task = asyncio.get_running_loop().create_task(self._until_out(replica), context=Context())
            self._busy[replica] = task

    def publish_again(self) -> None:
        """Check for all loaded models what is published: a failover may have lost events, and their rows or not."""
        for replica in self._models.loaded:
            replica.published = NO_ALARM
            if replica.unpublished:  # then publishing reads on and ends the suspicion; others would count as behind
                replica.progress.suspect = True
            replica.notify()

    async def run(self) -> None:
        """Publish forever; the supervisor restarts it if it dies."""
        self._running = True
        try:
            for replica in self._models.loaded:
                replica.notify()
            await asyncio.Event().wait()
        finally:
            self._running = False
            for task in self._busy.values():
                task.cancel()
            self._busy.clear()

    async def _until_out(self, replica: Replica) -> None:
        backoff = Backoff(BACKOFF_S, BACKOFF_S_MAX)
        try:
            self._pass("alarmed")
            while replica.unpublished and not replica.gone and replica.down is None:
                try:
                    await self.publish(replica)
                except (ModelDown, NotFound, Recreated):
                    return  # a failed apply leaves no valid state; a lost model is published when it is found again
                except Unavailable as error:
                    if backoff.first and not isinstance(error, StoreDown):  # others log that, not for each model
                        logger.warning("model %s: cannot publish its drift events yet: %s", replica.name, error.detail)
                    replica.progress.suspect = True  # the store may come back with an older log
                    await backoff.wait()
                except Exception:  # a bug: the alarms stay due, and other models' are published meanwhile
                    if backoff.first:
                        logger.exception("model %s: cannot publish its drift events", replica.name)
                    await backoff.wait()
        finally:
            self._busy.pop(replica, None)
