"""What a row costs in core when it comes alone: ``python -m tests.benchmarks.one_row [--checkout DIRECTORY]``.

Microseconds of CPU time per row of ten columns, as medians over rounds:

    apply      an entry of one row, with the estimate that the service asks for before it (``flops_to_apply``)
    block      the same in entries of 1000 rows
    predict    one row

Models have learned a block before; entries and rows are built beforehand; no store, no HTTP.
With ``--checkout`` another checkout is measured as well, in a process of its own: in every round one right after the
other, in turns first and second, so that what else the machine does falls on both. Printed are both medians and the
median of the rounds' ratios with its range. Its kernels should be compiled. Since it may be an older one, this file
imports nothing but core.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

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
    "rls": Case("rls", 0, {}),
    "dfop fixed": Case("dfop", 0, {"forgetting_rate": 0.01}),
    "dfop auto": Case("dfop", 0, {}),
    "dfop fixed, classes": Case("dfop", 2, {"forgetting_rate": 0.01}),
    "dfop auto, classes": Case("dfop", 2, {}),
    "dynamic_odm": Case("dynamic_odm", 2, {}),
    "vigo": Case("vigo", 2, {}),
    "vigod": Case("vigod", 2, {}),
    "vigo, 100 classes": Case("vigo", 100, {}),
    "fesl_c": Case("fesl_c", 2, {}),
    "auto": Case("auto", 0, {}),
    "auto, classes": Case("auto", 2, {}),
}


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


class Checkout:
    """A process that measures the core in a directory when it is asked."""

    def __init__(self, directory: Path) -> None:
        # -P: the folder of this file is no place to import from
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, "--answer"],
            env=os.environ | {"PYTHONPATH": str(directory)}, cwd=directory,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        found = Path(self._ask("")).resolve()
        if not found.is_relative_to(directory.resolve()):
            raise SystemExit(f"{directory} has no core of its own: {found} was imported")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def measure(self, case: str) -> list[float]:
        """Microseconds per row of each kind."""
        return [float(figure) for figure in self._ask(case).split()]

    def _ask(self, line: str) -> str:
        print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()


def answer() -> None:
    """Measure the case of every line read; to an empty line, say where core is."""
    single_threaded()
    models: dict[str, WarmModel] = {}
    for line in sys.stdin:
        name = line.strip()
        if not name:
            print(sys.modules["core"].__path__[0], flush=True)
            continue
        if name not in models:
            models[name] = WarmModel(CASES[name])
            models[name].measure()
        print(*models[name].measure(), flush=True)


def compare(name: str, sides: Sequence[Checkout], rounds: int) -> None:
    """Print the line of a case; the checkout at hand comes last."""
    found: list[list[list[float]]] = [[] for _ in sides]
    for number in range(rounds):
        for at in range(len(sides))[:: 1 if number % 2 == 0 else -1]:
            found[at].append(sides[at].measure(name))
    cells = []
    for figures in zip(*(zip(*side, strict=True) for side in found), strict=True):
        cells.append("".join(f"{median(side):8.2f}" for side in figures))
        if len(figures) > 1:
            ratios = sorted(new / old for old, new in zip(*figures, strict=True))
            cells[-1] += f"{median(ratios):7.2f} {ratios[0]:.2f}..{ratios[-1]:.2f}"
    print(f"{name:20}", *cells, sep=" |", flush=True)


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, help="another checkout, to be measured beside this one")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cases", type=lambda text: text.split(";"), default=list(CASES), help="semicolons between")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        answer()
        return
    own = Path(__file__).resolve().parents[2]
    with Checkout(own) as here, Checkout(given.checkout or own) as other:
        sides = [other, here] if given.checkout else [here]
        told = "before   after  ratio      range" if given.checkout else "      us"
        print(f"{'us of CPU per row':20}", *(f"{kind:>8} {told}" for kind in ("apply", "block", "predict")), sep=" |")
        for name in given.cases:
            compare(name, sides, given.rounds)


if __name__ == "__main__":
    main()
