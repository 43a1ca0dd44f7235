"""What the drift watch sees, how late, and how often in vain: ``python -m tests.benchmarks.drift [--runs N]``.

Every stream has 10 000 rows of one concept and 10 000 of another (tests.benchmarks.streams.drifts), 20 runs each with
streams and concepts drawn anew. A hit is an alarm within 5000 rows of the drift; delays are medians over the hits.
Alarms before it are false; they are counted from row 1000 on, beside those of streams that never change. The columns
are both tests as they are by default, the events that their alarms make, each test alone, and events after the drift.

Exits with 1 where the watch of dfop or vigod misses what was asked for: all runs on every drift but the class prior
(and, for dfop, what no linear model learns), a median delay of at most 450 rows, at most .2 false alarms per 10 000
independent rows, 1 where class means coincide, and at most 2 events where each row resembles the one before it.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from core.config import Config
from core.config.watch import Watch
from core.contract import Floats
from core.drift.outbox import Episodes
from core.entry import Entry, Rows
from core.model import Model
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks.streams.drifts import DRIFTS, STATIONARY, Concept

BEFORE, AFTER, HORIZON, WARM_UP, BLOCK = 10_000, 10_000, 5_000, 1_000, 1000
DELAY_MAX, FALSE_MAX, FALSE_COINCIDING_MAX, EVENTS_MAX = 450, 0.2, 1.0, 2.0
NOT_ASKED = {"dfop": {"class prior", "swap in place"}, "vigod": {"class prior"}}
LEARNERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dfop", {}),
    ("dfop", {"forgetting_rate": 1e-3}),
    ("dynamic_odm", {}),
    ("vigod", {}),
)
Alarms = dict[str, list[int]]
"""Rows of alarms, by what reports them."""


def run(algorithm: str, params: dict[str, Any], X: Floats, y: Any) -> Alarms:
    """Learn a stream: the alarms of each test, of both together, and the events that they make."""
    body = {"algorithm": algorithm, "task": "classification", "params": params, "watch": {"episode_rows": 0}}
    model = Model.first(Config.parse({**body, "features": [f"x{j}" for j in range(X.shape[1])]}))
    labels = y.tolist()
    alarms: Alarms = {"class_mean": [], "error_rate": []}
    reach = model.outbox.last
    for version, start in enumerate(range(0, len(y), BLOCK), 1):
        part = slice(start, start + BLOCK)
        rows = Rows(model.prediction_schema.id, None, np.ascontiguousarray(X[part]), labels[part])
        apply(model, Entry(version, 0, (rows,)))
        for drift in model.outbox.after(reach):
            for alarm in (drift, *drift.alarms):
                alarms[alarm.kind].append(alarm.row)
        reach = model.outbox.last
    every = sorted(chain.from_iterable(alarms.values()))
    episodes, rows_of_one = Episodes(), Watch().episode_rows
    events = [row for row in every if not episodes.place(row, rows_of_one, 0).joins]
    return {"watch": every, "episodes": events, **alarms}


class Score(NamedTuple):
    """Hits among the runs, their median delay in rows, false alarms per 10 000 rows, alarms per run after the drift."""

    hits: int
    delay: float
    false: float
    after: float

    @classmethod
    def of(cls, runs: list[list[int]]) -> "Score":
        first = [min((row - BEFORE for row in rows if BEFORE < row <= BEFORE + HORIZON), default=0) for rows in runs]
        delays = [delay for delay in first if delay]
        false = sum(WARM_UP < row <= BEFORE for rows in runs for row in rows)
        after = sum(row > BEFORE for rows in runs for row in rows) / len(runs)
        rate = 1e4 * false / (len(runs) * (BEFORE - WARM_UP))
        return cls(len(delays), median(delays) if delays else np.nan, rate, after)

    def cell(self, drifts: bool) -> str:
        """Hits/delay/false alarms, the first two where there is a drift."""
        delay = "   -" if np.isnan(self.delay) else f"{self.delay:4.0f}"
        return f"{self.hits:2d}/{delay} {self.false:4.1f}" if drifts else f"{self.false:12.2f}"


def scores(algorithm: str, params: dict[str, Any], concept: Concept, runs: int) -> dict[str, Score]:
    """The scores of the watch and of its tests on one kind of stream."""
    alarms = dict[str, list[list[int]]]()
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        draw = concept(rng)
        (X, y), (later, labels) = draw(rng, BEFORE, False), draw(rng, AFTER, True)
        seen = run(algorithm, params, np.concatenate([X, later]), np.concatenate([y, labels]))
        for name, rows in seen.items():
            alarms.setdefault(name, []).append(rows)
    return {name: Score.of(rows) for name, rows in alarms.items()}


def table(algorithm: str, params: dict[str, Any], streams: Mapping[str, Concept], runs: int) -> Iterator[str]:
    """Print one table; yields what misses the targets."""
    drifts, head = streams is not STATIONARY, True
    for name, concept in streams.items():
        line = scores(algorithm, params, concept, runs)
        if head:
            heads = "".join(f"{title:>15}" for title in (*line, "events after"))
            print(f"\n{algorithm} {params or ''}\n{'':16}{heads}")
            head = False
        cells = (*(score.cell(drifts) for score in line.values()), f"{line['episodes'].after:.1f}")
        print(f"{name:16}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
        watch, told = line["watch"], line["episodes"]
        if drifts and name not in NOT_ASKED.get(algorithm, ()) and (watch.hits < runs or watch.delay > DELAY_MAX):
            yield f"{algorithm}: {name} {watch.hits}/{runs}, delay {watch.delay:.0f}"
        if not name.startswith("AR") and watch.false > (FALSE_MAX if drifts else FALSE_COINCIDING_MAX):
            yield f"{algorithm}: {name}, {watch.false:.2f} false alarms"
        if name.startswith("AR") and told.false > EVENTS_MAX:
            yield f"{algorithm}: {name}, {told.false:.2f} events"


def main() -> int:
    """Print the tables; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each stream")
    given = parser.parse_args()
    single_threaded()
    print(f"hits of {given.runs}/median delay, false alarms per 10 000 rows; then false alarms where nothing changes")
    asked: list[str] = []
    for algorithm, params in LEARNERS:
        for streams in (DRIFTS, STATIONARY):
            missed = [*table(algorithm, params, streams, given.runs)]
            asked += missed if not params and algorithm in NOT_ASKED else []
    for miss in asked:
        print(f"MISSED: {miss}")
    return 1 if asked else 0


if __name__ == "__main__":
    sys.exit(main())
