"""Challengers: what they cost, and when they are promoted: ``python -m tests.benchmarks.challengers [--runs N]``.

Three tables:

    cost       microseconds of CPU time per row of ten columns of a model with 0, 1 and 4 challengers of its own kind,
               one row an entry and 1000 rows an entry, beside so many models by themselves; medians over rounds
    power      rows until a challenger is promoted that is 2 points better and disagrees on 4 % of the rows, with the
               sequence in use and with others, at their confidence of 95 % (independent rows, batches left out); the
               last line is what is in use, batches and first rows included
    equal      runs of 20 000 rows in which a model loses its place to a challenger that is as good: another seed,
               another scale, a rate that differs by one per cent; on streams with a change of concept in the middle,
               and on one whose rows resemble those before them. And runs of simulated losses that keep their sign
"""

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from statistics import median
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats
from core.entry import Entry, Rows
from core.metrics.confidence_sequence import exceeds
from core.metrics.difference import Difference
from core.model import Model, plans
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks.drift_streams import DRIFTS

COLUMNS, ROUNDS, WARM_ROWS, TIMED_ROWS = 10, 7, 1000, 2000
NUMBERS = (0, 1, 4)
LEARNER = {"algorithm": "dfop", "task": "classification", "params": {"forgetting_rate": 0.01}}
UP, DOWN, POWER_ROWS = 0.03, 0.01, 6000
EQUAL_ROWS, BLOCK = 20_000, 1000
PAIRS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"algorithm": "auto"}, {"algorithm": "auto", "seed": 1}),
    ({"algorithm": "dfop"}, {"algorithm": "dfop", "params": {"scaling": "standard"}}),
    (
        {"algorithm": "dfop", "params": {"forgetting_rate": 0.01}},
        {"algorithm": "dfop", "params": {"forgetting_rate": 0.0101}},
    ),
    (
        {"algorithm": "dynamic_odm", "params": {"random_features": 256}},
        {"algorithm": "dynamic_odm", "params": {"random_features": 256}, "seed": 1},
    ),
)
"""Models, and challengers that are as good."""
STREAMS = ("SEA 8 -> 7", "hyperplane swap", "rotation 45", "new tree")
ALPHA = 0.05


# ------------------------------------------------------------------------------------------------ cost


def machine(body: dict[str, Any], columns: int, challengers: int = 0) -> Model:
    """A model of two classes with challengers of its own kind, that differ in their seeds."""
    labels = {"features": [f"x{at}" for at in range(columns)]}
    found = Model.first(Config.parse({**body, **labels}))
    own = {"algorithm": body["algorithm"], "params": body["params"]}
    for at in range(challengers):
        segment, _ = plans.plan_challenge(found, f"c{at}", {**own, "seed": at + 1}, challengers)
        assert segment is not None
        apply(found, Entry(at + 1, 0, (segment,)))
    return found


def entries(model: Model, X: Floats, y: list[str], size: int) -> list[Entry]:
    """Rows as entries of so many each."""
    space = model.feedback_schema
    assert space is not None
    starts = range(0, len(X), size)
    return [Entry(at + 100, 0, (Rows(space.id, None, X[at : at + size], y[at : at + size]),)) for at in starts]


