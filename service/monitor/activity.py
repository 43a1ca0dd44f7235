"""Which of the loaded models learn most: looked at whenever metrics are collected."""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from service.runtime.replica import Replica

HALF_LIFE_S = 600.0
"""Rows count half as much after so long: those shown should not change from one look to the next."""
STEP = 1000
"""Models looked at between two turns of the event loop's other tasks."""


class Gain(NamedTuple):
    """Rows and drift events of a model: all of them, or what it has gained between two looks."""

    rows: int
    drifts: int


class Activity:
    """The activity of the loaded models of one process."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, Gain, float]] = {}  # incarnation, all at the last look, rows learned, fading
        self._looked_at: float | None = None

    async def look(self, now: float, replicas: Collection[Replica]) -> dict[str, Gain]:
        """What each model has gained since the last look; nothing at the first one, or after a reset.

        Other tasks have their turn meanwhile; nobody else may look.

        Args:
            now: by any clock, in seconds.
            replicas: all that are loaded.
        """
        fades = 0.0 if self._looked_at is None else 2.0 ** (-(now - self._looked_at) / HALF_LIFE_S)
        self._looked_at, known, self._held = now, self._held, {}
        gains: dict[str, Gain] = {}
        for number, replica in enumerate(replicas, 1):
            if number % STEP == 0:
                await asyncio.sleep(0)
            total = Gain(replica.machine.rows, replica.machine.outbox.total)
            incarnation, before, activity = known.get(replica.name, ("", total, 0.0))
            if incarnation != replica.incarnation:
                before, activity = total, 0.0
            gain = Gain(max(0, total.rows - before.rows), max(0, total.drifts - before.drifts))
            self._held[replica.name] = replica.incarnation, total, fades * activity + gain.rows
            gains[replica.name] = gain
        return gains

    def most(self, count: int, names: Sequence[str]) -> list[str]:
        """The most active ones of some loaded models, in the order of their names."""
        ranked = sorted(names, key=lambda name: (-self._held[name][2], name))
        return sorted(ranked[:count])
