"""The error of regressions on series: ``python -m tests.benchmarks.series``.

Mean squared error over the variance of the labels, a-priori, of ``Model``; "last value" beside it, and the share of
the squared error that the ten worst rows make.

    sru y1, sru y2      ../shared/data
    electricity price   nswprice from the other columns of ../shared/data/drift/electricity, first 20 000 rows
    trend               a number that grows by the same amount every row, with noise
    growth              one that grows by 1 % every row
    step                labels that are suddenly a hundred times as large

Without ../shared/data only the generated streams are read.
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Floats
from core.entry import Entry, Rows
from core.model import Model
from core.model.apply import apply
from core.numerics.linalg import single_threaded
from tests.benchmarks.streams import DATA, read_columns, regression

ROWS, BLOCK, WORST = 20_000, 500, 10
LEARNERS: dict[str, dict[str, Any]] = {
    "dfop": {"algorithm": "dfop"},
    "dfop 0.05": {"algorithm": "dfop", "params": {"forgetting_rate": 0.05}},
    "gdfop": {"algorithm": "gdfop"},
    "rls": {"algorithm": "rls"},
    "fesl_c": {"algorithm": "fesl_c"},
    "dfop, 1 lag": {"algorithm": "dfop", "lags": 1},
    "dfop, 2 lags": {"algorithm": "dfop", "lags": 2},
    "dfop, 3 lags": {"algorithm": "dfop", "lags": 3},
    "auto": {"algorithm": "auto"},
    "fesl_c, 2 lags": {"algorithm": "fesl_c", "lags": 2},
}
"""What is compared, as clients create it."""
Stream = tuple[Floats, Floats]
"""Rows (n, d) and targets (n,)."""


def told(body: dict[str, Any], X: Floats, y: Floats) -> Floats:
    """The a-priori predictions (n,) of a model."""
    features = [f"x{j}" for j in range(X.shape[1])]
    machine = Model.first(Config.parse({"task": "regression", "features": features, **body}))
    assert machine.prediction_schema is not None
    space, found = machine.prediction_schema.id, []
    for version, start in enumerate(range(0, len(y), BLOCK), 1):
        part = slice(start, start + BLOCK)
        (learned,) = apply(machine, Entry(version, 0, (Rows(space, None, X[part], y[part]),)))
        found += learned.predictions
    return np.array(found)


def streams() -> Iterator[tuple[str, Stream]]:
    """Those of ../shared/data, then the generated ones."""
    if DATA.is_dir():
        for name in ("sru y1", "sru y2"):
            yield name, regression(name)
        columns = np.array(read_columns("drift/electricity"), dtype=np.float64)[:, :ROWS]
        yield "electricity price", (np.ascontiguousarray(np.delete(columns[:-1], 3, axis=0).T), columns[3])
    else:
        print(f"no benchmark data in {DATA}: generated streams only", file=sys.stderr)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    noise = X @ [1.0, -0.5, 0.2] + rng.normal(size=3000) / 10
    t = np.arange(3000.0)
    time = np.ascontiguousarray(np.column_stack([X, t / 3000]))
    yield "trend", (time, t / 30 + noise)
    yield "growth", (time[:2000], 1.01 ** t[:2000])
    yield "step", (X, noise * np.where(t < 1500, 1.0, 100.0))


def main() -> int:
    """Print the table."""
    single_threaded()
    print(f"{'MSE / variance':20}{'last value':>11}" + "".join(f"{name:>19}" for name in LEARNERS))
    for stream, (X, y) in streams():
        cells = []
        for body in LEARNERS.values():
            squares = (told(body, X, y) - y) ** 2
            worst = np.sort(squares)[-WORST:].sum() / max(squares.sum(), 1e-300)
            cells.append(f"{squares.mean() / y.var():10.4f} ({100 * worst:3.0f} %)")
        print(f"{stream:20}{(np.diff(y) ** 2).mean() / y.var():11.4f}" + "".join(f"{cell:>19}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
