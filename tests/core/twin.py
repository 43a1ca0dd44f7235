"""Models that are fed segments, one an entry; and beside a twin, which must do the same, bit for bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.config import Config
from core.entry import Entry, Outcome, Rows, Segment
from core.model import Model, save
from core.model.apply import apply


class Fed:
    """A model and the version of its log.

    Attributes:
        machine: the model.
        version: of its last entry.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.machine, self.version = Model.first(Config.parse(body)), 0

    def commit(self, segment: Segment) -> Outcome:
        """The outcome of an entry with one segment."""
        self.version += 1
        (outcome,) = apply(self.machine, Entry(self.version, 1000 * self.version, (segment,)))
        return outcome

    def learn(self, X: Any, y: Any, space: Any = None, **more: Any) -> Outcome:
        """Learn rows of the space of feedback, or of another one."""
        schema = self.machine.feedback_schema if space is None else space
        return self.commit(Rows(schema.id, None, np.ascontiguousarray(X), y, **more))


class Twin(Fed):
    """One whose every entry is applied as well by a twin that is saved and loaded before it."""

    def commit(self, segment: Segment) -> Outcome:
        """The outcome of both."""
        twin, _ = save.from_bytes(save.to_bytes(self.machine))
        outcome = super().commit(segment)
        entry = Entry(self.version, 1000 * self.version, (segment,))
        assert [repr(outcome)] == [repr(one) for one in apply(twin, entry)]
        assert save.to_bytes(self.machine) == save.to_bytes(twin)
        return outcome
