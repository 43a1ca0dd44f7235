"""Digests of some hundred random lives: equal before and after a change of core that should change nothing.

    python -m tests.benchmarks.life_digests [--only WORD]

Every algorithm and task lives several times: rows come alone and in entries of one to three segments, with declared
features (categories, ranges, missing values) or those of the first row; classes appear; rows are tracked, skipped,
wild, of other spaces; the watch is off, reports, resets or forgets; the features change and change back; the state is
saved and loaded; the model is reset. A line has the digests of all states, of all outcomes and of sampled predictions.

Compare the output of two checkouts on one machine; across CPU types round-off differs. This file imports nothing but
core, so it runs beside an older one: ``PYTHONPATH=OLDER python -P tests/benchmarks/life_digests.py``.
"""

import argparse
import hashlib
import zlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from core.config import Config
from core.entry import Entry, Overlap, Reset, Rows, ServedPrediction, Switch
from core.features import Feature, Schema, Space, parse_features
from core.learners.catalogue import ALGORITHMS

try:
    from core.model import Model, read, save
    from core.model.apply import apply
except ImportError:  # an older checkout
    from core.machine import Machine  # type: ignore[import-not-found]

    Model = read = save = Machine
    apply = Machine.apply
    Machine.own, Machine.first = property(lambda machine: machine), Machine

STEPS = 70
"""Entries between two changes of features."""
DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}
LOAD = {"name": "load", "min": -4, "max": 4}
DECLARED, PLAIN, NEXT = ["a", DAY, LOAD, "b", "c"], ["a", "load", "b", "c", "d"], ["p", "q", "b", DAY]
LABELS = ("UP", "DOWN", 0, False, "SAME")
SIZES = (1, 1, 1, 1, 1, 1, 2, 5, 40)
FIELDS = ("predictions", "losses", "rows", "learned", "p_true", "refusal", "phase", "overlap_rows", "warning", "taught")
WATCH = {"class_mean": {"batch_size": 40}, "error_rate": {"batch_size": 40}}
WATCHES = {"off": None, "report": "report", "reset": "reset", "forget": "forget"}
VARIANTS = {
    "dfop": ({}, {"forgetting_rate": 0.01}, {"forgetting_rate": 0.5, "bias": False}),
    "gdfop": ({},),
    "rls": ({},),
    "odm": ({}, {"random_features": 20}),
    "dynamic_odm": ({}, {"vote": "majority"}),
    "vigo": ({}, {"variant": "paper"}),
    "vigod": ({"batch_size": 30}, {"batch_size": 30, "reset_on": "both"}),
    "vigow": ({"batch_size": 30},),
    "fesl_c": ({},),
    "fesl_s": ({},),
    "sparse_dfop": ({"compressed_dim": 20}, {"compressed_dim": 12, "forgetting_rate": 0.01}),
    "ga2m": ({},),
    "auto": ({"size": "small"},),
}
WIDE = {"dfop": ({}, {"forgetting_rate": 0.02}), "rls": ({},)}
"""Some lives have as many columns as are inverted by LAPACK, and as are learned by matrix products."""
WIDTHS = (40, 300)


