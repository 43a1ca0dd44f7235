"""Digests of the states that twenty fixed streams lead to: equal before and after a change that should change nothing.

    python -m tests.benchmarks.state_digests

Compare the output of two checkouts on one machine; across CPU types round-off differs.
"""

import hashlib
from itertools import chain

import numpy as np

from core.config import Config
from core.entry import Entry, Overlap, Reset, Rows, Switch
from core.features import parse_features
from core.machine import Machine

ROWS = 1200
DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}
LOAD = {"name": "load", "min": -4, "max": 4}
WATCH = {"class_mean": {"batch_size": 40}, "error_rate": {"batch_size": 40}}
OLD, NEW = ["a", DAY, LOAD, "b"], ["p", DAY, "q", "b"]

STREAMS = {
    "dfop auto": ("dfop", "classification", {}),
    "dfop auto regression": ("dfop", "regression", {}),
    "dfop reset": ("dfop", "classification", {"params": {"forgetting_rate": 0.01}, "on_drift": "reset"}),
    "dfop forget": ("dfop", "regression", {"params": {"forgetting_rate": 0.01}, "on_drift": "forget"}),
    "dfop mean": ("dfop", "regression", {"missing": "mean"}),
    "dfop scaled": ("dfop", "classification", {"params": {"scaling": "robust"}}),
    "gdfop": ("gdfop", "classification", {}),
    "gdfop regression": ("gdfop", "regression", {}),
    "rls": ("rls", "regression", {}),
    "rls classes": ("rls", "classification", {"missing": "zero"}),
    "odm": ("odm", "classification", {}),
    "dynamic_odm": ("dynamic_odm", "classification", {}),
    "dynamic_odm reset": ("dynamic_odm", "classification", {"on_drift": "reset"}),
    "vigo": ("vigo", "classification", {}),
    "vigod": ("vigod", "classification", {"params": {"batch_size": 60}}),
    "vigow": ("vigow", "classification", {"on_drift": "forget"}),
    "fesl_c": ("fesl_c", "classification", {}),
    "fesl_s": ("fesl_s", "regression", {}),
    "sparse_dfop": ("sparse_dfop", "classification", {"features": None, "watch": {"error_rate": {"batch_size": 40}}}),
    "sparse_dfop regression": ("sparse_dfop", "regression", {"features": None, "watch": None}),
    "dfop lags": ("dfop", "regression", {"lags": 2}),
    "dfop random": ("dfop", "classification", {"params": {"random_features": 16}}),
    "ga2m": ("ga2m", "classification", {}),
    "auto": ("auto", "classification", {"params": {"size": "small"}}),
    "auto regression": ("auto", "regression", {"params": {"size": "small"}}),
}


class Stream:
    """A drifting stream of rows that hold every name, and the machine that learns them."""

    def __init__(self, algorithm: str, task: str, more: dict) -> None:
        rng = np.random.default_rng(7)
        hidden = rng.normal(size=(ROWS, 4))
        hidden[ROWS // 3 :] += 1.5  # a drift
        mix = rng.normal(size=(4, 6))
        values = hidden @ mix + rng.normal(size=(ROWS, 6)) / 5
        self.columns = dict(zip(("a", "load", "b", "p", "q"), values.T, strict=False))
        self.columns["day"] = rng.integers(0, 3, ROWS).astype(float)
        if "missing" in more:
            self.columns["a"][rng.random(ROWS) < 0.1] = np.nan
        score = hidden @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=ROWS) / 5
        score[ROWS // 2 :] *= -1.0  # another one
        self.classes = task == "classification"
        most = np.minimum(1 + np.arange(ROWS) // 30, 3 if algorithm in {"dfop", "rls", "vigo", "vigod"} else 2)
        place = np.clip(np.floor((score + 2) / 4 * most), 0, most - 1).astype(int)
        self.y = [("UP", "DOWN", "SAME")[at] for at in place] if self.classes else score
        config = {"algorithm": algorithm, "task": task, "features": OLD, "watch": WATCH, **more}
        self.machine = Machine(Config.parse(config))
        self.discounts = rng.uniform(0.95, 1.0, ROWS) if algorithm == "gdfop" else None
        self.sparse = algorithm == "sparse_dfop"
        self.at = self.version = 0
        self.said = hashlib.blake2b(digest_size=8)

    def apply(self, *segments: object) -> None:
        """One entry; what it answers counts too."""
        self.version += 1
        for outcome in self.machine.apply(Entry(self.version, self.version, segments)):
            said = [getattr(outcome, name, None) for name in ("predictions", "losses", "p_true", "rows")]
            self.said.update(repr([np.asarray(value).tolist() for value in said]).encode())

    def rows(self, count: int, space: object) -> Rows:
        """The next rows."""
        part = slice(self.at, self.at + count)
        self.at += count
        if self.sparse:
            X = np.random.default_rng(self.at).normal(size=(count, space.width))
        else:
            X = np.column_stack([self.columns[name][part] for name in space.names])
        discounts = None if self.discounts is None else self.discounts[part]
        return Rows(space.id, None, X, self.y[part], discounts)

    def learn(self, *counts: int) -> None:
        """Blocks of rows, each an entry."""
        for count in counts:
            space = self.machine.config.space if self.machine.feedback_schema is None else self.machine.feedback_schema
            self.apply(self.rows(count, space))

    def live(self) -> str:
        """Rows, a switch and its abort, another one, a reset, rows; the digest of state and answers."""
        self.learn(*[1] * 40, 200, 17, 160)
        if not self.sparse:
            self.apply(Switch("begin", parse_features(NEW), "kernel"))
            self.learn(20)
            self.apply(Switch("abort"))
            self.apply(Switch("begin", parse_features(NEW), "linear"))
            self.learn(*[1] * 20, 40)
            union = self.machine.feedback_schema
            self.apply(Overlap(union.id, self.rows(5, union).X))
            self.apply(Switch("complete"))
        self.learn(*[1] * 20, 150, 33)
        first = self.machine.to_bytes()
        self.apply(Reset())
        self.learn(*[1] * 20, 100)
        state = hashlib.blake2b(bytes(chain.from_iterable((first, self.machine.to_bytes()))), digest_size=8)
        return f"{state.hexdigest()} {self.said.hexdigest()}"


def main() -> None:
    """Print a line per stream."""
    for name, stream in STREAMS.items():
        print(f"{name:25} {Stream(*stream).live()}")


if __name__ == "__main__":
    main()
