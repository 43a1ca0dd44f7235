"""Ten thousand schedules, each decided by its seed: after every one the replicas are equal, or the error was loud.

python -m tests.simulator.schedule SEED     runs one of them again, and says what happened in it
"""

import logging
import os
from collections import Counter

import pytest

from tests.simulator.schedule import play

SCHEDULES = int(os.environ.get("SCHEDULES", "10000"))
"""``SCHEDULES=1000000 make pytest PYTEST_ARGS=tests/simulator`` looks further."""
PARTS = 40
SEEDS = [range(part * SCHEDULES // PARTS, (part + 1) * SCHEDULES // PARTS) for part in range(PARTS)]


@pytest.fixture(autouse=True)
def _quiet():
    """The service has much to say about its faults; here they are meant."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_replicas_agree_with_their_log(seeds):
    """Lost and late packets, crashes, outages, failovers, snapshots, resets and new models, all mixed."""
    failed = {}
    for seed in seeds:
        try:
            play(seed)
        except Exception as error:
            failed[seed] = repr(error)
    assert {} == failed, f"again: python -m tests.simulator.schedule {next(iter(failed))}"


def test_schedules_are_wild_enough():
    """Among the first few hundred there is plenty of everything that is meant to happen."""
    counts = sum((play(seed) for seed in range(300)), Counter())
    least = {"_feedback": 1000, "_crash": 100, "_cut": 100, "_snapshot": 200, "_reset": 50, "_recreate": 10}
    assert dict.fromkeys(least, True) == {kind: counts[kind] > few for kind, few in least.items()}
    assert counts["replicas-ahead"] > 10


def test_a_seed_is_the_same_run_each_time():
    """A failing one can be looked at again."""
    told = [[], []]
    for said in told:
        play(7, lambda *words, said=said: said.append(" ".join(map(str, words))))
    assert told[0]
    assert told[0] == told[1]
