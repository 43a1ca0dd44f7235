"""A machine that lives through switches, row by row or in blocks: what the tests of the switch share."""

import numpy as np
import pytest

from core.config import Config
from core.entry import Entry, Overlap, Rows, Switch
from core.features import Schema, parse_features
from core.learners.catalogue import ALGORITHMS
from core.model import Model, read, save
from core.model.apply import apply

DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}
SPACES = (["a", "b", DAY, "c"], ["p", DAY, "q", "r"], ["c", "q", "s", "t", "u"], ["a", "b", "v"])
"""Four spaces; day is kept once, q once, and a, b and c come back."""
SCHEMAS = tuple(Schema(parse_features(space)) for space in SPACES)
NAMES = sorted({name for schema in SCHEMAS for name in schema.names})
DENSE = [algorithm for algorithm in ALGORITHMS.values() if not algorithm.sparse]
CASES = [(algorithm.id, task, classes) for algorithm in DENSE for task in algorithm.tasks for classes in
         ((2, 4) if task == "classification" else (0,)) if classes <= algorithm.class_bound]  # fmt: skip

every_case = pytest.mark.parametrize(("algorithm", "task", "classes"), CASES)
few = pytest.mark.slow_but("*auto-c*", "*dfop-r*", "*fesl_s-r*", "*vigod-*2*", "*dynamic_odm-*-4*")
"""Of the algorithms one of each family; the others are for ``make test-all``."""


class Driver:
    """A machine and a stream of rows that hold every name.

    Args:
        algorithm: id in the catalogue.
        task: "classification" or "regression".
        classes: classes of the stream, which appear one after the other.
        rows: of the stream.
        stream: its seed.
        more: other fields of the configuration.
    """

    def __init__(self, algorithm="fesl_c", task="classification", classes=2, rows=400, stream=0, **more):
        rng = np.random.default_rng(stream)
        hidden = rng.normal(size=(rows, 4))
        self.values = hidden @ rng.normal(size=(4, len(NAMES))) + rng.normal(size=(rows, len(NAMES))) / 5
        self.values[:, NAMES.index("day")] = rng.integers(0, 3, rows)
        score = hidden @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=rows) / 5
        if more.get("missing", "error") != "error":
            self.values[rng.random(self.values.shape) < 0.1] = np.nan
        now = np.minimum(1 + np.arange(rows) // 25, max(classes, 1))
        place = np.clip(np.floor((score + 2) / 4 * now), 0, now - 1).astype(int)
        self.labels = [f"class {label}" for label in place] if task == "classification" else score
        self.discounts = rng.uniform(0.9, 1.0, rows) if ALGORITHMS[algorithm].row_discounts else None
        config = {"algorithm": algorithm, "task": task, "features": SPACES[0], **more}
        self.machine = Model.first(Config.parse(config))
        self.at = self.version = 0

    def apply(self, *segments):
        self.version += 1
        return apply(self.machine, Entry(self.version, 0, segments))

    def raw(self, schema, start, stop):
        columns = [NAMES.index(name) for name in schema.names]
        return np.ascontiguousarray(self.values[start:stop, columns])

    def rows(self, count, schema=None, **more):
        """A segment of the next rows, in the space of feedback unless told."""
        schema, start, self.at = schema or self.machine.feedback_schema, self.at, self.at + count
        y = self.labels[start : self.at]
        discounts = None if self.discounts is None else self.discounts[start : self.at]
        return Rows(schema.id, None, self.raw(schema, start, self.at), y, discounts, **more)

    def learn(self, count, schema=None, **more):
        return self.apply(self.rows(count, schema, **more))[0]

    def begin(self, space, mapping=None):
        return self.apply(Switch("begin", SCHEMAS[space].features, mapping))[0]

    def map(self, count, schema=None, **more):
        schema, start, self.at = schema or self.machine.feedback_schema, self.at, self.at + count
        return self.apply(Overlap(schema.id, self.raw(schema, start, self.at), **more))[0]

    def complete(self):
        return self.apply(Switch("complete"))[0]

    def abort(self):
        return self.apply(Switch("abort"))[0]

    def predict(self, count=5):
        return read.predict(self.machine.own, self.raw(self.machine.prediction_schema, 0, count))

    def served(self, row):
        """What a tracked prediction of a row says."""
        return read.returned_prediction(
            self.machine.own, read.predict(self.machine.own, self.raw(self.machine.prediction_schema, row, row + 1)), 0
        )

    def reborn(self):
        """The same machine after a crash: its state as bytes and back."""
        self.machine, _ = save.from_bytes(save.to_bytes(self.machine))
        return self

    def live(self, space, mapping=None, labelled=30, unlabelled=5, after=30):
        """A whole switch."""
        self.begin(space, mapping)
        self.learn(labelled)
        self.map(unlabelled)
        self.complete()
        self.learn(after)
