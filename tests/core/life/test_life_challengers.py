"""A model with challengers lives through everything clients may do."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.config import Config
from core.entry import Entry, Rows
from core.learners.catalogue import ALGORITHMS
from core.metrics.difference import PairedDifference
from core.model import Model, learn, save
from core.model.apply import apply
from tests.core.life.life import Contested, Life
from tests.core.life.logs import Written, part
from tests.core.life.steps import CONTESTED_STORY, WHOLE_LIFE
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


LIVES = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[*HealthCheck],
    phases=[Phase.generate],  # lives of many rows take minutes to shrink
)


def favours_second(difference, of=1):
    """Whether the second learner is better, by evidence that lives are long enough for."""
    return difference.rows >= 10 * of and difference.interval(of)[0] + difference.interval(of)[1] > 0


def apply_by_row(model, entry):
    """Apply an entry as if each of its rows had come alone at the same moment."""
    for segment in entry.segments:
        kept = [row for row in range(len(segment.X)) if row not in segment.skip]
        for one in [part(segment, row, row + 1) for row in kept] or [segment]:
            apply(model, Entry(entry.version, entry.time_ms, (one,)))


@pytest.mark.slow_but("rls")
@pytest.mark.parametrize(
    ("algorithm", "task"),
    [pytest.param("rls", "classification", id="rls-classes"), pytest.param("rls", "regression", id="rls")],
)
def test_rows_among_which_challengers_are_promoted_are_the_same_one_by_one(algorithm, task, monkeypatch):
    """With late labels, drift, new classes, and beside a model outside: the same bits after every entry."""
    body, promotions = plain_body(ALGORITHMS[algorithm], task, "report"), Counter()

    @settings(LIVES)
    @given(steps=st.lists(CONTESTED_STORY, min_size=8, max_size=20))
    def any_life(steps):
        life = Life(body, False, Counter(), Written)
        for step in [("rows", 1), ("challenge", 0), ("served", 7), *steps]:
            life.take(step)
        model = Model.first(Config.parse(body))
        by_row = Model.first(model.config)
        for entry in life.model.log:
            own, outside = model.own, model.outside
            whole = apply(model, entry)
            rows = all(isinstance(segment, Rows) for segment in entry.segments)
            (apply_by_row if rows and all(one.refusal is None for one in whole) else apply)(by_row, entry)
            promotions[outside is not None] += own is not model.own and rows
            assert save.to_bytes(model) == save.to_bytes(by_row)

    monkeypatch.setattr(PairedDifference, "favours_second", favours_second)
    monkeypatch.setattr(learn, "TEST_EVERY", 10)
    any_life()
    assert promotions[True]
