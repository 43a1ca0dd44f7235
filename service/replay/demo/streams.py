"""The streams of the demo: seeded, endless, each with a concept that changes at known rows.

A stream is an iterator of ``Row``; the same seed gives the same rows, whatever is done with them.

    sea          x1 + x2 <= theta, where theta jumps          Street, Kim (KDD 2001)
    hyperplane   w x >= 0, where w turns by a little each row    Hulten, Spencer, Domingos (KDD 2001)
    sensors      a heat demand seen by one set of sensors, later by another one
    payments     a few of them frauds, which change their pattern
    parcels      late or not, by carrier and distance; the carriers swap roles
"""

import math
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

SEA_THETAS = (5.0, 15.0, 7.0, 12.0)
SEA_STAGE_ROWS = 700
SEA_NOISE = 0.03
DIMENSIONS = 5
TURN = math.tau / 6000
"""How far the hyperplane turns in a row."""
JUMP_ROWS = 1000
"""Rows after which it jumps by a quarter of a turn."""
PATTERN_ROWS = 1500
"""Rows for which frauds keep their pattern."""
FRAUDS = 0.04
ROLES_ROWS = 600
"""Parcels after which the carriers swap their roles."""
CARRIERS = ("north", "rail", "swift")
OLD_SENSORS, NEW_SENSORS = 4, 5


class Row(NamedTuple):
    """A row of a stream.

    Attributes:
        features: values by name.
        label: what there is to learn.
    """

    features: dict[str, Any]
    label: str | float


def sea(seed: int) -> Iterator[Row]:
    """Three numbers from 0 to 10, of which the third one says nothing; theta jumps every SEA_STAGE_ROWS rows."""
    rng, number = Random(seed), 0
    while True:
        theta = SEA_THETAS[number // SEA_STAGE_ROWS % len(SEA_THETAS)]
        x = [round(rng.uniform(0.0, 10.0), 3) for _ in range(3)]
        below = (x[0] + x[1] <= theta) ^ (rng.random() < SEA_NOISE)
        yield Row({f"x{at}": value for at, value in enumerate(x, 1)}, "below" if below else "above")
        number += 1


def hyperplane(seed: int) -> Iterator[Row]:
    """Normal numbers; the boundary turns in the plane of the first two, and jumps every JUMP_ROWS rows."""
    rng, number = Random(seed), 0
    while True:
        angle = number * TURN + number // JUMP_ROWS * math.tau / 4
        x = [round(rng.gauss(0.0, 1.0), 3) for _ in range(DIMENSIONS)]
        score = math.cos(angle) * x[0] + math.sin(angle) * x[1] + 0.3 * x[2] + rng.gauss(0.0, 0.1)
        yield Row({f"x{at}": value for at, value in enumerate(x, 1)}, "front" if score >= 0 else "back")
        number += 1


class Sensors:
    """A heat demand, seen by sensors that are replaced again and again.

    Each set of sensors shows the same OLD_SENSORS hidden quantities, mixed and measured in another way; the demand
    depends on these alone, so that what was learned with one set holds for the next one.

    Args:
        seed: of every draw.
    """

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._weights = (-3.0, 2.0, 1.0, -0.5)
        self._mixes: list[list[list[float]]] = []

    def names(self, generation: int) -> list[str]:
        """The sensors of a generation, counted from 0."""
        return [f"g{generation + 1}_s{at + 1}" for at in range(NEW_SENSORS if generation else OLD_SENSORS)]

    def row(self, *generations: int) -> Row:
        """The next row, as the sensors of these generations see it."""
        rng = self._rng
        hidden = [rng.gauss(0.0, 1.0) for _ in range(OLD_SENSORS)]
        demand = 60 + 5 * sum(w * h for w, h in zip(self._weights, hidden, strict=True)) + rng.gauss(0.0, 1.0)
        seen = {name: value for one in generations for name, value in self._seen(one, hidden).items()}
        return Row(seen, round(demand, 2))

    def _seen(self, generation: int, hidden: list[float]) -> dict[str, float]:
        while len(self._mixes) <= generation:
            own = Random(len(self._mixes))  # of the sensors, not of the rows: the same whenever they are looked at
            size = len(self.names(len(self._mixes)))
            self._mixes.append([[own.gauss(0.0, 1.0) for _ in hidden] for _ in range(size)])
        mixed = [sum(w * h for w, h in zip(row, hidden, strict=True)) for row in self._mixes[generation]]
        return {
            name: round(value + self._rng.gauss(0.0, 0.05), 3)
            for name, value in zip(self.names(generation), mixed, strict=True)
        }


def payments(seed: int) -> Iterator[Row]:
    """A share of FRAUDS is fraud: large sums at night, later many small ones by day from abroad, and so on."""
    rng, number = Random(seed), 0
    while True:
        night = number // PATTERN_ROWS % 2 == 0
        fraud = rng.random() < FRAUDS
        if fraud:
            amount, hour, abroad = (300, 2.5, 0.3) if night else (8, 13, 0.9)
            per_hour = 1.5 if night else 9.0
        else:
            amount, hour, abroad, per_hour = 40, 14, 0.05, 1.0
        features = {
            "amount": round(rng.lognormvariate(math.log(amount), 0.7), 2),
            "hour": round(rng.gauss(hour, 3.0) % 24, 1),
            "per_hour": round(rng.expovariate(1 / per_hour), 2),
            "abroad": rng.random() < abroad,
        }
        yield Row(features, "fraud" if fraud else "fine")
        number += 1


def parcels(seed: int) -> Iterator[Row]:
    """Late with far ways and the slow carrier, which is another one after ROLES_ROWS rows."""
    rng, number = Random(seed), 0
    while True:
        turn = number // ROLES_ROWS
        slow = {carrier: (at + turn) % len(CARRIERS) for at, carrier in enumerate(CARRIERS)}
        carrier, distance = rng.choice(CARRIERS), round(rng.uniform(5, 900), 0)
        express = rng.random() < 0.2
        delay = 1.8 * (slow[carrier] - 1) + (distance - 450) / 250 + rng.gauss(0.0, 0.5)
        features = {"carrier": carrier, "distance_km": distance, "express": express}
        yield Row(features, "late" if delay > (2 if express else 0) else "in time")
        number += 1
