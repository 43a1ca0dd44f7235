"""The streams of the demo: seeded, endless, each with a concept that changes at known rows."""

import math
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any, NamedTuple

SEA_THETAS, SEA_STAGE_ROWS, SEA_NOISE = (5.0, 15.0, 7.0, 12.0), 700, 0.03
DIMENSIONS, TURN, JUMP_ROWS = 5, math.tau / 6000, 1000  # turn per row in radians; a jump is a quarter of a turn
FRAUDS, PATTERN_ROWS = 0.04, 1500
CARRIERS, ROLES_ROWS = ("north", "rail", "swift"), 600
HIDDEN_WEIGHTS = (-3.0, 2.0, 1.0, -0.5)  # of hidden quantities; each set of sensors shows a different mixture of them
BEGIN_ROW, OVERLAP_ROWS, LIFE_ROWS = 300, 150, 1500  # rows with the first sensors only, both sets, the later ones only


class Row(NamedTuple):
    """A row of a stream and its label."""

    features: dict[str, Any]
    label: str | float


def rows(stream: Callable[[Random, int], Row], seed: int) -> Iterator[Row]:
    """The rows of a stream, without end."""
    rng = Random(seed)
    return (stream(rng, number) for number in count())


def sea(rng: Random, number: int) -> Row:
    """Three numbers from 0 to 10, the third irrelevant; theta jumps. Street, Kim (KDD 2001)."""
    theta = SEA_THETAS[number // SEA_STAGE_ROWS % len(SEA_THETAS)]
    x = [round(rng.uniform(0.0, 10.0), 3) for _ in range(3)]
    below = (x[0] + x[1] <= theta) ^ (rng.random() < SEA_NOISE)
    return Row({f"x{at}": value for at, value in enumerate(x, 1)}, "below" if below else "above")


def hyperplane(rng: Random, number: int) -> Row:
    """Normal numbers; the boundary turns in the plane of the first two, and jumps. Hulten et al. (KDD 2001)."""
    angle = number * TURN + number // JUMP_ROWS * math.tau / 4
    x = [round(rng.gauss(0.0, 1.0), 3) for _ in range(DIMENSIONS)]
    score = math.cos(angle) * x[0] + math.sin(angle) * x[1] + 0.3 * x[2] + rng.gauss(0.0, 0.1)
    return Row({f"x{at}": value for at, value in enumerate(x, 1)}, "front" if score >= 0 else "back")


def sensor_names(generation: int) -> list[str]:
    """The sensors of a generation, counted from 0."""
    return [f"g{generation + 1}_s{at + 1}" for at in range(5 if generation else 4)]


def sensors(rng: Random, number: int) -> Row:
    """A heat demand; its sensors are replaced, but all show the same quantities, so old knowledge stays valid."""
    generation, at = divmod(number - BEGIN_ROW, OVERLAP_ROWS + LIFE_ROWS)
    hidden = [rng.gauss(0.0, 1.0) for _ in HIDDEN_WEIGHTS]
    demand = 60 + 5 * sum(w * h for w, h in zip(HIDDEN_WEIGHTS, hidden, strict=True)) + rng.gauss(0.0, 1.0)
    seen = {}
    for one in (generation, generation + 1) if at < OVERLAP_ROWS else (generation + 1,):
        mix = Random(one)  # depends on the sensors, not on the rows
        for name in sensor_names(one):
            seen[name] = round(sum(mix.gauss(0.0, 1.0) * h for h in hidden) + rng.gauss(0.0, 0.05), 3)
    return Row(seen, round(demand, 2))


def payments(rng: Random, number: int) -> Row:
    """A share of FRAUDS is fraud: in turn large sums at night, and many small ones by day from abroad."""
    fraud = rng.random() < FRAUDS
    amount, hour, abroad, per_hour = 40, 14.0, 0.05, 1.0
    if fraud and number // PATTERN_ROWS % 2 == 0:
        amount, hour, abroad, per_hour = 300, 2.5, 0.3, 1.5
    elif fraud:
        amount, hour, abroad, per_hour = 8, 13.0, 0.9, 9.0
    features = {
        "amount": round(rng.lognormvariate(math.log(amount), 0.7), 2),
        "hour": round(rng.gauss(hour, 3.0) % 24, 1),
        "per_hour": round(rng.expovariate(1 / per_hour), 2),
        "abroad": rng.random() < abroad,
    }
    return Row(features, "fraud" if fraud else "fine")


def parcels(rng: Random, number: int) -> Row:
    """Late on long distances and with the slow carrier, which changes every ROLES_ROWS rows."""
    at, distance = rng.randrange(len(CARRIERS)), round(rng.uniform(5, 900))
    express = rng.random() < 0.2
    slowness = (at + number // ROLES_ROWS) % len(CARRIERS) - 1
    delay = 1.8 * slowness + (distance - 450) / 250 + rng.gauss(0.0, 0.5)
    features = {"carrier": CARRIERS[at], "distance_km": distance, "express": express}
    return Row(features, "late" if delay > (2 if express else 0) else "in time")
