"""One schedule: some replicas, some clients, one store, and what befalls them; then the verdict.

python -m tests.simulator.schedule SEED     runs one seed again, and says what happened in it
"""

import asyncio
import itertools
import logging
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from core.entry import Reset, Rows
from core.machine import Machine
from service.errors import ModelDown, OnepassError
from service.runtime import backoff, follower
from service.runtime import engine as engines
from service.runtime.committer import Limits
from service.runtime.engine import Bounds, Engine, Freshness
from service.runtime.loader import Store
from service.store.catalog import Catalog
from service.store.keys import ModelKeys
from service.store.log import Log
from service.store.snapshots import Snapshots
from service.store.states import States
from tests.simulator.clock import Loop
from tests.simulator.network import TIMEOUT_S, Way, Weather, World
from tests.simulator.verdict import CONFIG, NAME, Verdict, ids_of

SPACE = Machine(CONFIG).prediction_schema.id
RETRIES = 6
SWEEP_S = 0.4
CALM_S = 1.1
"""How long everything is left in peace before the verdict: for two sweeps and a probe."""
BOUNDS = Bounds(
    committer=Limits(64, 8, id_ttl_ms=10**9, ids_max=10**6, read_bytes_max=500, timeout_s=TIMEOUT_S),
    budget_bytes=2**30,
    model_bytes_max=2**30,
    body_bytes_max=2**20,
    batch_rows_max=100,
    batch_ids_max=100,
    prediction_ttl_ms=10**6,
    pending_max=100,
    wait_timeout_s=0.5,
    grace_s=1.0,
    snapshots_kept=2,
    snapshot_min_bytes=10**9,
)  # fmt: skip


@dataclass(eq=False)
class Member:
    """One replica of the service."""

    number: int
    engine: Engine
    way: Way


@dataclass
class Told:
    """An acknowledgement: what a client has been told of an id, and of which incarnation."""

    incarnation: str
    version: int
    answer: tuple[Any, ...]


