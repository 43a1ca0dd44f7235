"""One replica of the service, and everything the simulator knows about its structure."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from core.contract import Buffer
from core.entry import Segment
from service.monitor.orphaned_alarms import OrphanedAlarms
from service.monitor.publisher import Publisher
from service.runtime.engine import Bounds, Engine
from service.runtime.replicas import named_states
from service.runtime.replicas.loader import Store
from service.runtime.replicas.replica import Replica, Reply
from service.store.drift.drift import DriftStream
from service.store.redis.connection import Call
from tests.simulator.network import Way, World

EVENTS_MAX = 10_000


class _Deaths(set[str]):
    """The tasks that are currently dead, and a list of all that ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[str] = []

    def add(self, name: str) -> None:
        self.all.append(name)
        super().add(name)


class Member:
    """A replica of the service, not started yet; ``reads_only``: clients never send it anything to learn.

    ``heard`` is called with it, each call that the store answered, and the reply.
    """

    def __init__(
        self,
        number: int,
        world: World,
        bounds: Bounds,
        *,
        publishes: bool,
        reads_only: bool,
        heard: Callable[["Member", Call, Any], None],
    ) -> None:
        self.number, self.reads_only = number, reads_only
        self.way = Way(world, lambda call, reply: heard(self, call, reply))
        made: Any = self.way
        self.deaths = _Deaths()
        self.engine = Engine(Store(made), bounds)
        self.engine._dead = self.deaths
        if publishes:
            stream = DriftStream(made, made, kept=EVENTS_MAX, wait_s=1.0)
            self.publisher = Publisher(self.engine, stream, None)
            self.engine.companions["drift events"] = self.publisher.run
            self.engine.companions["orphaned alarms"] = OrphanedAlarms(self.engine, self.publisher.publish).run

    # ---------------------------------------------------------------- what its clients ask of it

    async def submit(self, replica: Replica, segment: Segment, digests: Sequence[str] = ()) -> Reply:
        """Commit a segment of a loaded model."""
        return await replica.inbox.submit(segment, digests)

    async def take_over(self, replica: Replica, state: Buffer, source: str) -> Reply:
        """Replace the state of a loaded model."""
        return await named_states.take_over(self.engine.store.states, replica, state, source)

    # ---------------------------------------------------------------- what befalls it

    def start(self) -> None:
        """Start it; a crash may interrupt this."""
        self._starting = asyncio.create_task(self.engine.start())

    @property
    def started(self) -> bool:
        return self._starting.done()

    async def stop(self) -> None:
        await self.engine.stop()
        self.way.dead = True

    def crash(self) -> None:
        """Cut it off from the store and cancel its tasks."""
        self.way.dead = True
        for task in self.engine._tasks.values():
            task.cancel()

    def drop(self, name: str) -> bool:
        """Evict a model; return whether it was possible."""
        replica = self.engine.models.peek(name)
        if replica is None or not replica.idle:
            return False
        self.engine.models._drop(name)
        return True

    # ---------------------------------------------------------------- what it looks like inside

    @property
    def writer(self) -> str:
        """The prefix of the uids of its entries."""
        return self.engine.notices._own.decode().strip(" .")

    @staticmethod
    def at_work(replica: Replica) -> bool:
        """Whether a model is busy with its own work."""
        return replica.lock.locked() or not replica.inbox.idle

    @staticmethod
    def in_flight(replica: Replica) -> bool:
        """Whether requests of a model are in flight."""
        return replica.inbox.in_flight

    @staticmethod
    def answers_held(replica: Replica) -> dict[str, int]:
        """The ids whose answers are held in memory, with the versions that learned them."""
        return {identity: version for identity, (version, _) in replica.answers._held.items()}

    def judge(self, replica: Replica) -> None:
        """After the calm no request waits, and the replica's count of its memory is right."""
        assert [] == self.deaths.all, "a task has died"
        actor: Any = replica.inbox
        assert (True, {}) == (actor.idle, replica.progress.awaited), "a request still waits"
        assert actor._shared.waiting.used == 0, "bytes count as waiting although no request waits"
        held = sum(each.nbytes for each in self.engine.models.loaded)
        assert held == self.engine.models.ledger.used, "the budget does not count the bytes of the loaded models"
        assert replica.answers.nbytes >= 0
