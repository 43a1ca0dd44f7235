"""Models of every algorithm live through everything clients may do."""

from collections import Counter, defaultdict

import pytest

from core.learners.catalogue import ALGORITHMS
from tests.core.life.lives import DENSE, FAMILIES, SPARSE, cases, live

COUNTS = defaultdict(Counter)
FORGOTTEN = ("drift: class_mean, forget", "drift: error_rate, forget")
OF_ITS_OWN = ("drift of its own in steady", "drift of its own in ensemble", "drift of recovered columns")
EVENTS = {
    "dfop": (*DENSE, *FORGOTTEN),
    "odm": (*DENSE, *FORGOTTEN),
    "fesl": DENSE,
    "vigo": (*DENSE, *FORGOTTEN, *OF_ITS_OWN),
    "sparse": SPARSE,
}
"""The events that the lives of a family must meet."""
CASES = [(family, *case) for family in FAMILIES for case in cases(family)]


@pytest.mark.slow_but(
    "*-dfop-c*-forget", "*-dynamic*-report", "*-fesl_c-c*-reset", "*-vigod-*-forget",
    "*-auto-c*-report", "sparse-*-r*-forget", "*-rls-c*-random", "*-vigo-*-random",
)  # fmt: skip
@pytest.mark.timeout(900)  # a failing life is shrunk before it is shown
@pytest.mark.parametrize(("family", "algorithm", "task", "kind"), CASES)
def test_it_lives_through_everything(family, algorithm, task, kind):
    """Whatever clients do: nothing raises, and log, saved state and machine agree."""
    live(algorithm, task, kind, COUNTS[family])


@pytest.mark.slow
@pytest.mark.parametrize("family", EVENTS)
def test_the_lives_were_eventful(family):
    """Every kind of event was met: drifts and their actions, changes of features, late labels, refusals."""
    if COUNTS[family]["lives"] < len(cases(family)):
        pytest.skip("not all lives of this family have run")
    assert [] == [what for what in EVENTS[family] if not COUNTS[family][what]]


def test_every_algorithm_of_the_catalogue_lives():
    """Each belongs to exactly one family."""
    assert sorted(ALGORITHMS) == sorted(algorithm for family in FAMILIES.values() for algorithm in family)
