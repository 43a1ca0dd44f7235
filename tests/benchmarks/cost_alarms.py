"""Alarms of the error-rate test beside class costs: ``python -m tests.benchmarks.cost_alarms``.

The rare class of tests.benchmarks.generators.fraud (1.7 % of the rows), missing it costs ``COSTS``; 10 runs of 20 000
rows each. For every learner and cost: alarms per 10 000 rows of a stream that never changes, from row 1000 on, and in
how many runs one comes within 5000 rows after weights are drawn anew at row 10 000.

The threshold of a cost far from 1 lies where the probabilities of most rows are: small moves of these change many
answers. Alarms of a stream that never changes are of such moves; those after a change may be of either.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats, Ints
from core.entry import Entry, Rows
from core.machine import Machine
from core.numerics.linalg import single_threaded
from tests.benchmarks.generators import FRAUD_OFFSET, FRAUD_SLOPE, fraud

RUNS, ROWS, CHANGE, HORIZON, WARM_UP = 10, 20_000, 10_000, 5_000, 1_000
LEARNERS = ("dfop", "rls", "vigo", "fesl_c", "auto")
COSTS = (None, 5.0, 40.0, 100.0)
LABELS = ("ok", "fraud")


def alarms(algorithm: str, cost: float | None, X: Floats, y: Ints) -> list[int]:
    """The rows of the alarms, each of which is an event of its own."""
    names = [f"x{column}" for column in range(X.shape[1])]
    body: dict[str, Any] = {"algorithm": algorithm, "task": "classification", "features": names}
    body |= {"watch": {"error_rate": {}, "episode_rows": 0}}
    body |= {} if cost is None else {"class_costs": {"fraud": cost}}
    machine = Machine(Config.parse({**body, "labels": [*LABELS]}))
    assert machine.prediction_schema is not None
    found, reach = [], machine.outbox.last
    for version, start in enumerate(range(0, len(y), 1000), 1):
        part = slice(start, start + 1000)
        rows = Rows(machine.prediction_schema.id, None, X[part], [LABELS[k] for k in y[part]])
        machine.apply(Entry(version, 0, (rows,)))
        found += [one.row for drift in machine.outbox.after(reach) for one in (drift, *drift.alarms)]
        reach = machine.outbox.last
    return found


def changed(seed: int) -> tuple[Floats, Ints]:
    """The stream with other weights from row ``CHANGE`` on."""
    X, y = fraud(seed, ROWS)
    rng = np.random.default_rng(1000 + seed)
    w = rng.normal(size=X.shape[1])
    score = X[CHANGE:] @ (w * FRAUD_SLOPE / np.linalg.norm(w))
    y[CHANGE:] = rng.random(ROWS - CHANGE) < 1.0 / (1.0 + np.exp(FRAUD_OFFSET - score))
    return X, y


def cells(algorithm: str) -> Iterator[str]:
    """For each cost: false alarms per 10 000 rows, runs in which an alarm followed the change."""
    for cost in COSTS:
        still = [row for seed in range(RUNS) for row in alarms(algorithm, cost, *fraud(seed, ROWS)) if row > WARM_UP]
        hits = [
            any(CHANGE < row <= CHANGE + HORIZON for row in alarms(algorithm, cost, *changed(seed)))
            for seed in range(RUNS)
        ]
        yield f"{1e4 * len(still) / (RUNS * (ROWS - WARM_UP)):.1f} {sum(hits):2d}/{RUNS}"


def main() -> None:
    """Print the table."""
    single_threaded()
    print(f"{'cost of missing':16}" + "".join(f"{cost or 'none':>14}" for cost in COSTS))
    for algorithm in LEARNERS:
        print(f"{algorithm:16}" + "".join(f"{cell:>14}" for cell in cells(algorithm)), flush=True)


if __name__ == "__main__":
    main()
