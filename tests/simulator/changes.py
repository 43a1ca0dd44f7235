"""What administrators do to the first model: change features and settings, restore and import states."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec.structs import replace

from core.entry import Configure, Overlap, Promote, Restore, Segment
from core.model import Model, save
from core.problems import Conflict, Invalid
from service.api.rows.idempotency import Identity, answer_if_seen
from service.errors import NotFound, OnepassError, RequestConflict
from service.runtime.engine import Freshness
from service.runtime.replicas import changes
from service.runtime.replicas.replica import Replica
from tests.simulator.clients import Clients, row
from tests.simulator.member import Member
from tests.simulator.simulation import ANSWER_S, FIRST, NAMES, RETRIES, THIRD, Simulation

SETTINGS = ({"missing": "mean"}, {"missing": "zero"}, {"missing": None}, {"tags": {"at": "one"}}, {"tags": None})
OTHER = {"algorithm": "rls", "promote": "auto"}
STEPS: tuple[Callable[[Model, tuple[str, ...]], Segment | None], ...] = (
    lambda model, ids: changes.challenge(model, lambda _: None, "other", OTHER, 2, ids),
    lambda model, ids: changes.challenge(model, lambda _: None, "third", {"algorithm": "dfop"}, 2, ids),
    lambda model, ids: Promote("other", ids, bool(ids)),  # without force the log decides
    lambda model, ids: changes.promote(model, "previous", ids, False),
    lambda model, ids: changes.withdraw(model, next(reversed(model.challengers), "third"), ids),
)
"""The requests about challengers."""


class Changes:
    """The administrators of the first model."""

    def __init__(self, simulation: Simulation, clients: Clients) -> None:
        self.simulation, self.draw, self.clients = simulation, simulation.draw, clients
        self._exported: list[bytes] = []

    # ---------------------------------------------------------------- features

    async def switch(self) -> None:
        """Take one step in a change of features, usually the next one."""
        await self._switch(self.draw.choice(("next", "next", "next", "abort", "abort", "abort", "begin")))

    async def switch_twice(self) -> None:
        """Two requests want the same step at the same moment: the log lets one of them have it."""
        await asyncio.gather(self._switch("next"), self._switch("next"))

    async def _switch(self, wanted: str) -> None:
        """Do what POST /models/{name}/features/switch does, and repeat it until there is an answer."""
        identity = f"s:{next(self.simulation.numbers)}"
        for _ in range(RETRIES):
            member = self.simulation.anyone(writes=True)
            if member is not None:
                try:
                    async with asyncio.timeout(ANSWER_S):
                        await self._step(member, wanted, identity)
                except (OnepassError, Conflict, Invalid) as error:
                    self.simulation.say("no switch by", member.number, repr(error))
                    if isinstance(error, Conflict | Invalid | RequestConflict):
                        return
                except TimeoutError:
                    assert member.way.dead, f"a switch sent to {member.number} never got an answer"
                else:
                    return
            await self.simulation.pause(0.1)

    async def _step(self, member: Member, wanted: str, identity: str) -> None:
        engine = member.engine
        replica = await engine.replica(FIRST, Freshness(strong=True))
        phase = replica.model.phase
        action: Any = ("complete" if phase == "overlap" else "begin") if wanted == "next" else wanted
        names = self.draw.sample(NAMES, 2) if action == "begin" else None
        try:
            segment = changes.switch(replica.model, engine.models.admit, action, names, None, action == "complete")
        except (Conflict, Invalid) as error:
            context: Any = SimpleNamespace(engine=engine)
            await answer_if_seen(context, replica, Identity((identity,), ("step",)), error)
            return
        await self.clients.send(member, replica, replace(segment, ids=(identity,)), ["step"])

    async def overlap(self) -> None:
        """Send rows of both spaces without labels."""
        numbers = [1000 + next(self.simulation.numbers) for _ in range(self.draw.choice((1, 3)))]
        ids = tuple(f"o:{number}" for number in numbers) if self.draw.random() < 0.5 else ()

        def rows(replica: Replica) -> Overlap | None:
            space = replica.model.feedback_schema
            if replica.model.phase != "overlap" or space is None:
                return None
            return Overlap(space.id, np.array([row(space.names, number) for number in numbers]), ids)

        await self.clients.commit(rows, ["overlap" for _ in ids], RETRIES if ids else 1)

    # ---------------------------------------------------------------- settings

    async def configure(self) -> None:
        """Send other settings, or those that the model already has."""
        asked, ids = self.draw.choice(SETTINGS), (f"k:{next(self.simulation.numbers)}",)
        ids = ids if self.draw.random() < 0.7 else ()

        def change(replica: Replica) -> Configure | None:
            return changes.configure(replica.model, lambda *_: None, asked, ids)

        await self.clients.commit(change, ["change" for _ in ids], RETRIES if ids else 1)

    async def challenge(self) -> None:
        """Add, withdraw or promote a challenger, if it is possible when the request arrives."""
        asked, ids = self.draw.choice(STEPS), (f"k:{next(self.simulation.numbers)}",)
        ids = ids if self.draw.random() < 0.7 else ()

        def change(replica: Replica) -> Segment | None:
            try:
                return asked(replica.model, ids)
            except (Conflict, NotFound):
                return None

        await self.clients.commit(change, ["challenge" for _ in ids], RETRIES if ids else 1)

    # ---------------------------------------------------------------- states

    async def restore(self) -> None:
        """Restore one of the kept snapshots."""
        member = self.simulation.anyone(writes=True)
        if member is None:
            return
        async with self.simulation.attempt("restore", member):
            replica = await member.engine.replica(FIRST)
            state = await self._kept(member, replica)
            if state is not None:
                await self.clients.send(member, replica, Restore(state, "restore"), [])

    async def _kept(self, member: Member, replica: Replica) -> bytes | None:
        snapshots = member.engine.store.snapshots
        kept = await snapshots.list(replica.name, replica.incarnation)
        if not kept:
            return None
        return bytes(await snapshots.read(replica.name, replica.incarnation, self.draw.choice(kept)))

    async def export(self) -> None:
        member = self.simulation.anyone()
        if member is None:
            return
        async with self.simulation.attempt("export", member):
            replica = await member.engine.replica(FIRST)
            async with replica.held():
                self._exported.append(bytes(await asyncio.to_thread(save.to_bytes, replica.model, {})))

    async def import_(self) -> None:
        """Import an exported state, whatever has been learned meanwhile."""
        member = self.simulation.anyone(writes=True)
        if member is None or not self._exported:
            return
        state = self.draw.choice(self._exported)
        async with self.simulation.attempt("import", member):
            replica = await member.engine.replica(FIRST)
            await self.clients.send(member, replica, Restore(state, "import"), [])

    # ---------------------------------------------------------------- other models

    async def visit(self) -> None:
        """Read the third model, which may evict another one."""
        member = self.simulation.anyone()
        if member is None:
            return
        async with self.simulation.attempt("visit", member):
            try:
                await member.engine.replica(THIRD)
            except NotFound:
                assert THIRD not in self.simulation.created, "a model is gone that no client deleted"
