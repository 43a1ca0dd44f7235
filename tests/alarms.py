"""A machine that raises an alarm at every row whose first feature says so: drift events without a drift.

What it does is a function of state and entry, as everything a machine does: replicas and replays find the same alarms.
"""

from collections.abc import Callable

import pytest

from core.drift.outbox import Change, Drift
from core.entry import Entry, Learned, Outcome, Rows
from core.machine import Machine

LOUD = 1000.0
"""A row whose first feature is at least this raises an alarm."""


def raising(apply: Callable[[Machine, Entry], list[Outcome]]) -> Callable[[Machine, Entry], list[Outcome]]:
    """``Machine.apply`` and the alarms."""

    def applied(machine: Machine, entry: Entry) -> list[Outcome]:
        outcomes = apply(machine, entry)
        for segment, outcome in zip(entry.segments, outcomes, strict=True):
            if not isinstance(segment, Rows) or not isinstance(outcome, Learned):
                continue
            first = outcome.rows - len(segment.X) + 1
            for at, row in enumerate(segment.X):
                if row[0] >= LOUD:
                    machine.outbox.put(_alarm(machine, entry, first + at, float(row[0])))
        return outcomes

    return applied


def _alarm(machine: Machine, entry: Entry, row: int, value: float) -> Drift:
    last = machine.outbox.last
    index = last[1] + 1 if last[0] == entry.version else 0
    change = Change("a", 0.0, value)
    return Drift(
        entry.version, index, row, entry.time_ms, "class_mean", "UP", (change,), None, None, 0.1, 90, 30, "report"
    )


def install() -> None:
    """Let every machine of this process raise them, for good."""
    Machine.apply = raising(Machine.apply)  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def alarming():
    """Let every machine of this process raise them, for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "apply", raising(Machine.apply))
        yield
