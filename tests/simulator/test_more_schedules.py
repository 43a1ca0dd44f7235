"""The second half of the schedules of test_schedules.py, for a process of its own."""

import pytest

from tests.simulator.parts import SEEDS, judge

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", SEEDS[1::2], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_replicas_agree_with_their_log(seeds):
    """As in test_schedules.py, with other seeds."""
    judge(seeds)
