"""Hundreds of schedules, each decided by its seed: afterwards all replicas are equal, or the error was loud.

``SCHEDULES=10000 .venv/bin/pytest tests/simulator`` runs ten thousand.

python -m tests.simulator.schedule SEED     runs one of them again and prints what happens
"""

import logging
import os
from collections import Counter

import pytest

from tests.simulator.schedule import play

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.timeout(600)]

SCHEDULES = int(os.environ.get("SCHEDULES", "800"))
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
FEW = 60
"""The number in ``make test``."""
PARTS = max(1, round(SCHEDULES / 1000))
SEEDS = [
    range(FIRST_SEED + part * SCHEDULES // PARTS, FIRST_SEED + (part + 1) * SCHEDULES // PARTS) for part in range(PARTS)
]
ENOUGH = 400
"""With this many schedules everything in ``REACHED`` must have happened; fewer may miss some of it."""
REACHED = (
    "abort", "ahead", "alarm published by another replica", "alarms", "applied Challenge", "applied Configure",
    "applied Promote", "applied Restore", "applied Withdraw", "apply in a thread", "apply on the loop",
    "calm without loads", "complete", "crash", "cut", "entries merged", "eviction race", "evictions",
    "fenced by the store", "fork", "gone", "later alarms", "lost reply resent and recognised", "outage",
    "reads compared", "recreate", "refused Switch", "reload during flight", "second model judged",
    "second model waited", "segments in pieces", "snapshot that existed already", "state in several pieces", "stop",
    "trimmed",
)  # fmt: skip
"""What every large part must have met: events of the replicas and branches of the service."""


@pytest.fixture
def quiet():
    """Silence the service's log: it would report the faults that the simulation makes on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.parametrize(
    "seeds",
    [range(FIRST_SEED, FIRST_SEED + FEW), *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in SEEDS)],
    ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}",
)
def test_replicas_agree_with_their_log(seeds):
    """Lost and late packets, crashes, failovers, threads, evictions, changes of features, alarms, states, all mixed."""
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


def test_a_seed_is_the_same_run_each_time():
    """So a failing seed can be run again."""
    told = [[], []]
    for said in told:
        play(7, lambda *words, said=said: said.append(" ".join(map(str, words))))
    assert told[0]
    assert told[0] == told[1]