class Life:
    """A model, a stream, and the digests of what came of them.

    Args:
        seed: of the stream and of what happens.
        config: of the model.
        columns: names of a space that the first row fixes.
    """

    def __init__(self, seed: int, config: dict[str, Any], columns: list[str]) -> None:
        self.rng = np.random.default_rng(seed)
        self.machine = Model.first(Config.parse(config))
        self.columns, self.task = columns, config["task"]
        self.discounted = config["algorithm"] == "gdfop"
        self.weights: dict[str, float] = {}
        self.known = 1
        self.version = 0
        self.tracked: list[tuple[Space, Any, ServedPrediction]] = []
        self.states, self.outcomes, self.predictions = (hashlib.blake2b(digest_size=6) for _ in range(3))

    def live(self) -> str:
        """Rows, an aborted change of features, a real one, another one where the model can, a reset, rows."""
        self.rows(STEPS)
        if self.machine.config.algorithm.sparse:
            self.rows(STEPS)
        else:
            self.switch(NEXT, "abort", "kernel")
            self.switch(NEXT, "complete", "linear")
            self.switch(["r", "b", "s"], "complete", "linear")
        self.entry(self.segment(), Reset(), self.segment())
        self.rows(STEPS // 2)
        return " ".join(each.hexdigest() for each in (self.states, self.outcomes, self.predictions))

    def switch(self, features: list[Any], end: str, mapping: str) -> None:
        """A change of features with rows of all spaces in it and after it."""
        self.entry(Switch("begin", parse_features(features), mapping))  # type: ignore[arg-type]
        self.rows(STEPS // 2)
        self.entry(Switch(end))  # type: ignore[arg-type]
        self.rows(STEPS)

    def rows(self, entries: int) -> None:
        """Entries of rows; now and then the model is saved and loaded."""
        for _ in range(entries):
            self.entry(*(self.segment() for _ in range(self.rng.choice((1, 1, 1, 2, 3)))))
            if self.machine.prediction_schema is not None and self.rng.random() < 0.3:
                self.predict()
            if self.rng.random() < 0.04:
                self.save()
            if self.rng.random() < 0.02:
                self.known += 1
        self.save()

    def entry(self, *segments: Any) -> None:
        """Apply an entry; what it answers counts."""
        self.version += 1
        for outcome in apply(self.machine, Entry(self.version, 1000 * self.version, segments)):
            told = [type(outcome).__name__]
            for name in FIELDS:
                value = getattr(outcome, name, None)
                told.append(value.tolist() if isinstance(value, np.ndarray) else value)
            self.outcomes.update(repr(told).encode())

    def save(self) -> None:
        """The state counts; the model goes on from it."""
        state = save.to_bytes(self.machine)
        self.states.update(state)
        self.machine, _ = save.from_bytes(state)

    def predict(self) -> None:
        """Predict a row or some; one of them is remembered as tracked."""
        space = self.machine.prediction_schema
        assert space is not None
        raw = self.raw(space, int(self.rng.choice((1, 1, 7))))
        found = read.predict(self.machine.own, raw)
        for values in found:
            self.predictions.update(b"-" if values is None else values.tobytes())
        self.tracked = [*self.tracked[-20:], (space, raw[:1], read.returned_prediction(self.machine.own, found, 0))]

    # ---------------------------------------------------------------- segments

    def segment(self) -> Rows | Overlap:
        """Rows of a space that is accepted, or of one that is not any more."""
        if self.tracked and self.rng.random() < 0.1:
            space, raw, served = self.tracked.pop(self.rng.integers(len(self.tracked)))
            return Rows(space.id, None, raw, self.labels(space, raw), self.discounts(1), served)
        if self.tracked and self.rng.random() < 0.02:
            space, raw, _ = self.tracked[0]  # refused where the space is gone
            return Rows(space.id, None, raw, self.labels(space, raw))
        space, proposed = self.space()
        count = int(self.rng.choice(SIZES))
        raw = self.raw(space, count)
        if self.machine.phase == "overlap" and space is self.machine.feedback_schema and self.rng.random() < 0.1:
            return Overlap(space.id, raw, (), (0,) if count > 1 else ())
        skip = self.rng.choice(count, count // 2 + 1, replace=False) if self.rng.random() < 0.05 else ()
        places = tuple(sorted(map(int, skip)))
        return Rows(space.id, proposed, raw, self.labels(space, raw), self.discounts(count), None, (), places)

    def space(self) -> tuple[Space, tuple[Feature, ...] | None]:
        """A space, mostly that of feedback, and the features that a first row proposes."""
        space = self.machine.feedback_schema or self.machine.config.space
        if space is None:
            features = parse_features(self.columns)
            return Schema(features), features
        routes = list(self.machine.own.switching.routes.values())
        if self.rng.random() < 0.15 and routes:
            space = routes[self.rng.integers(len(routes))].schema
        return space, None

    def raw(self, space: Space, count: int) -> Any:
        """Rows; some are wild, and some values are missing where they may."""
        if self.machine.config.algorithm.sparse:
            return self.rng.normal(size=(count, space.raw_width)) * (self.rng.random((count, space.raw_width)) < 0.5)
        shift = 1.5 * (self.version // 60 % 2)
        X = self.rng.normal(size=(count, len(space.features))) + shift
        for at, feature in enumerate(space.features):
            if feature.categories:
                X[:, at] = self.rng.integers(0, len(feature.categories), count)
            elif feature.name == "c":
                X[:, at] = 3.0
            elif self.machine.config.missing != "error":
                X[self.rng.random(count) < 0.1, at] = np.nan
        if self.rng.random() < 0.01:
            plain = [at for at, feature in enumerate(space.features) if not feature.categories]
            X[0, plain] *= 10.0 ** self.rng.integers(-60, 90)
        return np.ascontiguousarray(X)

    def labels(self, space: Space, raw: Any) -> Any:
        """What follows from the rows, for equal names in equal ways; a wild number now and then."""
        names = space.names if not self.machine.config.algorithm.sparse else map(str, range(raw.shape[1]))
        weights = np.array([self.weights.setdefault(name, self.rng.normal()) for name in names])
        score = np.nan_to_num(np.clip(raw, -9, 9)) @ weights / np.sqrt(len(weights))
        score = (score + self.rng.normal(size=len(raw)) / 5) * (-1) ** (self.version // 90)
        if self.task == "regression":
            return score * (1e80 if self.rng.random() < 0.005 else 1.0)
        if self.known > 2 and self.machine.config.labels is None and self.rng.random() < 0.01:
            return ["0"] * len(raw)  # refused where there is 0, or 0 is from then on
        known = min(self.known, len(self.machine.config.labels or LABELS))
        places = np.clip(np.floor((score + 1.5) / 3 * known), 0, known - 1).astype(int)
        return [(self.machine.config.labels or LABELS)[at] for at in places]

    def discounts(self, count: int) -> Any:
        """Discounts for the algorithm that takes them, in every second segment."""
        return self.rng.uniform(0.9, 1.0, count) if self.discounted and self.rng.random() < 0.5 else None


def scenarios() -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Name, configuration and columns of every life."""
    for algorithm in ALGORITHMS.values():
        for task, (number, params), (watch, action) in product(
            algorithm.tasks, enumerate(VARIANTS[algorithm.id]), WATCHES.items()
        ):
            if watch == "forget" and not algorithm.forgets:
                continue
            tests = {"error_rate": WATCH["error_rate"]} if algorithm.sparse else WATCH
            config = {"algorithm": algorithm.id, "task": task, "params": params, "watch": action and tests}
            if action is not None:
                config["on_drift"] = action
            if not algorithm.sparse and watch in {"off", "reset"}:
                missing = "mean" if watch == "off" else "zero"
                config |= {"features": DECLARED, "missing": missing}
            if task == "classification" and watch == "forget":
                config["labels"] = list(LABELS[:3])
            yield f"{algorithm.id} {task} {number} {watch}", config, PLAIN
    for width, (name, variants) in product(WIDTHS, WIDE.items()):
        for number, params in enumerate(variants):
            config = {"algorithm": name, "task": "regression", "params": params, "watch": None}
            yield f"{name} wide {width} {number}", config, [f"x{at}" for at in range(width)]


def main() -> None:
    """Print a line per life."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="lives whose names hold this")
    only = parser.parse_args().only
    for name, config, columns in scenarios():
        if only in name:
            print(f"{name:40} {Life(zlib.crc32(name.encode()), config, columns).live()}", flush=True)


if __name__ == "__main__":
    main()
