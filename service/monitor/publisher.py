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
from service.errors import ModelDown, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica
from service.store.drift.drift import DriftStream
from service.store.drift.events import StreamItem, items

logger = logging.getLogger(__name__)

AT_ONCE = 8  # models whose alarms are sent to the store at the same time
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0  # first pause after a failure, which doubles; the longest


class Publisher:
    """Publishes for the replicas of one process; ``published`` counts by kind the events that it published first."""

    def __init__(self, engine: Engine, stream: DriftStream, failpoint: Callable[[str], None] | None) -> None:
        self._models, self._stream = engine.models, stream
        self._pass = failpoint or (lambda _: None)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._busy: dict[Replica, asyncio.Task[None]] = {}
        self._running = False
        self.published = Counter(dict.fromkeys(KINDS, 0))
        engine.models.on_alarm, engine.models.publish = self.notify, self.publish

    async def publish(self, replica: Replica) -> None:
        """Publish the alarms that the replica's outbox holds, and those it gets meanwhile.

        ``Unavailable`` if the store did not answer or has no room: nothing is lost. ``ModelDown``: out of service.
        """
        asking = replica.published == NO_ALARM  # just loaded: most of its alarms may be published
        while replica.unpublished:
            after = replica.published
            alarms, asking = [] if asking else await self._after(replica, after), False
            async with self._slots:
                last, added = await self._stream.publish(replica.name, replica.incarnation, after, alarms)
            if added:
                self._pass("published")
            self.published.update(each.kind for each in alarms[len(alarms) - added :] if each.kind != "joined")
            # If the model was deleted, its alarms are gone with it.
            replica.published = replica.model.outbox.last if last is None else last

    async def _after(self, replica: Replica, after: AlarmPosition) -> list[StreamItem]:
        async with replica.held():
            drifts, total = replica.model.outbox.after(after), replica.model.outbox.total
        if len(drifts) >= KEPT // 2 and total > KEPT:
            logger.warning("model %s: alarms came faster than they could be published; some may be lost", replica.name)
        found = [each for each in items(replica.name, replica.incarnation, drifts) if each.alarm > after]
        return sorted(found, key=attrgetter("alarm"))  # alarms of several learners take turns

    # ---------------------------------------------------------------- replicas that notify

    def notify(self, replica: Replica) -> None:
        """Publish a replica's alarms, unless that is already under way."""
        if self._running and replica not in self._busy:
            task = asyncio.get_running_loop().create_task(self._until_out(replica), context=Context())
            self._busy[replica] = task

    def publish_again(self) -> None:
        """Check for all loaded models what is published: a failover may have lost events, but not their rows."""
        for replica in self._models.loaded:
            replica.published = NO_ALARM
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
                except ModelDown:
                    return  # a failed apply leaves no valid state
                except Unavailable as error:
                    if backoff.first:
                        logger.warning("model %s: cannot publish its drift events yet: %s", replica.name, error.detail)
                    await backoff.wait()
                except Exception:  # a bug: the alarms stay due, and other models' are published meanwhile
                    if backoff.first:
                        logger.exception("model %s: cannot publish its drift events", replica.name)
                    await backoff.wait()
        finally:
            self._busy.pop(replica, None)
