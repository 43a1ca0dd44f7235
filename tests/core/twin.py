"""Models that get one segment per entry, alone or with a twin that must do the same, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.config import Config
from core.contract import Prediction
from core.entry import Configure, Entry, Outcome, Rows, Segment, ServedPrediction
from core.model import Model, read, save
from core.model.apply import apply


class Fed:
    """A model, and the version of its last entry."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.machine, self.version = Model.first(Config.parse(body)), 0

    def commit(self, segment: Segment) -> Outcome:
        """Apply an entry with one segment and return its outcome."""
        self.version += 1
        (outcome,) = apply(self.machine, Entry(self.version, 1000 * self.version, (segment,)))
        return outcome

    def learn(self, X: Any, y: Any, space: Any = None, **more: Any) -> Outcome:
        """Learn rows of the feedback space, or of another one."""
        schema = self.machine.feedback_schema if space is None else space
        return self.commit(Rows(schema.id, None, np.ascontiguousarray(X), y, **more))

    def change(self, **changes: Any) -> Outcome:
        return self.commit(Configure(changes))

    def predict(self, X: Any) -> Prediction:
        return read.predict(self.machine.own, np.ascontiguousarray(X))

    def served(self, X: Any) -> ServedPrediction:
        """The prediction for one row as its client gets it."""
        return read.returned_prediction(self.machine.own, self.predict(X), 0)

    @property
    def report(self) -> dict[str, Any]:
        """The metrics as clients read them."""
        return read.metrics_report(self.machine)

    @property
    def marks(self) -> list[dict[str, Any]]:
        """The marks of the history, oldest first."""
        return self.report["marks"]


class Twin(Fed):
    """A model with a twin that is saved and loaded before it applies the same entry."""

    def commit(self, segment: Segment) -> Outcome:
        """Apply the entry to both and return the outcome."""
        twin, _ = save.from_bytes(save.to_bytes(self.machine))
        outcome = super().commit(segment)
        entry = Entry(self.version, 1000 * self.version, (segment,))
        assert [repr(outcome)] == [repr(one) for one in apply(twin, entry)]
        assert save.to_bytes(self.machine) == save.to_bytes(twin)
        return outcome
