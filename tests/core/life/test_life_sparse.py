"""The lives of models of sparse rows, which have no features to change; and that every algorithm lives."""

from collections import Counter

import pytest

from core.learners.catalogue import ALGORITHMS
from tests.core.life.lives import FAMILIES, cases, live

CASES = cases("sparse")
COUNTS = Counter()
REACHED = (
    *(f"drift: error_rate, {action}" for action in ("report", "reset", "forget")),
    "Switch refused",
    "label of the space in steady",
    "restored to steady",
    "reset in steady",
    "new class in steady",
    "some rows skipped",
    "wild rows",
)


@pytest.mark.slow_but("*-regression")
@pytest.mark.timeout(900)  # a life that fails is made shorter before it is shown
@pytest.mark.parametrize(("algorithm", "task"), CASES)
def test_it_lives_through_everything(algorithm, task):
    """Whatever clients do: nothing raises, and log, saved state and machine agree."""
    live(algorithm, task, COUNTS)


def test_the_lives_were_eventful():
    """Every kind of event that there is for sparse rows was met."""
    if COUNTS["models"] < len(CASES):
        pytest.skip("not all of them have lived")
    assert [] == [what for what in REACHED if not COUNTS[what]]


def test_every_algorithm_of_the_catalogue_lives():
    """Each stands in one file of lives."""
    assert sorted(ALGORITHMS) == sorted(algorithm for family in FAMILIES.values() for algorithm in family)
