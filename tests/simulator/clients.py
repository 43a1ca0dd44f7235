"""What clients do to the first model: rows, reads, snapshots, resets."""

import asyncio
from typing import Any

import numpy as np

from core.entry import Promote, Reset, Restore, Rows, Segment, Withdraw
from core.model import save
from service.errors import ModelDown, OnepassError, RequestConflict
from service.runtime.commit.answerer import OTHER
from service.runtime.engine import Freshness
from service.runtime.replicas.replica import Replica, Reply
from tests.simulator.member import Member
from tests.simulator.network import TIMEOUT_S
from tests.simulator.simulation import ANSWER_S, FIRST, NAMES, RETRIES, Seen, Simulation, Told

SHIFT = 10.0
"""The distance by which the features of a drifting stream move back and forth."""
DRIFT_ROWS = 8
OUTRUN = 3
"""More snapshots than are kept."""


def anonymous(y: float) -> str:
    """The verdict's name for a row without an id: every such row has a different label."""
    return f"anonymous {y:g}"


def row(names: tuple[str, ...], number: int, shift: float = 0.0) -> list[float]:
    """The values of a row: a number always gives the same row, in any space."""
    return [float(np.sin((NAMES.index(name) + 1) * number)) + shift for name in names]


class Clients:
    """The clients of the first model."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.draw = simulation, simulation.draw
        self.ids = [f"i:{number}" for number in range(simulation.setting.ids)]
        self._shift = 0.0

    # ---------------------------------------------------------------- rows

    async def feedback(self) -> None:
        """Send one row with an id that may have been sent before."""
        await self._learn((self.draw.choice(self.ids),))

    async def batch(self) -> None:
        """Send several such rows, perhaps one of them twice."""
        await self._learn(tuple(self.draw.choices(self.ids, k=self.draw.choice((2, 3)))))

    async def anonymous(self, at: Member | None = None) -> None:
        """Send one row without an id, once."""
        await self._learn((), at=at)

    async def outrun(self) -> None:
        """One replica learns until the log is trimmed while the others get no notices; then all go on."""
        for line in [*self.simulation.world.lines]:
            line.cut()
        member = self.simulation.anyone(writes=True)
        for _ in range(OUTRUN):
            await self.anonymous(member)
            await self.snapshot(member)
        await asyncio.gather(*(self.anonymous() for _ in self.simulation.members))

    async def drift(self, at: Member | None = None) -> None:
        """Send rows from another place than those before."""
        self._shift = SHIFT - self._shift
        await self._learn((), DRIFT_ROWS, self._shift, at)

    async def _learn(self, ids: tuple[str, ...], count: int = 1, shift: float = 0.0, at: Member | None = None) -> None:
        if ids:
            numbers = [int(identity[2:]) for identity in ids]
        else:
            numbers = [1000 + next(self.simulation.numbers) for _ in range(count)]

        def rows(replica: Replica) -> Rows | None:
            return self.rows(replica, ids, numbers, shift)

        await self.commit(rows, [f"{number:g}" for number in numbers if ids], RETRIES if ids else 1, at)

    def rows(self, replica: Replica, ids: tuple[str, ...], numbers: list[int], shift: float = 0.0) -> Rows | None:
        """Rows of the space that the model currently accepts; None if it accepts none."""
        space = replica.model.feedback_schema
        if space is None:
            return None
        X = np.array([row(space.names, number, shift) for number in numbers])
        return Rows(space.id, None, X, np.array(numbers, dtype=np.float64), ids=ids)

    async def commit(self, segment_of: Any, digests: list[str], tries: int, at: Member | None = None) -> None:
        """Send a request until it is answered, or so many times, to a replica or to any.

        ``segment_of`` is called with a replica and returns what to send, or None; ``digests`` has one for each id.
        """
        for _ in range(tries):
            member = at or self.simulation.anyone(writes=True)
            if member is not None:
                try:
                    async with asyncio.timeout(ANSWER_S):
                        await self._send(member, segment_of, digests)
                except OnepassError as error:
                    self.simulation.say("refused by", member.number, repr(error))
                    if isinstance(error, ModelDown) and not self.simulation.cuts:
                        raise
                except TimeoutError:  # the replica has crashed: the client's connection broke
                    assert member.way.dead, f"a request to {member.number} never got an answer"
                else:
                    return
            await self.simulation.pause(0.1)

    async def _send(self, member: Member, segment_of: Any, digests: list[str]) -> None:
        replica = await member.engine.replica(FIRST)
        if self.draw.random() < 0.3:  # like a tracked row, which is looked up before it is queued
            await self.simulation.pause(0.05)
        segment = segment_of(replica)
        if isinstance(segment, Promote | Withdraw):
            await member.engine.snapshotter.guard(replica)
        if segment is not None:
            await self.send(member, replica, segment, digests)

    async def send(self, member: Member, replica: Replica, segment: Segment, digests: list[str]) -> None:
        """Commit a segment and record the client's answer or refusal; ``OnepassError``: its fate is unknown."""
        if isinstance(segment, Restore):
            self._acknowledge(member, replica, segment, await member.take_over(replica, segment.state, segment.source))
            return
        if member.engine.models.peek(FIRST) is not replica:
            self.simulation.counts["eviction race"] += 1
        try:
            reply = await member.submit(replica, segment, digests)
        except RequestConflict as error:
            refusal = error.detail
        else:
            self._acknowledge(member, replica, segment, reply)
            return
        assert OTHER not in refusal, "an id was confused with another one"
        if len(_keys(segment)) == 1:  # with several rows, some may have been learned before
            self._note(replica, segment, -1, refusal)

    def _acknowledge(self, member: Member, replica: Replica, segment: Segment, reply: Reply) -> None:
        said, held = reply.answer, member.engine.models.peek(FIRST)
        if held is not None and held.incarnation == replica.incarnation and not self.simulation.dropped:
            assert held.version >= said.version, "the replica that acknowledged a request does not have it"
        self.simulation.say("acknowledged by", member.number, segment.ids or type(segment).__name__, said.version)
        if isinstance(segment, Rows) and len(segment.X) > 1:
            for at, key in enumerate(_keys(segment)):
                self._tell(key, replica, -1, (said.predictions[at], said.losses[at]))
        else:
            self._note(replica, segment, said.version, said)

    def _note(self, replica: Replica, segment: Segment, version: int, outcome: Any) -> None:
        for key in _keys(segment) or ([f"{type(segment).__name__} {version}"] if version >= 0 else []):
            self._tell(key, replica, version, outcome)

    def _tell(self, key: str, replica: Replica, version: int, outcome: Any) -> None:
        self.simulation.told.setdefault(key, []).append(Told(replica.incarnation, version, outcome))

    # ---------------------------------------------------------------- other requests

    async def reset(self) -> None:
        await self.commit(lambda _: Reset(), [], 1)

    async def snapshot(self, at: Member | None = None) -> None:
        member = at or self.simulation.anyone()
        if member is not None:
            async with self.simulation.attempt("snapshot", member):
                replica = await member.engine.replica(FIRST)
                info = await member.engine.snapshotter.take(replica)
                self.simulation.say("snapshot by", member.number, info.version)

    async def read(self) -> None:
        """After a client was told a version, it reads at least that version at any replica, or gets an error."""
        member = self.simulation.anyone()
        known = [told for each in self.simulation.told.values() for told in each if told.version >= 0]
        if member is None or not known:
            return
        told = self.draw.choice(known)
        fresh = Freshness(told.version, strong=self.draw.random() < 0.5, incarnation=told.incarnation)
        try:
            async with asyncio.timeout(12 * TIMEOUT_S):
                replica = await member.engine.replica(FIRST, fresh)
        except (OnepassError, TimeoutError):
            return
        assert replica.version >= told.version or self.simulation.dropped or replica.gone, "a read that is not fresh"

    async def look(self) -> None:
        """Read from the model while it is held still; some reads take long, some take the whole state in a thread."""
        member = self.simulation.anyone()
        if member is None:
            return
        async with self.simulation.attempt("look", member):
            replica = await member.engine.replica(FIRST)
            async with replica.held():
                self.simulation.seen.append(await self._seen(replica))

    async def _seen(self, replica: Replica) -> Seen:
        version, uid, rows = replica.version, replica.uid, replica.model.rows
        kind, state = self.draw.randrange(3), None
        if kind == 1:
            await self.simulation.pause(0.3)
        elif kind == 2:
            state = await asyncio.to_thread(save.to_bytes, replica.model)
        now = (replica.version, replica.uid, replica.model.rows)
        assert (version, uid, rows) == now, "a model changed while it was held"
        return Seen(replica.incarnation, version, uid, rows, state)


def _keys(segment: Segment) -> list[str]:
    """The verdict's names for the rows of a request, or for the whole request."""
    if isinstance(segment, Rows) and not segment.ids:
        return [anonymous(y) for y in segment.y]
    return [*segment.ids]