def cost() -> None:
    """Models with challengers beside models by themselves, in turns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(WARM_ROWS + TIMED_ROWS, COLUMNS))
    y = ["u" if x[0] > 0 else "v" for x in X]
    print("us per row                     " + "".join(f"{number:>14} challengers" for number in NUMBERS))
    for size in (1, 1000):
        taken: dict[tuple[int, bool], list[float]] = {}
        for _ in range(ROUNDS):
            for number in NUMBERS:
                for together in (True, False):
                    models = [machine(LEARNER, COLUMNS, number)] if together else []
                    models = models or [machine(LEARNER, COLUMNS) for _ in range(number + 1)]
                    taken.setdefault((number, together), []).append(sum(timed(one, X, y, size) for one in models))
        for together, what in ((True, "one model"), (False, "as many models")):
            cells = "".join(f"{median(taken[number, together]):26.2f}" for number in NUMBERS)
            print(f"{size:5} rows, {what:18}{cells}")


def timed(model: Model, X: Floats, y: list[str], size: int) -> float:
    """Microseconds of CPU time per row."""
    for entry in entries(model, X[:WARM_ROWS], y[:WARM_ROWS], 1000):
        apply(model, entry)
    timed_entries = entries(model, X[WARM_ROWS:], y[WARM_ROWS:], size)
    began = time.process_time()
    for entry in timed_entries:
        apply(model, entry)
    return (time.process_time() - began) / TIMED_ROWS * 1e6


# ------------------------------------------------------------------------------------------------ power


def differences(rng: np.random.Generator, rows: int, up: float, down: float) -> Floats:
    """Independent differences of losses: 1 and -1 with these probabilities, else 0."""
    drawn = rng.random(rows)
    return np.where(drawn < up, 1.0, np.where(drawn < up + down, -1.0, 0.0))


def mixture(d: Floats) -> Floats:
    """Whether the sequence in use leaves 0 after each row."""
    S, V = d.cumsum(), (d * d).cumsum()
    return np.array([exceeds(s, v) for s, v in zip(S, V, strict=True)])


def stitched(d: Floats) -> Floats:
    """Polynomial stitching (Howard et al. 2021, equation 10): eta 2, s 1.4, from V = 1 on, c = 1."""
    S, V = d.cumsum(), np.maximum((d * d).cumsum(), 1.0)
    zeta = sum(k**-1.4 for k in range(1, 10**5))
    ell = 1.4 * np.log(np.log(2.0 * V)) + np.log(2.0 * zeta / (ALPHA * np.log(2.0) ** 1.4))
    k1, k2 = (2.0**0.25 + 2.0**-0.25) / np.sqrt(2.0), (np.sqrt(2.0) + 1.0) / 2.0
    return S > np.sqrt(k1**2 * V * ell + k2**2 * ell**2) + k2 * ell


def _moments(d: Floats) -> tuple[Floats, Floats]:
    """Mean and variance before each row, of all earlier ones and a prior one."""
    n = np.arange(1, len(d) + 1)
    mean = np.concatenate([[0.0], d.cumsum()[:-1] / n[1:]])
    variance = np.concatenate([[0.25], (0.25 + ((d - mean) ** 2).cumsum()[:-1]) / n[1:]])
    return mean, variance


def empirical_bernstein(d: Floats) -> Floats:
    """Predictable plug-in empirical Bernstein (Waudby-Smith, Ramdas 2024, theorem 2), rows in [0, 1]."""
    x = 0.5 * (d + 1.0)
    mean, variance = _moments(d)
    mean, variance, t = 0.5 * (mean + 1.0), 0.25 * variance, np.arange(1, len(d) + 1)
    rate = np.minimum(np.sqrt(2.0 * np.log(2.0 / ALPHA) / (variance * t * np.log(1.0 + t))), 0.5)
    psi = 4.0 * (x - mean) ** 2 * (-np.log(1.0 - rate) - rate) / 4.0
    low = ((rate * x).cumsum() - np.log(2.0 / ALPHA) - psi.cumsum()) / rate.cumsum()
    return low > 0.5


def betting(d: Floats) -> Floats:
    """Capital of a bettor on a mean above 0 (the same, approximate GRAPA), at half of alpha."""
    mean, variance = _moments(d)
    rate = np.clip(mean / (variance + mean**2), 0.0, 0.75)
    return np.maximum.accumulate(np.log1p(rate * d).cumsum()) >= np.log(2.0 / ALPHA)


SEQUENCES: dict[str, Callable[[Floats], Floats]] = {
    "gamma-exponential mixture": mixture,
    "polynomial stitching": stitched,
    "plug-in empirical Bernstein": empirical_bernstein,
    "betting, approximate GRAPA": betting,
}


def promoted_at(d: Floats) -> int:
    """The row at which a challenger of these differences is promoted; one more than there are for never."""
    found = Difference()
    for row in range(0, len(d), 100):
        part = d[row : row + 100]
        found.absorb(np.maximum(part, 0.0), np.maximum(-part, 0.0))
        if found.favours_second():
            return row + 100
    return len(d) + 1


def power(runs: int) -> None:
    """Rows until a better challenger is found, and runs in which an equal one is."""
    rng = np.random.default_rng(1)
    better = [differences(rng, POWER_ROWS, UP, DOWN) for _ in range(runs)]
    equal = [differences(rng, POWER_ROWS, 0.02, 0.02) for _ in range(runs)]
    print(f"\nrows until promoted, median and 90 % of {runs} runs; equal ones within {POWER_ROWS} rows")
    for name, leaves in SEQUENCES.items():
        rows = sorted(int(left.argmax()) + 1 if (left := leaves(d)).any() else POWER_ROWS + 1 for d in better)
        print(f"{name:30}{median(rows):8.0f}{rows[int(0.9 * runs)]:8}{sum(leaves(d).any() for d in equal):6}")
    rows = sorted(map(promoted_at, better))
    wrong = sum(promoted_at(d) <= POWER_ROWS for d in equal)
    print(f"{'as it is in use':30}{median(rows):8.0f}{rows[int(0.9 * runs)]:8}{wrong:6}")


# ------------------------------------------------------------------------------------------------ equal learners


def resembling(rng: np.random.Generator) -> tuple[Floats, list[str]]:
    """Rows that resemble those before them (AR(1), .95), with noise in one label of ten."""
    X = rng.normal(size=(EQUAL_ROWS, 3))
    for row in range(1, EQUAL_ROWS):
        X[row] = 0.95 * X[row - 1] + 0.31 * X[row]
    sides = (X[:, 0] * X[:, 1] + X[:, 2] > 0) ^ (rng.random(EQUAL_ROWS) < 0.1)
    return X, ["uv"[int(side)] for side in sides]


def changing(name: str) -> Callable[[np.random.Generator], tuple[Floats, list[str]]]:
    """A stream whose concept changes in the middle."""

    def draw(rng: np.random.Generator) -> tuple[Floats, list[str]]:
        concept, half = DRIFTS[name](rng), EQUAL_ROWS // 2
        parts = [concept(rng, half, after) for after in (False, True)]
        return np.vstack([X for X, _ in parts]), [f"c{k}" for _, y in parts for k in y]

    return draw


def _made(runs: int) -> Iterator[tuple[str, Floats, list[str]]]:
    rng = np.random.default_rng(2)
    draws = {**{name: changing(name) for name in STREAMS}, "resembling": resembling}
    for name, draw in islice(cycle(draws.items()), runs):
        yield name, *draw(rng)


def equal(runs: int) -> None:
    """Models and challengers that are as good, on every stream in turn."""
    promoted: dict[str, list[bool]] = {}
    for run, (name, X, y) in enumerate(_made(runs)):
        own, other = PAIRS[run // (len(STREAMS) + 1) % len(PAIRS)]
        body = {**own, "task": "classification", "features": [f"x{at}" for at in range(X.shape[1])]}
        model = Model.first(Config.parse(body))
        segment, _ = plans.plan_challenge(model, "other", {**other, "promote": "auto"}, 1)
        assert segment is not None
        apply(model, Entry(1, 0, (segment,)))
        for entry in entries(model, np.ascontiguousarray(X), y, BLOCK):
            apply(model, entry)
        promoted.setdefault(name, []).append("previous" in model.challengers)
    print(f"\nequal learners promoted within {EQUAL_ROWS} rows, of all runs")
    for name, found in promoted.items():
        print(f"{name:30}{sum(found):4} of {len(found)}")
    print(f"{'all':30}{sum(map(sum, promoted.values())):4} of {runs}")


def keeping_sign(runs: int) -> None:
    """Simulated losses of equal learners, each of which does better for a while."""
    rng = np.random.default_rng(3)
    for length, lead in ((200, 0.3), (1000, 0.1)):
        wrong = 0
        for _ in range(runs):
            signs = np.repeat(rng.choice([-1.0, 1.0], EQUAL_ROWS // length), length)
            drawn = rng.random(EQUAL_ROWS)
            differ = np.where(rng.random(EQUAL_ROWS) < 0.5 * (1.0 + lead * signs), 1.0, -1.0)
            wrong += promoted_at(np.where(drawn < 0.04, differ, 0.0)) <= EQUAL_ROWS
        print(f"{f'lead {lead} of 4 %, {length} rows each':30}{wrong:4} of {runs}")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    single_threaded()
    cost()
    power(options.runs)
    equal(options.runs)
    keeping_sign(options.runs)


if __name__ == "__main__":
    main()
