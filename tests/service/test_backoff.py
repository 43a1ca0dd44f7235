"""Pauses between attempts: bounded, growing, and not the same in every process."""

import random
import subprocess
import sys
from pathlib import Path

from service.runtime import backoff
from service.runtime.backoff import Backoff

ROOT = Path(backoff.__file__).parents[2]
FIRST = "import random; random.seed(1); from service.runtime.backoff import Backoff; print(Backoff(1.0, 8.0).next_s())"


def test_bounds_double_up_to_the_most():
    """And begin again after a success."""
    pauses = Backoff(0.1, 0.5, draw=lambda: 0.5)
    assert [0.05, 0.1, 0.2, 0.25, 0.25] == [pauses.next_s() for _ in range(5)]
    assert not pauses.first
    pauses.reset()
    assert pauses.first
    assert 0.05 == pauses.next_s()


def test_every_length_below_the_bound_occurs():
    """Pauses are spread over all of the bound, not around its end."""
    pauses = [Backoff(1.0, 8.0, random.Random(seed).random).next_s() for seed in range(200)]
    assert all(0 <= pause < 1 for pause in pauses)
    quarters = [sum(q <= 4 * pause < q + 1 for pause in pauses) for q in range(4)]
    assert all(30 < count < 70 for count in quarters)


def test_two_processes_that_seed_alike_pause_differently():
    """The source is the module's own."""
    told = {subprocess.run([sys.executable, "-c", FIRST], cwd=ROOT, capture_output=True).stdout for _ in range(2)}
    assert 2 == len(told)