@dataclass
class Schedule(Verdict):
    """A run.

    Args:
        seed: decides all of it.
        say: told what happens, for a person.

    Attributes:
        told: id -> acknowledgements.
        dropped: (incarnation, version, ids) of every entry that the store has lost.
        counts: what has happened, by kind.
    """

    seed: int
    loop: Loop
    say: Any = lambda *_: None
    told: dict[str, list[Told]] = field(default_factory=dict)
    dropped: list[tuple[str, int, frozenset[str]]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.world = World(self.loop, self.draw, Weather.drawn(self.draw))
        self.members: list[Member] = []
        self.owed: list[tuple[Member, Any, int, int, str]] = []
        self._numbers = itertools.count()
        self._ids = [f"i:{number}" for number in range(self.draw.choice((4, 30)))]
        self._older: Any = None
        self._torn = False
        self._starting: list[asyncio.Task[None]] = []

    # ---------------------------------------------------------------- the run

    async def run(self) -> None:
        """Everything, and the verdict."""
        draw = self.draw
        for _ in range(draw.choice((1, 2, 2, 3))):
            await self._join()
        await self._create()
        events = [self._event() for _ in range(draw.randrange(6, 20))]
        running = [
            asyncio.create_task(self._later(draw.uniform(0, draw.choice((0.1, 1.0))), event)) for event in events
        ]
        await asyncio.gather(*running)
        self.world.weather, self.world.up = Weather(), True
        if not self.members:
            await self._join()
        await self._hear()
        await asyncio.sleep(CALM_S)
        await self.judge()

    async def _hear(self) -> None:
        """Every replica holds the model when the calm begins."""
        for member in self.members:
            try:
                await member.engine.models.get(NAME)
            except (OnepassError, TimeoutError) as error:
                self.say("not held by", member.number, repr(error))

    async def _later(self, delay_s: float, event: Any) -> None:
        await asyncio.sleep(delay_s)
        self.counts[event.__name__] += 1
        await event()

    def _event(self) -> Any:
        kinds = {
            self._feedback: 12,
            self._anonymous: 5,
            self._batch: 2,
            self._reset: 0.5,
            self._snapshot: 2,
            self._read: 1.5,
            self._leave: 1,
            self._crash: 1,
            self._cut: 1.2,
            self._note_older: 1.5,
            self._outage: 0.3,
            self._cut_notices: 0.5,
            self._recreate: 0.15,
            self._join: 0.5,
        }
        return self.draw.choices([*kinds], [*kinds.values()])[0]

    # ---------------------------------------------------------------- what clients do

    def _anyone(self) -> Member | None:
        return self.draw.choice(self.members) if self.members else None

    async def _create(self) -> None:
        for member in self.members * RETRIES:
            try:
                await member.engine.models.create(NAME, CONFIG)
            except OnepassError:
                continue
            return

    def _rows(self, ids: tuple[str, ...], count: int = 1) -> Rows:
        """The same id is always the same row; rows without one are all different."""
        seeds = [int(i[2:]) if i else 1000 + next(self._numbers) for i in (ids or ("",) * count)]
        X = np.array([[np.sin(seed), np.cos(3 * seed)] for seed in seeds])
        return Rows(SPACE, None, X, np.array([float(seed) for seed in seeds]), ids=ids)

    async def _feedback(self) -> None:
        await self._learn(self._rows((self.draw.choice(self._ids),)), RETRIES)

    async def _batch(self) -> None:
        await self._learn(self._rows(tuple(self.draw.choices(self._ids, k=self.draw.choice((2, 3))))), RETRIES)

    async def _anonymous(self) -> None:
        await self._learn(self._rows((), 1), 1)

    async def _learn(self, rows: Rows, tries: int) -> None:
        for _ in range(tries):
            member = self._anyone()
            if member is not None:
                try:
                    async with asyncio.timeout(8 * TIMEOUT_S):
                        replica = await member.engine.replica(NAME)
                        reply = await replica.inbox.submit(rows, [f"{y:g}" for y in rows.y if rows.ids])
                except OnepassError as error:
                    self.say("refused by", member.number, rows.ids, repr(error))
                    if isinstance(error, ModelDown) and not self.dropped:
                        raise
                except TimeoutError:  # it crashed meanwhile: a client whose connection broke
                    assert member.way.dead, f"a request to {member.number} was never answered"
                else:
                    self._acknowledge(member, replica.incarnation, rows, reply)
                    return
            await asyncio.sleep(self.draw.uniform(0, 0.1))

    def _acknowledge(self, member: Member, incarnation: str, rows: Rows, reply: Any) -> None:
        self.say("acknowledged by", member.number, rows.ids, "version", reply.answer.version)
        if len(rows.ids) == 1:
            answer = (reply.answer.predictions[0], reply.answer.losses[0], reply.answer.version, reply.answer.rows)
            self.told.setdefault(rows.ids[0], []).append(Told(incarnation, reply.answer.version, answer))
        for identity in rows.ids if len(rows.ids) > 1 else ():
            self.told.setdefault(identity, []).append(Told(incarnation, -1, ()))

    async def _reset(self) -> None:
        member = self._anyone()
        if member is not None:
            try:
                async with asyncio.timeout(8 * TIMEOUT_S):
                    await (await member.engine.replica(NAME)).inbox.submit(Reset())
            except (OnepassError, TimeoutError):
                return

    async def _snapshot(self) -> None:
        member = self._anyone()
        if member is not None:
            try:
                async with asyncio.timeout(8 * TIMEOUT_S):
                    replica = await member.engine.replica(NAME)
                    info = await member.engine.snapshotter.take(replica)
                    self.say("snapshot by", member.number, info.version)
            except (OnepassError, TimeoutError):
                return

    async def _read(self) -> None:
        """Whoever was told a version reads at least that version anywhere, or is told that it cannot be."""
        member = self._anyone()
        known = [told for each in self.told.values() for told in each if told.version >= 0]
        if member is None or not known:
            return
        told = self.draw.choice(known)
        fresh = Freshness(told.version, strong=self.draw.random() < 0.5, incarnation=told.incarnation)
        try:
            async with asyncio.timeout(12 * TIMEOUT_S):
                replica = await member.engine.replica(NAME, fresh)
        except (OnepassError, TimeoutError):
            return
        assert replica.version >= told.version or self.dropped or replica.gone, "a read that is not fresh"

    # ---------------------------------------------------------------- what befalls them

    async def _join(self) -> None:
        if len(self.members) >= 4:
            return
        way = Way(self.world)
        made: Any = way
        engine = Engine(Store(made, Log(made), Catalog(made), Snapshots(made), States(made)), BOUNDS)
        self.members.append(Member(next(self._numbers), engine, way))
        self._starting.append(asyncio.create_task(engine.start()))  # it may crash before it has started

    async def _crash(self) -> None:
        member = self._anyone()
        if member is None:
            return
        self.say("crash of", member.number)
        self.members.remove(member)
        member.way.dead = True
        for task in member.engine._tasks.values():
            task.cancel()
        if self.draw.random() < 0.8:
            await asyncio.sleep(self.draw.uniform(0, 0.3))
            await self._join()

    async def _leave(self) -> None:
        """The model leaves one memory."""
        member = self._anyone()
        replica = member and member.engine.models.peek(NAME)
        if member is not None and replica is not None and replica.idle:
            member.engine.models._drop(NAME)

    async def _outage(self) -> None:
        self.world.up = False
        await asyncio.sleep(self.draw.uniform(0, 3) * TIMEOUT_S)
        self.world.up = True

    async def _cut_notices(self) -> None:
        for line in [*self.world.lines]:
            line.cut()

    async def _note_older(self) -> None:
        """What a failover would go back to."""
        self._older = self.world.scripts.data.copy()

    async def _cut(self) -> None:
        """The store goes back: at once, or to what was noted; now and then newer snapshots stay behind."""
        scripts = self.world.scripts
        if self._older is None:
            return
        now, scripts.data = scripts.data, self._older.copy()
        self._older = None
        self._reckon(now)
        meta = scripts.data.hashes.get(ModelKeys(NAME, "").meta)
        self.say("cut back to", meta and meta[b"version"])
        if self.draw.random() < 0.3:
            self._torn = True  # no failover does this: what a snapshot rests on may be missing, and has to be missed
            for key, held in now.hashes.items():
                if key.endswith(":snapshots") or ":chunks:" in key:
                    scripts.data.hashes.setdefault(key, {}).update(held)
        if self.draw.random() < 0.7:
            await self._cut_notices()
        if self.draw.random() < 0.7:
            await self._rewrite()

    async def _rewrite(self) -> None:
        """Somebody who had nothing of what is lost writes on at once: the others' tail is not gone, but another one."""
        await self._leave()
        await asyncio.gather(*(self._learn(self._rows((), 1), 1) for _ in range(self.draw.randrange(1, 6))))

    def _reckon(self, before: Any) -> None:
        """Note which entries are gone, and who had them."""
        after = self.world.scripts.data
        for key, entries in before.history.items():
            incarnation = key.rsplit(":", 2)[1]
            kept = after.history.get(key, {})
            lost = [v for v, fields in entries.items() if kept.get(v) != fields]
            for version in lost:
                self.dropped.append((incarnation, version, ids_of(version, entries[version])))
            if lost:
                for member in self.members:
                    replica = member.engine.models.peek(NAME)
                    if replica is not None and replica.incarnation == incarnation and replica.version >= min(lost):
                        self.counts["replicas-ahead"] += 1
                        before = member.engine.stats.lost_tails
                        self.owed.append((member, replica, before, replica.version, replica.uid))

    async def _recreate(self) -> None:
        member = self._anyone()
        if member is not None:
            try:
                async with asyncio.timeout(20 * TIMEOUT_S):
                    await member.engine.models.delete(NAME)
                    await member.engine.models.create(NAME, CONFIG)
            except (OnepassError, TimeoutError):
                return


def play(seed: int, say: Any = lambda *_: None) -> Counter[str]:
    """Run one seed; what happened in it.

    Raises:
        AssertionError: a promise is broken.
    """
    numbers = itertools.count(1)
    loop = Loop()
    schedule = Schedule(seed, loop, say)
    names = mock.patch("secrets.token_hex", side_effect=lambda _: f"{next(numbers):x}")
    slow, quick = mock.patch.object(engines, "POLL_S", 1e9), mock.patch.object(follower, "SWEEP_S", SWEEP_S)
    pauses = mock.patch.object(backoff, "_chance", random.Random(seed))
    with names, slow, quick, pauses:
        try:
            loop.run_until_complete(schedule.run())
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.close()
    return schedule.counts


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    print(play(int(sys.argv[1]), print))
