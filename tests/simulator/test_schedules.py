"""Hundreds of schedules, each decided by its seed: after every one the replicas are equal, or the error was loud.

``SCHEDULES=10000 .venv/bin/pytest tests/simulator`` runs ten thousand. The second half is in test_more_schedules.py.

python -m tests.simulator.schedule SEED     runs one of them again, and says what happened in it
"""

import pytest

from tests.simulator.parts import SEEDS, judge
from tests.simulator.schedule import play

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", SEEDS[::2], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_replicas_agree_with_their_log(seeds):
    """Lost and late packets, crashes, failovers, threads, evictions, changes of features, alarms, states, all mixed."""
    judge(seeds)


def test_a_seed_is_the_same_run_each_time():
    """A failing one can be looked at again."""
    told = [[], []]
    for said in told:
        play(7, lambda *words, said=said: said.append(" ".join(map(str, words))))
    assert told[0]
    assert told[0] == told[1]
