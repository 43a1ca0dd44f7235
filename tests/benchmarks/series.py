"""Series and process data, each a regression.

    sru y1, sru y2      ../shared/data
    electricity price   nswprice from the other columns of ../shared/data/drift/electricity, first 20 000 rows
    trend               a number that grows by the same amount every row, with noise
    growth              one that grows by 1 % every row
    step                labels that are suddenly a hundred times as large

Without ../shared/data only the generated streams are read.
"""

import sys
from collections.abc import Iterator

import numpy as np

from core.contract import Floats
from tests.benchmarks.streams import DATA, read_columns, regression

ROWS = 20_000
Stream = tuple[Floats, Floats]
"""Rows (n, d) and targets (n,)."""


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
