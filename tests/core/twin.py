"""A machine beside a twin that is saved and loaded before every entry: both must do the same, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.config import Config
from core.entry import Entry, Outcome, Rows, Segment
from core.model import Model, save
from core.model.apply import apply


class Twin:
    """A model and the version of its log.

    Attributes:
        machine: the model.
        version: of its last entry.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.machine, self.version = Model.first(Config.parse(body)), 0

    def commit(self, segment: Segment) -> Outcome:
        """The outcome of an entry with one segment."""
        twin, _ = save.from_bytes(save.to_bytes(self.machine))
        self.version += 1
        entry = Entry(self.version, 1000 * self.version, (segment,))
        (outcome,) = apply(self.machine, entry)
        assert [repr(outcome)] == [repr(one) for one in apply(twin, entry)]
        assert save.to_bytes(self.machine) == save.to_bytes(twin)
        return outcome

    def learn(self, X: Any, y: Any, space: Any = None) -> Outcome:
        """Learn rows of the space of feedback, or of another one."""
        schema = self.machine.feedback_schema if space is None else space
        return self.commit(Rows(schema.id, None, np.ascontiguousarray(X), y))
