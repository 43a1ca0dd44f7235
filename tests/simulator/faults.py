"""Faults of the replicas and their store: crashes, evictions, outages, a store that goes back in time."""

import asyncio
from typing import Any

from service.errors import OnepassError
from service.store.keys import ModelKeys
from tests.simulator.clients import Clients
from tests.simulator.lua_store import Data
from tests.simulator.member import Member
from tests.simulator.network import TIMEOUT_S
from tests.simulator.serial import names_of
from tests.simulator.simulation import FIRST, RETRIES, Simulation

MEMBERS_MAX = 4


class Faults:
    """Everything that happens to the first model's replicas except requests.

    ``clients`` write immediately after the store has lost something; ``heard`` is called with every reply of the store.
    """

    def __init__(self, simulation: Simulation, clients: Clients, heard: Any) -> None:
        self.simulation, self.draw, self.clients, self._heard = simulation, simulation.draw, clients, heard
        self._older: Data | None = None

    # ---------------------------------------------------------------- replicas come and go

    async def join(self) -> None:
        """Add a replica; one in four only reads."""
        simulation = self.simulation
        if len(simulation.members) >= MEMBERS_MAX:
            return
        publishes, reads_only = (
            simulation.setting.on_drift is not None,
            bool(simulation.members) and self.draw.random() < 0.25,
        )
        of = next(simulation.numbers), simulation.world, simulation.bounds
        member = Member(*of, publishes=publishes, reads_only=reads_only, heard=self._heard)
        simulation.members.append(member)
        member.start()

    async def create(self) -> None:
        for name, config in self.simulation.configs.items():
            for member in self.simulation.members * RETRIES:
                try:
                    await member.engine.models.create(name, config)
                except OnepassError:
                    continue
                self.simulation.created.add(name)
                break

    async def crash(self) -> None:
        """One replica crashes in the middle of its work; usually another one takes its place."""
        await self._crash(self.simulation.anyone())

    async def crash_alarmed(self) -> None:
        """One replica crashes right after learning rows that may raise an alarm."""
        member = self.simulation.anyone(writes=True)
        await self.clients.drift(member)
        await self._crash(member)

    async def _crash(self, member: Member | None) -> None:
        if member not in self.simulation.members:
            return
        self.simulation.say("crash of", member.number)
        self.simulation.members.remove(member)
        member.crash()
        if self.draw.random() < 0.8:
            await self.simulation.pause(0.3)
            await self.join()

    async def stop(self) -> None:
        """One replica is told to stop and gets its grace period."""
        member = self.simulation.anyone()
        if member is None or len(self.simulation.members) < 2:
            return
        self.simulation.members.remove(member)
        began = self.simulation.loop.time()
        await member.stop()
        took_s = self.simulation.loop.time() - began
        assert took_s <= self.simulation.bounds.grace_s + TIMEOUT_S, f"{member.number} took {took_s} s to stop"

    async def leave(self) -> None:
        """Evict the model from one replica."""
        member = self.simulation.anyone()
        if member is not None:
            member.drop(FIRST)

    async def recreate(self) -> None:
        """Delete the model and create another one with its name."""
        member = self.simulation.anyone()
        if member is not None:
            try:
                async with asyncio.timeout(20 * TIMEOUT_S):
                    await member.engine.models.delete(FIRST)
                    await member.engine.models.create(FIRST, self.simulation.config)
            except (OnepassError, TimeoutError):
                return

    # ---------------------------------------------------------------- the store

    async def outage(self) -> None:
        """The store is unreachable for a while."""
        self.simulation.world.up = False
        await self.simulation.pause(3 * TIMEOUT_S)
        self.simulation.world.up = True

    async def cut_notices(self) -> None:
        """The connections for notices of appends break."""
        for line in [*self.simulation.world.lines]:
            line.cut()

    async def note_older(self) -> None:
        """Keep a copy of the data that a failover would return to."""
        self._older = self.simulation.world.store.data.copy()

    async def failover(self) -> None:
        """Learn some rows that the store loses at once."""
        await self.note_older()
        await asyncio.gather(*(self.clients.feedback() for _ in range(self.draw.randrange(1, 4))))
        await self.cut()

    async def cut(self) -> None:
        """The store goes back: to now, or to the kept copy; sometimes newer snapshots survive."""
        store = self.simulation.world.store
        if self._older is None:
            return
        now, store.data = store.data, self._older.copy()
        self._older = None
        self.simulation.cuts += 1
        self._reckon(now)
        meta = store.data.hashes.get(ModelKeys(FIRST, "").meta)
        self.simulation.say("cut back to", meta and meta[b"version"])
        if self.draw.random() < 0.3:
            self.simulation.torn = True  # no failover does this: entries that a snapshot rests on may be missing
            for key, held in now.hashes.items():
                if key.endswith(":snapshots") or ":chunks:" in key:
                    store.data.hashes.setdefault(key, {}).update(held)
        if self.draw.random() < 0.7:
            await self.cut_notices()
        if self.draw.random() < 0.7:
            await self._rewrite()

    async def _rewrite(self) -> None:
        """A replica without the lost entries writes at once: the others' tail is then not gone but replaced."""
        member = self.simulation.anyone(writes=True)
        if member is not None:
            member.drop(FIRST)
            for _ in range(self.draw.randrange(1, 6)):
                await self.clients.anonymous(member)
        await asyncio.gather(*(self.clients.anonymous() for _ in range(self.draw.randrange(1, 6))))

    def _reckon(self, before: Data) -> None:
        """Record which entries are lost, and which replicas had them."""
        after = self.simulation.world.store.data
        for key, entries in before.history.items():
            prefix, incarnation, _ = key.rsplit(":", 2)
            kept = after.history.get(key, {})
            lost = [version for version, fields in entries.items() if kept.get(version) != fields]
            for version in lost:
                names = names_of(version, entries[version], self.simulation.written)
                self.simulation.dropped.append((incarnation, version, names))
            if lost:
                self._owe(prefix.removeprefix("onepass:{").removesuffix("}"), incarnation, min(lost))

    def _owe(self, name: str, incarnation: str, first_lost: int) -> None:
        for member in self.simulation.members:
            replica = member.engine.models.peek(name)
            if replica is not None and replica.incarnation == incarnation and replica.version >= first_lost:
                self.simulation.counts["replicas ahead"] += 1
                before = [owed for owed in self.simulation.owed if owed[1] is replica]
                if not any((replica.version, replica.uid) == owed[3:] for owed in before):  # it may be noticing it now
                    known = member.engine.stats.lost_tails
                    self.simulation.owed.append((member, replica, known, replica.version, replica.uid))
