"""Drift before the labels arrive: tests the means of features and predictions of tracked rows.

    columns     the encoded features; then for regression the prediction, else for each class whether it is predicted
    test        the test of class means (core.drift.detector), over all rows together

The watch is not part of the model's state, because the log does not have the predicted rows. So each replica has its
own watch, empty at first, and its events are hints that may be repeated or lost. Predictions are tested only after the
model has learned ``SETTLED_ROWS`` rows: before that, they change because the model does. For a model with many columns
only the predictions are tested.
"""

import numpy as np
from msgspec.structs import replace

from core.contract import Floats
from core.drift.detector import DriftDetector, WatchTest
from core.drift.outbox import Drift, Episodes, of_alarm
from core.entry import ServedPrediction
from core.features import Schema
from core.features.labels import key
from core.model.model import Model

COLUMNS_MAX = 256  # most encoded columns of a model whose features are watched
CLASSES_MAX = 64  # most classes of a model whose predictions are watched
SETTLED_ROWS = 1000
KIND = "unlabelled"


def facts(model: Model) -> tuple[object, ...]:
    """The facts a watch depends on: when they change, it starts again."""
    schema, watch = model.prediction_schema, model.config.watch
    settled = model.rows >= SETTLED_ROWS
    labels = 0 if model.regression else len(model.own.answers.labels)
    return None if schema is None else schema.id, labels if settled else 0, settled, watch


def _prediction_columns(model: Model) -> tuple[str, ...]:
    """Names of the columns of predictions."""
    if model.rows < SETTLED_ROWS:
        return ()
    if model.regression:
        return ("prediction",)
    labels = model.own.answers.labels.labels
    return tuple(f"prediction {key(label)}" for label in labels) if len(labels) <= CLASSES_MAX else ()


class UnlabelledWatch:
    """The watch over one model with a feature space, in one process; ``names``: the tested columns."""

    def __init__(self, model: Model) -> None:
        self.facts = facts(model)
        schema = model.prediction_schema
        watched = isinstance(schema, Schema) and schema.width <= COLUMNS_MAX
        self._features = tuple(schema.columns) if isinstance(schema, Schema) and watched else ()
        self._predictions = _prediction_columns(model)
        self.names = (*self._features, *self._predictions)
        low, high = (np.nan, np.nan) if model.regression else (0.0, 1.0)
        ranges = np.repeat([[low], [high]], len(self._predictions), axis=1)
        if schema is not None and self._features:
            ranges = np.hstack([schema.drift_ranges, ranges])
        tests = {"class_mean": model.config.watch.tests.get("class_mean", WatchTest())} if self.names else {}
        self._detector = DriftDetector(tests, ranges, regression=True)
        self._episodes, self._rows, watch = Episodes(), 0, model.config.watch
        self._lengths = watch.episode_rows, watch.cooldown_rows

    def absorb(self, model: Model, raw: Floats, served: ServedPrediction, version: int, time_ms: int) -> Drift | None:
        """Add a row (1, F) that was predicted now; returns a drift, at most once per episode of such rows.

        The model must still have the facts of this watch; ``version`` is its version.
        """
        if not self.names:
            return None
        row = self._row(model, raw, served)
        self._rows += 1
        for alarm in self._detector.absorb(row, np.zeros(1, dtype=np.int64), np.zeros(1)):
            joins, held_back = self._episodes.place(self._rows, *self._lengths)
            if not joins:
                names = [self.names[column] for column in alarm.columns]
                known = {"row": model.rows, "time_ms": time_ms, "label": None, "action": "report"}
                return replace(of_alarm(alarm, (version, 0), names, held_back=held_back, **known), kind=KIND)
        return None

    def _row(self, model: Model, raw: Floats, served: ServedPrediction) -> Floats:
        """The columns (1, D) of a row."""
        predicted = np.zeros((1, len(self._predictions)))
        if self._predictions and served.prediction is not None:
            if model.regression:
                predicted[0, 0] = served.prediction
            elif (index := model.own.answers.labels.index(served.prediction)) >= 0:  # type: ignore[arg-type]  # a label
                predicted[0, index] = 1.0
        if not self._features or model.pipeline is None:
            return predicted
        return np.ascontiguousarray(np.hstack([model.pipeline.encoder.encode(raw), predicted]))
