"""The lives of models of FESL."""

from collections import Counter

import pytest

from tests.core.life.lives import cases, live, missed

CASES = cases("fesl")
COUNTS = Counter()


@pytest.mark.slow_but("fesl_c-c*")
@pytest.mark.timeout(900)  # a life that fails is made shorter before it is shown
@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_it_lives_through_everything(algorithm, task):
    """Whatever clients do: nothing raises, and log, saved state and machine agree."""
    live(algorithm, task, COUNTS)


def test_the_lives_were_eventful():
    """Every kind of event was met: drifts and what they ask for, changes of features, late labels, refusals."""
    if COUNTS["models"] < len(CASES):
        pytest.skip("not all of them have lived")
    assert [] == missed(COUNTS)
