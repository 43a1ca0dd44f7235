"""Alarms out of the outboxes of the machines and into the streams: one event per drift.

A replica notifies the publisher when an applied entry of any process has left alarms in its outbox. New events, and
later alarms of the last one, go to the model's stream, then to the service's; both ignore what they have. So every
replica may publish, again after a crash or a rebuild, and failures are simply retried: alarms wait in the outboxes,
which are bounded.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from core.drift.outbox import KEPT
from service.errors import ModelDown, Unavailable
from service.monitor.left_alarms import LeftAlarms
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine
from service.runtime.replica import Replica
from service.store.drift import NOTHING, Batch, DriftStreams
from service.store.events import Reached, event

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Models whose events are sent to the store at the same time."""
FEW = 8
"""Alarms that are sent without asking first which of them the streams have."""
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0
"""Pause after a failure; it doubles up to the second."""


class Publisher:
    """Publishes for the replicas of one process.

    Args:
        engine: whose models.
        streams: where to.
        failpoint: called at named points; fault tests crash there.

    Attributes:
        published: events by kind that this process was the first to publish.
    """

    def __init__(self, engine: Engine, streams: DriftStreams, failpoint: Callable[[str], None] | None) -> None:
        self._engine, self._streams, self._failpoint = engine, streams, failpoint
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[Replica, asyncio.Task[None]] = {}
        self.published: Counter[str] = Counter()
        engine.models.alarms.listen(self.publish)

    async def run(self) -> None:
        """Publish for ever; the supervisor restarts it should it die."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen())
                group.create_task(LeftAlarms(self._engine, self.publish).run())
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def publish(self, replica: Replica) -> None:
        """Publish the alarms that the replica's outbox holds; those it gets meanwhile, too.

        Raises:
            Unavailable: the store did not answer, or has no room; nothing is lost.
            ModelDown: the model is out of service.
        """
        ask = replica.published == NOTHING  # just loaded: most of its alarms may be published
        while replica.unpublished:
            batch = await self._batch(replica, ask)
            ask = False
            async with self._slots:
                last = await self._streams.to_model(batch)
                self._pass("half-published")
                if last is not None:
                    reached, added = await self._streams.to_service(batch)
                    self.published.update(event.kind for event in batch.events[len(batch.events) - added :])
                    last = None if reached is None else min(last, reached)
            if last is None:  # the model was deleted, and its alarms with it
                replica.note_published(replica.machine.outbox.last)
                return
            replica.note_published(last)

    def _pass(self, point: str) -> None:
        if self._failpoint is not None:
            self._failpoint(point)

    async def _batch(self, replica: Replica, ask: bool) -> Batch:
        """The events to send; none where there are many and the streams are only asked which they have."""
        async with replica.held():
            after = Reached(*replica.published)
            drifts = replica.machine.outbox.after(after)
            pushed_out = len(drifts) == KEPT < replica.machine.outbox.total
        if ask and len(drifts) > FEW:
            drifts = []
        elif pushed_out:
            logger.warning("model %s: alarms came faster than they were published; some may be lost", replica.name)
        events = tuple(event(replica.name, replica.incarnation, drift) for drift in drifts)
        return Batch(replica.name, replica.incarnation, after, events)

    # ---------------------------------------------------------------- replicas that notify

    async def _listen(self) -> None:
        alarms = self._engine.models.alarms
        while True:
            await alarms.wake.wait()
            for replica in alarms.take():
                if replica not in self._tasks:
                    self._pass("alarmed")
                    task = asyncio.get_running_loop().create_task(self._until_out(replica))
                    self._tasks[replica] = task
                    task.add_done_callback(lambda _, replica=replica: self._ended(replica))  # type: ignore[misc]

    def _ended(self, replica: Replica) -> None:
        self._tasks.pop(replica, None)
        if not replica.gone and replica.down is None:
            replica.notify()  # what came after the last look

    async def _until_out(self, replica: Replica) -> None:
        backoff = Backoff(BACKOFF_S, BACKOFF_S_MAX)
        while replica.unpublished and not replica.gone:
            try:
                await self.publish(replica)
            except ModelDown:
                return  # what a failed apply has left is no state
            except Unavailable as error:
                if backoff.first:
                    logger.warning("model %s: its drift events wait: %s", replica.name, error.detail)
                await backoff.wait()
