"""A machine beside a twin that is saved and loaded before every entry: both must do the same, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.config import Config
from core.entry import Entry, Outcome, Rows, Segment
from core.model import Machine


class Twin:
    """A model and the version of its log.

    Attributes:
        machine: the model.
        version: of its last entry.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.machine, self.version = Machine(Config.parse(body)), 0

    def commit(self, segment: Segment) -> Outcome:
        """The outcome of an entry with one segment."""
        twin, _ = Machine.from_bytes(self.machine.to_bytes())
        self.version += 1
        entry = Entry(self.version, 1000 * self.version, (segment,))
        (outcome,) = self.machine.apply(entry)
        assert [repr(outcome)] == [repr(one) for one in twin.apply(entry)]
        assert self.machine.to_bytes() == twin.to_bytes()
        return outcome

    def learn(self, X: Any, y: Any, space: Any = None) -> Outcome:
        """Learn rows of the space of feedback, or of another one."""
        schema = self.machine.feedback_schema if space is None else space
        return self.commit(Rows(schema.id, None, np.ascontiguousarray(X), y))
