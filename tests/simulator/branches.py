"""The branches of the service that a schedule reaches, observed from outside: replies of the store and calls."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from core.contract import Buffer
from core.entry import Entry, Overlap, Restore, Rows
from core.model import Model, save
from service.runtime.replicas import batches
from service.runtime.replicas.loader import Loader
from service.runtime.replicas.replica import Replica
from service.store.drift import drift
from service.store.keys import ModelKeys
from service.store.log.appends import APPEND
from service.store.log.log import READ_AFTER
from service.store.redis.connection import Call
from service.store.states import snapshots, states
from service.store.states.states import States
from tests.simulator.member import Member
from tests.simulator.network import World
from tests.simulator.simulation import FIRST, Simulation

LARGE_WORK = ((batches, "apply"), (batches, "apply_merged"), (save, "to_bytes"))
"""Functions of core that take long for a large model, in the modules where the service uses them."""


class Branches:
    """Counts what the replicas of one schedule meet."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation, self._counts = simulation, simulation.counts
        self._world: World = simulation.world
        self._made: set[tuple[Any, ...]] = set()
        self._recognised: list[Any] = []
        self._call = self._world.store.call
        self._world.store.call = self._note  # type: ignore[method-assign]

    # ---------------------------------------------------------------- what the store says

    def heard(self, member: Member, call: Call, reply: Any) -> None:
        """Record a reply that has reached a replica."""
        if call.script in (APPEND, READ_AFTER):
            self._counts[reply[0].decode()] += 1
            if any(reply is one for one in self._recognised):
                self._counts["lost reply resent and recognised"] += 1
        elif call.script is states._PIECE:
            self._counts["state in several pieces"] += int(call.args[1]) == 1
        elif call.script is snapshots._PUBLISH:
            self._counts["snapshot that existed already"] += reply[0] == b"existed"
        elif call.script is drift._PUBLISH and reply[1]:
            self._note_events(member, call, reply[1])

    def _note(self, call: Call) -> Any:
        """Run a call on the store; count what it refuses as sent by a fenced writer, and retries that it recognises."""
        reply = self._call(call)
        if call.script is APPEND:
            self._counts["fenced by the store"] += reply[0] == b"fenced"
            if reply[0] == b"ok" and reply[3]:
                append = (call.keys[0], *call.args[3:5], reply[3])  # the writer, its sequence number, the version made
                if append in self._made:
                    self._recognised.append(reply)
                self._made.add(append)
        return reply

    def _note_events(self, member: Member, call: Call, added: int) -> None:
        """Count alarms that this replica was the first to publish, found in entries of another one."""
        incarnation = str(call.args[0]).split(" ")[1]
        history = self._world.store.data.history.get(ModelKeys(FIRST, incarnation).log, {})
        for reach in list(call.args[4::6])[-added:]:
            entry = history.get(int(str(reach).partition("-")[0]))
            writer = "" if entry is None else entry[1].decode().split(".")[0]
            self._counts["alarm published by another replica"] += writer not in ("", member.writer)

    # ---------------------------------------------------------------- what the service calls

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count calls of the service's own functions."""
        reload, counts = Loader.reload, self._counts

        async def counted_reload(loader: Loader, replica: Replica) -> None:
            counts["reload during flight" if Member.in_flight(replica) else "reload"] += 1
            await reload(loader, replica)

        write, written = States.write, self._simulation.written

        async def noted_write(states: States, name: str, incarnation: str, digest: str, state: Buffer) -> None:
            written[digest] = bytes(state)
            await write(states, name, incarnation, digest, state)

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(States, "write", noted_write))
            stack.enter_context(mock.patch.object(Loader, "reload", counted_reload))
            for place, name in LARGE_WORK:
                stack.enter_context(mock.patch.object(place, name, self._watched(name, getattr(place, name))))
            yield

    def _watched(self, name: str, inner: Any) -> Any:
        """Wrap a function to record whether it runs in a thread or on the loop."""

        def watched(model: Any, *args: Any) -> Any:
            place = "in a thread" if self._simulation.loop.in_thread else "on the loop"
            self._counts[f"{name} {place}"] += 1
            little = name == "apply" and _is_little(model, *args)
            if place == "on the loop" and not self._simulation.over and not little:
                self._simulation.on_loop.append(name)
            done = inner(model, *args)
            if name == "apply_merged":
                self._counts["entries merged"] += done[0] - args[1] > 1
            return done

        return watched


def _is_little(model: Model, entry: Entry) -> bool:
    """Whether an entry takes no time, however large the model is."""
    work = (Rows, Restore, Overlap) if model.phase == "overlap" else (Rows, Restore)
    return not any(isinstance(segment, work) for segment in entry.segments)
