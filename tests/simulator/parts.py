"""Schedules in parts, each a test of its own; two files share them, so that two processes can."""

import os
from collections import Counter

from tests.simulator.schedule import play

SCHEDULES = int(os.environ.get("SCHEDULES", "800"))
"""``SCHEDULES=1000000 .venv/bin/pytest tests/simulator`` looks further."""
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
PARTS = max(2, round(SCHEDULES / 1000))
SEEDS = [
    range(FIRST_SEED + part * SCHEDULES // PARTS, FIRST_SEED + (part + 1) * SCHEDULES // PARTS) for part in range(PARTS)
]
ENOUGH = 400
"""Schedules in which everything of ``REACHED`` must have happened; a smaller part may lack some of it."""
REACHED = (
    "abort",
    "ahead",
    "alarm published by another replica",
    "alarms",
    "apply in a thread",
    "apply on the loop",
    "complete",
    "applied Challenge",
    "applied Configure",
    "applied Promote",
    "applied Withdraw",
    "calm without loads",
    "crash",
    "cut",
    "entries merged",
    "eviction race",
    "evictions",
    "fenced by the store",
    "fork",
    "gone",
    "later alarms",
    "lost reply resent and recognised",
    "outage",
    "reads compared",
    "recreate",
    "refused Switch",
    "reload during flight",
    "applied Restore",
    "second model judged",
    "second model waited",
    "segments in pieces",
    "snapshot that existed already",
    "state in several pieces",
    "stop",
    "trimmed",
)
"""What every part must have come across: what happened to the replicas, and branches of the service."""


def judge(seeds: range) -> None:
    """Run a part.

    Raises:
        AssertionError: naming the seeds that fail, or what has not happened in any of them.
    """
    failed: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for seed in seeds:
        try:
            counts += play(seed)
        except Exception as error:
            failed[seed] = repr(error)
    assert {} == failed, f"again: python -m tests.simulator.schedule {next(iter(failed))}"
    missing = [what for what in REACHED if not counts[what]]
    if len(seeds) >= ENOUGH:
        assert [] == missing, "these schedules are too tame"
