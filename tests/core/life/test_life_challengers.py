"""A model with challengers lives through everything clients may do."""

from collections import Counter

import pytest

from core.learners.catalogue import ALGORITHMS
from tests.core.life.life import Contested
from tests.core.life.steps import WHOLE_LIFE
from tests.core.life.streams import plain_body


@pytest.mark.slow_but("rls")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("algorithm", "task", "steps"),
    [
        pytest.param("dfop", "classification", WHOLE_LIFE, id="dfop"),
        pytest.param("rls", "regression", WHOLE_LIFE[:62], id="rls"),  # until states of two phases are restored
    ],
)
def test_models_with_challengers_live_through_everything(algorithm, task, steps):
    """Nothing raises, and log, saved state and machine agree, whatever happens to the challengers."""
    counts = Counter()
    life = Contested(plain_body(ALGORITHMS[algorithm], task, "report"), True, counts)
    for step in steps:
        life.take(step)
    life.end()
    met = ("challenged", "withdrawn", *(f"swapped in {phase}" for phase in ("steady", "overlap", "ensemble")))
    assert [] == [what for what in met if not counts[what]]
