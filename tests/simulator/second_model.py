"""The second model: its requests are answered with the round trip that carries them, whatever the first model does.

A row of it may only wait for the pipeline that is under way when it arrives, for its own pipeline, and for the threads
that learn it: no lock, load, thread, reload or snapshot of another model. Time is simulated, so the bound is exact.
"""

import asyncio
import math

import numpy as np

from core.entry import Rows
from core.model import Model
from service.errors import OnepassError
from service.runtime.commit.committer import BACKOFF_S
from service.runtime.replicas.replica import Replica
from service.store.keys import ModelKeys
from service.store.log.appends import APPEND, RECORD
from service.store.log.log import READ_AFTER
from tests.simulator.clients import anonymous
from tests.simulator.member import Member
from tests.simulator.network import Trip
from tests.simulator.simulation import ANSWER_S, SECOND, SMALL, Simulation, Told

SPACE = Model.first(SMALL).prediction_schema
PAUSE_S, TURNS = 0.1, 20
BRIEF_S = 1e-9
"""Tolerance for the round-off of added times."""


class SecondModel:
    """The client of the second model."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.draw = simulation, simulation.draw
        self._home: Member | None = None
        self._meta = ModelKeys(SECOND, "").meta

    async def run(self) -> None:
        """Learn and read at one replica as long as it lives: others would give the model work of its own."""
        for _ in range(TURNS):
            await self.simulation.pause(PAUSE_S)
            if self._home not in self.simulation.members:
                self._home = self.simulation.anyone(writes=True)
            if self._home is not None and self._home.started:
                try:
                    async with asyncio.timeout(ANSWER_S):
                        replica = await self._home.engine.models.get(SECOND)
                        await (self._read(replica) if self.draw.random() < 0.3 else self._learn(self._home, replica))
                except OnepassError:
                    continue
                except TimeoutError:
                    assert self._home.way.dead, "a request of the second model never got an answer"

    async def _read(self, replica: Replica) -> None:
        """The model is available at once unless a thread is learning it."""
        began = self._now()
        busy = self._threads_until(replica, replica.model) > began
        async with replica.held():
            assert busy or began == self._now(), f"a read of the second model waited {self._now() - began} s"

    async def _learn(self, home: Member, replica: Replica) -> None:
        number = 1000 + next(self.simulation.numbers)
        rows = Rows(SPACE.id, None, np.array([[np.sin(number)]]), np.array([float(number)]))
        trips, began, busy = len(home.way.trips), self._now(), home.at_work(replica)
        reply = await home.submit(replica, rows)
        told = Told(replica.incarnation, reply.answer.version, reply.answer)
        self.simulation.told_second.setdefault(anonymous(rows.y[0]), []).append(told)
        own = next((trip for trip in home.way.trips[trips:] if self._carries(trip)), None)
        if own is not None and not busy and self._is_plain(own) and not self._reads(home, began, own.begin):
            done = max(own.end or 0.0, self._threads_until(replica, replica.model))
            self._judge(home, own, max(began, self._threads_until(rows)), done)

    def _judge(self, home: Member, own: Trip, queued: float, done: float) -> None:
        """Encoded at ``queued``, it went with the next pipeline, and was answered once that was back and learned."""
        before = [trip for trip in home.way.trips if trip is not own and trip.begin <= queued < _free(trip)]
        under_way = [_free(trip) for trip in before if _commits(trip)]
        self.simulation.counts["second model judged"] += 1
        self.simulation.counts["second model waited"] += bool(under_way)
        late_s = own.begin - max([queued, *under_way])
        assert late_s <= BRIEF_S, f"the second model was sent {late_s} s late"
        late_s = self._now() - done
        assert late_s <= BRIEF_S, f"the second model was answered {late_s} s after its round trip"

    def _threads_until(self, *concerned: object) -> float:
        """When the last thread ends that has worked on any of these."""
        works = self.simulation.loop.works
        return max(
            (work.end for work in works if any(each is one for each in work.concerns for one in concerned)), default=0.0
        )

    def _carries(self, trip: Trip) -> bool:
        return any(call.script is APPEND and call.keys[0] == self._meta for call in trip.calls)

    def _reads(self, home: Member, began: float, sent: float) -> bool:
        """Whether the second model has read its log meanwhile, which is work of its own."""
        return any(
            call.script is READ_AFTER and call.keys[0] == self._meta
            for trip in home.way.trips
            if trip.begin <= sent and (trip.end is None or trip.end >= began)
            for call in trip.calls
        )

    def _is_plain(self, trip: Trip) -> bool:
        """Whether the store has answered that pipeline, and nothing else was written to this model meanwhile."""
        for call, reply in zip(trip.calls, trip.replies or (), strict=False):
            if call.script is APPEND and call.keys[0] == self._meta:
                return bool(reply[0] == b"ok" and reply[5] and not reply[7])
        return False

    def _now(self) -> float:
        return self.simulation.loop.time()


def _commits(trip: Trip) -> bool:
    return any(call.script in (APPEND, RECORD) for call in trip.calls)


def _free(trip: Trip) -> float:
    """When the next pipeline may follow this one: after a pause if it failed."""
    if trip.end is None:
        return math.inf
    return trip.end + (BACKOFF_S if trip.replies is None else 0.0)
