"""What a row costs in core when it comes alone.

Microseconds of CPU time per row of ten columns:

    apply      an entry of one row, with the estimate that the service asks for before it (``flops_to_apply``)
    block      the same in entries of 1000 rows
    predict    one row

Models have learned a block before; entries and rows are built beforehand; no store, no HTTP.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from core.config import Config
from core.entry import Entry, Rows
from core.model import Model, cost, read
from core.model.apply import apply
from core.numerics.linalg import single_threaded

COLUMNS, WARM_ROWS, BLOCK_ROWS, SINGLE_ROWS = 10, 1000, 1000, 1000


class Case(NamedTuple):
    """A model to measure: algorithm, classes (0 for regression), parameters other than the default ones."""

    algorithm: str
    classes: int
    params: dict[str, Any]


CASES = {
    "rls": Case("rls", 0, {}), "dfop fixed": Case("dfop", 0, {"forgetting_rate": 0.01}),
    "dfop auto": Case("dfop", 0, {}), "dfop fixed, classes": Case("dfop", 2, {"forgetting_rate": 0.01}),
    "dfop auto, classes": Case("dfop", 2, {}), "dynamic_odm": Case("dynamic_odm", 2, {}), "vigo": Case("vigo", 2, {}),
    "vigod": Case("vigod", 2, {}), "vigo, 100 classes": Case("vigo", 100, {}), "fesl_c": Case("fesl_c", 2, {}),
    "auto": Case("auto", 0, {}), "auto, classes": Case("auto", 2, {}),
}  # fmt: skip


class WarmModel:
    """A warm model, and what it is given."""

    def __init__(self, case: Case, columns: int = COLUMNS) -> None:
        rng, names = np.random.default_rng(7), [f"x{column}" for column in range(columns)]
        given = {"algorithm": case.algorithm, "features": names, "params": case.params, "task": "regression"}
        if case.classes:
            given |= {"task": "classification", "labels": [f"c{k}" for k in range(case.classes)]}
        config = Config.parse(given)
        weights = rng.normal(size=columns)

        def rows(count: int) -> tuple[Any, Any]:
            X = rng.normal(size=(count, columns))
            score = X @ weights + rng.normal(size=count)
            ranks = np.argsort(np.argsort(score))
            return X, [f"c{k}" for k in ranks * case.classes // count] if case.classes else score

        def entry(version: int, X: Any, y: Any) -> Entry:
            return Entry(version, version, (Rows(config.space.id, None, X, y),))

        self.model = Model.first(config)
        apply(self.model, entry(1, *rows(WARM_ROWS)))
        self.blocks = [entry(2, *rows(BLOCK_ROWS))]
        self.asked = [rng.normal(size=(1, columns)) for _ in range(SINGLE_ROWS)]
        X, y = rows(SINGLE_ROWS)
        self.singles = [entry(2, X[at : at + 1].copy(), y[at : at + 1]) for at in range(SINGLE_ROWS)]

    def learn(self, entries: Sequence[Entry]) -> None:
        """Apply entries as the service does."""
        for one in entries:
            cost.flops_to_apply(self.model, one.segments)
            apply(self.model, one)

    def predict(self) -> None:
        """Predict rows one by one."""
        for raw in self.asked:
            read.predict(self.model.own, raw)

    def measure(self) -> list[float]:
        """Microseconds of CPU time per row of each kind."""
        return [
            _spent_us(lambda: self.learn(self.singles)) / SINGLE_ROWS,
            _spent_us(lambda: self.learn(self.blocks)) / BLOCK_ROWS,
            _spent_us(self.predict) / SINGLE_ROWS,
        ]


def _spent_us(do: Callable[[], None]) -> float:
    begin = time.process_time_ns()
    do()
    return (time.process_time_ns() - begin) / 1e3


def measured(case: str, rounds: int) -> list[list[float]]:
    """Microseconds per row of each kind, of every round."""
    single_threaded()
    warm = WarmModel(CASES[case])
    warm.measure()
    return [warm.measure() for _ in range(rounds)]
