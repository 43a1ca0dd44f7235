"""Which branches of the service a schedule has reached, seen from outside: what the store answers, what is called."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from core.entry import Entry
from core.machine import Machine
from service.runtime.loader import Loader
from service.runtime.replica import Replica
from service.store import drift, snapshots, states
from service.store.keys import ModelKeys
from service.store.redis.connection import Call
from service.store.scripts import APPEND, READ_AFTER
from tests.simulator.drift_scripts import place
from tests.simulator.member import Member
from tests.simulator.network import World
from tests.simulator.script_parts import Args
from tests.simulator.simulation import FIRST, Simulation


class Branches:
    """Counts what the replicas of one schedule come across.

    Args:
        simulation: whose counts.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._counts: Counter[str] = simulation.counts
        self._world: World = simulation.world
        self._recognised: list[Any] = []
        scripts = self._world.scripts
        self._told_again, self._append = scripts._told_again, scripts._known[APPEND]
        scripts._told_again = self._recognise  # type: ignore[method-assign]
        scripts._known[APPEND] = self._note_append

    # ---------------------------------------------------------------- what the store says

    def heard(self, member: Member, call: Call, reply: Any) -> None:
        """Note an answer that has reached a replica."""
        if call.script in (APPEND, READ_AFTER):
            self._counts[reply[0].decode()] += 1
            if any(reply is one for one in self._recognised):
                self._counts["lost reply resent and recognised"] += 1
        elif call.script is states._PIECE:
            self._counts["state in several pieces"] += int(call.args[1]) == 1
        elif call.script is snapshots._PUBLISH:
            self._counts["snapshot that existed already"] += reply[0] == b"existed"
        elif call.script is drift._TO_SERVICE and reply[1]:
            self._note_events(member, call, reply[1])

    def _recognise(self, *args: Any) -> Any:
        reply = self._told_again(*args)
        self._recognised.append(reply)
        return reply

    def _note_append(self, keys: Sequence[str], args: Args) -> Any:
        """A packet of the past is refused by the store, when nobody waits for the answer any more."""
        reply = self._append(keys, args)
        self._counts["fenced by the store"] += reply[0] == b"fenced"
        return reply

    def _note_events(self, member: Member, call: Call, added: int) -> None:
        """Whose entries the alarms were found in that this replica was the first to publish."""
        incarnation = str(call.args[0]).split(" ")[1]
        history = self._world.scripts.data.history.get(ModelKeys(FIRST, incarnation).log, {})
        for at in list(call.args[4::4])[-added:]:
            entry = history.get(place(str(at).encode())[0])
            writer = "" if entry is None else entry[1].decode().split(".")[0]
            self._counts["alarm published by another replica"] += writer not in ("", member.writer)

    # ---------------------------------------------------------------- what the service calls

    @contextmanager
    def watching(self, simulation: Simulation) -> Iterator[None]:
        """Count calls of the service's own functions."""
        counts, loop, apply, reload = self._counts, simulation.loop, Machine.apply, Loader.reload

        def counted_apply(machine: Machine, entry: Entry) -> Any:
            counts["apply in a thread" if loop.in_thread else "apply on the loop"] += 1
            return apply(machine, entry)

        async def counted_reload(loader: Loader, replica: Replica) -> None:
            counts["reload during flight" if Member.in_flight(replica) else "reload"] += 1
            await reload(loader, replica)

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(Machine, "apply", counted_apply))
            stack.enter_context(mock.patch.object(Loader, "reload", counted_reload))
            yield
