"""The lives of models of ``auto`` and ``ga2m``."""

from collections import Counter

import pytest

from tests.core.life.lives import cases, live

CASES = cases("auto")
COUNTS = Counter()


@pytest.mark.slow_but("auto-c*")
@pytest.mark.timeout(900)  # a life that fails is made shorter before it is shown
@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_it_lives_through_everything(algorithm, task):
    """Whatever clients do: nothing raises, and log, saved state and machine agree."""
    live(algorithm, task, COUNTS)
