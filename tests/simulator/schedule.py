"""One schedule: some replicas, some clients, one store and its faults; then the verdict.

python -m tests.simulator.schedule SEED     runs one seed again and prints what happens
"""

import asyncio
import functools
import itertools
import logging
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest import mock

from service.errors import OnepassError
from service.monitor import orphaned_alarms, publisher
from service.runtime import backoff, engine
from service.runtime.replicas import follower
from tests.simulator.branches import Branches
from tests.simulator.changes import Changes
from tests.simulator.clients import Clients
from tests.simulator.clock import Loop
from tests.simulator.faults import Faults
from tests.simulator.network import Weather
from tests.simulator.second_model import SecondModel
from tests.simulator.simulation import ANSWER_S, FIRST, Setting, Simulation
from tests.simulator.verdict import Verdict

SWEEP_S = 0.4
LOOK_S = 0.3
"""The interval of the search for alarms of dead processes."""
CALM_S = 5.0
"""How long nothing is disturbed before the verdict: long enough for a probe, for sweeps that find what is missing
and what a snapshot covers, and for summaries, which a follower writes once no other replica has done so."""
THRESHOLDS = {
    "threads": {"THREAD_FLOPS": 0, "THREAD_BYTES": 0, "LITTLE_BYTES": 0},
    "merged": {"MERGED_ENTRIES_MAX": 3, "MERGED_BYTES_MAX": 400},
    "states": {"PIECE_BYTES": 2000, "LARGE_APPEND_BYTES": 300, "NAMED_BYTES": 200},
}
"""Constants of the service for three themes: when work leaves the event loop, how many entries are applied at once,
when values and appends are large."""

Event = Callable[[], Awaitable[None]]


class Schedule:
    """One run."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.draw = simulation, simulation.draw
        self.branches = Branches(simulation)
        self.clients = Clients(simulation)
        self.changes = Changes(simulation, self.clients)
        self.faults = Faults(simulation, self.clients, self.branches.heard)

    def events(self) -> dict[Event, float]:
        """The possible events, and the weight of each."""
        clients, changes, faults, themes = self.clients, self.changes, self.faults, self.simulation.setting.themes
        kinds: dict[Event, float] = {
            clients.feedback: 12, clients.anonymous: 5, clients.batch: 2, clients.reset: 0.5, clients.snapshot: 2,
            clients.read: 1.5, clients.look: 2.5, clients.outrun: 0.6,
            faults.leave: 1, faults.crash: 1, faults.stop: 0.3, faults.cut: 0.8, faults.note_older: 1,
            faults.failover: 0.6, faults.outage: 0.3, faults.cut_notices: 0.5, faults.recreate: 0.4, faults.join: 0.5,
        }  # fmt: skip
        themed: dict[str, dict[Event, float]] = {
            "alarms": {clients.drift: 14, faults.crash_alarmed: 4},
            "features": {changes.switch: 6, changes.switch_twice: 1.5, changes.overlap: 2},
            "states": {clients.snapshot: 4, changes.restore: 3, changes.export: 2, changes.import_: 2,
                       changes.configure: 3},
            "memory": {changes.visit: 8},
            "challengers": {changes.challenge: 8},
        }  # fmt: skip
        for theme, more in themed.items():
            kinds |= more if theme in themes else {}
        return kinds

    async def run(self) -> None:
        """Run all events, then the verdict."""
        draw, faults = self.draw, self.faults
        for _ in range(draw.choice((1, 2, 2, 3))):
            await faults.join()
        await faults.create()
        kinds = self.events()
        events = draw.choices([*kinds], [*kinds.values()], k=draw.randrange(6, 22))
        running = [
            asyncio.create_task(self._later(draw.uniform(0, draw.choice((0.1, 1.0))), event)) for event in events
        ]
        second = asyncio.create_task(SecondModel(self.simulation).run())
        await asyncio.gather(*running)
        second.cancel()
        with suppress(asyncio.CancelledError):
            await second
        await self._calm()
        await Verdict(self.simulation, self.clients).judge()

    async def _later(self, delay_s: float, event: Any) -> None:
        await asyncio.sleep(delay_s)
        self.simulation.counts[event.__name__] += 1
        await event()

    async def _calm(self) -> None:
        """Let the weather be fair and, in most schedules, load the first model everywhere; then wait.

        Without those loads, alarms left by a dead replica are found by the index alone.
        """
        world = self.simulation.world
        world.weather, world.up = Weather(), True
        if not self.simulation.members:
            await self.faults.join()
        alone = "alarms" in self.simulation.setting.themes and self.draw.random() < 0.5
        self.simulation.counts["calm without loads"] += alone
        for member in () if alone else self.simulation.members:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await member.engine.models.get(FIRST)
            except (OnepassError, TimeoutError) as error:
                self.simulation.say("not held by", member.number, repr(error))
        await asyncio.sleep(CALM_S)


@contextmanager
def _patched(setting: Setting, seed: int) -> Iterator[None]:
    """Patch the service's constants for a schedule."""
    numbers = itertools.count(1)
    with ExitStack() as stack:
        stack.enter_context(mock.patch("secrets.token_hex", side_effect=lambda _: f"{next(numbers):x}"))
        stack.enter_context(mock.patch.object(engine, "POLL_S", 1e9))
        stack.enter_context(mock.patch.object(engine, "refused_commands", mock.AsyncMock(return_value=[])))
        stack.enter_context(mock.patch.object(follower, "SWEEP_S", SWEEP_S))
        stack.enter_context(mock.patch.object(backoff, "random", random.Random(seed).random))
        stack.enter_context(mock.patch.object(publisher, "BACKOFF_S_MAX", SWEEP_S))
        stack.enter_context(mock.patch.object(orphaned_alarms, "LOOK_S", LOOK_S))
        for theme in sorted(setting.themes & THRESHOLDS.keys()):
            for module, threshold in _holders(theme):
                stack.enter_context(mock.patch.object(module, threshold, THRESHOLDS[theme][threshold]))
        yield


@functools.cache
def _holders(theme: str) -> list[tuple[Any, str]]:
    """The modules that define or import a threshold."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("service.")]
    return [(module, threshold) for threshold in THRESHOLDS[theme] for module in modules if hasattr(module, threshold)]


def play(seed: int, say: Callable[..., None] = lambda *_: None) -> Counter[str]:
    """Run one seed and count what happened; ``AssertionError``: a promise is broken."""
    draw = random.Random(seed)
    setting = Setting.drawn(draw)
    loop = Loop(draw, setting.thread_s)
    simulation = Simulation(loop, draw, setting, say)
    schedule = Schedule(simulation)
    with _patched(setting, seed), schedule.branches.watching():
        try:
            loop.run_until_complete(schedule.run())
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.close()
    return simulation.counts


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    print(play(int(sys.argv[1]), print))
