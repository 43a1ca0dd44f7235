"""A model that goes through switches, row by row or in blocks; shared by the tests of switching."""

import numpy as np
import pytest

from core.entry import Entry, Overlap, Rows, Switch
from core.features import Schema, parse_features
from core.learners.catalogue import ALGORITHMS
from core.model import read, save
from core.model.apply import apply
from tests.core.twin import Fed

DAY = {"name": "day", "type": "categorical", "categories": ["mon", "tue", "wed"]}
SPACES = (["a", "b", DAY, "c"], ["p", DAY, "q", "r"], ["c", "q", "s", "t", "u"], ["a", "b", "v"])
"""Four spaces; "day" is kept once, "q" once, and "a", "b" and "c" come back."""
SCHEMAS = tuple(Schema(parse_features(space)) for space in SPACES)
NAMES = sorted({name for schema in SCHEMAS for name in schema.names})
DENSE = [algorithm for algorithm in ALGORITHMS.values() if not algorithm.sparse]
CASES = [(algorithm.id, task, classes) for algorithm in DENSE for task in algorithm.tasks for classes in
         ((2, 4) if task == "classification" else (0,)) if classes <= algorithm.class_bound]  # fmt: skip

every_case = pytest.mark.parametrize(("algorithm", "task", "classes"), CASES)
few = pytest.mark.slow_but("*auto-c*", "*dfop-r*", "*fesl_s-r*", "*vigod-*2*", "*dynamic_odm-*-4*")
"""One algorithm per family; the others run in ``make test-all``."""


class Driver(Fed):
    """A model and a stream of rows that contain every name; classes appear one after the other.

    ``stream`` is its seed; ``more`` are further fields of the configuration.
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
        super().__init__({"algorithm": algorithm, "task": task, "features": SPACES[0], **more})
        self.at = 0

    @property
    def pipeline(self):
        return self.machine.pipeline

    @property
    def switching(self):
        return self.machine.own.switching

    @property
    def weights(self):
        """The weight of each expert, by name."""
        return {expert["expert"]: expert["weight"] for expert in self.switching.report()}

    def apply(self, *segments):
        self.version += 1
        return apply(self.machine, Entry(self.version, 0, segments))

    def raw(self, schema, start, stop):
        columns = [NAMES.index(name) for name in schema.names]
        return np.ascontiguousarray(self.values[start:stop, columns])

    def rows(self, count, schema=None, **more):
        """A segment of the next rows, by default in the feedback space."""
        schema, start, self.at = schema or self.machine.feedback_schema, self.at, self.at + count
        y = self.labels[start : self.at]
        discounts = None if self.discounts is None else self.discounts[start : self.at]
        return Rows(schema.id, None, self.raw(schema, start, self.at), y, discounts, **more)

    def learn(self, count, schema=None, **more):
        return self.commit(self.rows(count, schema, **more))

    def begin(self, space, mapping=None):
        return self.commit(Switch("begin", SCHEMAS[space].features, mapping))

    def map(self, count, schema=None, **more):
        schema, start, self.at = schema or self.machine.feedback_schema, self.at, self.at + count
        return self.commit(Overlap(schema.id, self.raw(schema, start, self.at), **more))

    def complete(self):
        return self.commit(Switch("complete"))

    def abort(self):
        return self.commit(Switch("abort"))

    def predict(self, count=5):
        return super().predict(self.raw(self.machine.prediction_schema, 0, count))

    def served(self, row):
        """The tracked prediction of a row."""
        raw = self.raw(self.machine.prediction_schema, row, row + 1)
        return read.returned_prediction(self.machine.own, super().predict(raw), 0)

    def reborn(self):
        """Save and load the machine, as after a crash."""
        self.machine, _ = save.from_bytes(save.to_bytes(self.machine))
        return self

    def live(self, space, mapping=None, labelled=30, unlabelled=5, after=30):
        """Go through a whole switch."""
        self.begin(space, mapping)
        self.learn(labelled)
        self.map(unlabelled)
        self.complete()
        self.learn(after)
