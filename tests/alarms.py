"""A model that raises an alarm at every row whose first feature says so: drift events without a drift. The second
feature says what becomes of the alarm.

What it does is a function of state and entry, as everything a model does: replicas and replays find the same alarms.
"""

from collections.abc import Callable

import pytest

from core.drift.outbox import Change, Drift, Joined
from core.entry import Entry, Outcome, Rows
from core.model import Model
from service.runtime.replicas import batches
from service.store.log import entry_runs

LOUD = 1000.0
"""A row whose first feature is at least this raises an alarm."""
JOINS, HELD_BACK, OF_ANOTHER = 1.0, 2.0, 3.0
"""Second features of an alarm that joins the model's newest event, of an event that the cool-down holds back, and of an
event of a challenger."""


def raising(apply: Callable[[Model, Entry], list[Outcome]]) -> Callable[[Model, Entry], list[Outcome]]:
    """``core.model.apply`` and the alarms."""

    def applied(model: Model, entry: Entry) -> list[Outcome]:
        outcomes = apply(model, entry)
        for segment, outcome in zip(entry.segments, outcomes, strict=True):
            if not isinstance(segment, Rows) or outcome.refusal is not None:
                continue
            first = outcome.rows - len(segment.X) + 1
            for at, row in enumerate(segment.X):
                if row[0] >= LOUD and row[1] == JOINS:
                    change = Change("a", 0.0, float(row[0]))
                    position = model.outbox.next_position(entry.version)
                    model.outbox.join(Joined("error_rate", "DOWN", first + at, (change,), position), None)
                elif row[0] >= LOUD:
                    model.outbox.put(_alarm(model, entry, first + at, *map(float, row[:2])))
        return outcomes

    return applied


def _alarm(model: Model, entry: Entry, row: int, value: float, then: float) -> Drift:
    challenger = "other" if then == OF_ANOTHER else None
    place, windows = model.outbox.next_position(entry.version), (90, 30)
    change = Change("a", 0.0, value)
    means = ("class_mean", "UP", (change,), None, None, 0.1)
    how = {"held_back": then == HELD_BACK, "challenger": challenger}
    return Drift(*place, row, entry.time_ms, *means, *windows, "report", place, **how)


@pytest.fixture(scope="module")
def alarming():
    """Let every model of this process raise them, for the tests of a module; no entries are merged meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "apply", raising(batches.apply))
        patch.setattr(entry_runs, "MERGED_ENTRIES_MAX", 1)
        yield
