"""Which of the loaded models learn most: looked at whenever metrics are collected."""

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from service.runtime.replica import Replica

HALF_LIFE_S = 600.0
"""Rows count half as much after so long: those shown should not change from one look to the next."""

STEP = 1000
"""Models looked at between two turns of the event loop's other tasks."""


class _Held(NamedTuple):
    """What is known of a loaded model.

    Attributes:
        incarnation: which one.
        rows, drifts: learned, and events, at the last look.
        activity: rows learned, fading.
    """

    incarnation: str
    rows: int
    drifts: int
    activity: float


class Gain(NamedTuple):
    """What a model has gained between two looks, while it was in memory: rows and drift events."""

    rows: int
    drifts: int


class Activity:
    """The activity of the loaded models of one process."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._looked_at: float | None = None

    async def look(self, now: float, replicas: Collection[Replica]) -> dict[str, Gain]:
        """What each model has gained since the last look; nothing at the first one, or after a reset.

        Other tasks have their turn meanwhile; nobody else may look.

        Args:
            now: by any clock, in seconds.
            replicas: all that are loaded.
        """
        fades = 0.0 if self._looked_at is None else 2.0 ** (-(now - self._looked_at) / HALF_LIFE_S)
        self._looked_at = now
        held: dict[str, _Held] = {}
        gains: dict[str, Gain] = {}
        for replica in replicas:
            if len(held) % STEP == STEP - 1:
                await asyncio.sleep(0)
            rows, drifts = replica.machine.rows, replica.machine.outbox.total
            before = self._held.get(replica.name)
            if before is None or before.incarnation != replica.incarnation:
                before = _Held(replica.incarnation, rows, drifts, 0.0)
            gain = Gain(max(0, rows - before.rows), max(0, drifts - before.drifts))
            held[replica.name] = _Held(replica.incarnation, rows, drifts, fades * before.activity + gain.rows)
            gains[replica.name] = gain
        self._held = held
        return gains

    def most(self, count: int, names: Sequence[str]) -> list[str]:
        """The most active ones of some loaded models, in the order of their names."""
        ranked = sorted(names, key=lambda name: (-self._held[name].activity, name))
        return sorted(ranked[:count])
