"""States of learners whose numbers are all within range but contradict each other."""

import numpy as np
import pytest

from tests.core.learners.auto.test_boosting import learner as boosting
from tests.core.learners.streams import learner_of, state

ROWS = 500
X = np.random.default_rng(5).normal(size=(ROWS, 3))
Y = (X.sum(axis=1) > 0).astype(np.int64)
MADE = {
    "boosting": lambda: boosting(2),
    "dfop": lambda: learner_of("dfop", 3, task="regression"),
    "dynamic_odm": lambda: learner_of("dynamic_odm", 3, 2),
    "ga2m": lambda: learner_of("ga2m", 3, 2),
    "ga2m of numbers": lambda: learner_of("ga2m", 3, task="regression"),
}
FORGED = [
    *(("boosting", "trees", (0, 0, 0), by) for by in (3.0, 0.5)),
    *(("boosting", "labels", 3, by) for by in (2.0, 0.5)),
    ("boosting", "edges", (1, 0), 9.0),
    ("boosting", "scores", (0, 0), 1e142),
    ("boosting", "held", (0, 0), 1e31),
    *(("boosting", "tally", 0, by) for by in (0.5, 40.0 - ROWS)),
    ("boosting", "tally", 1, -1e3),
    ("dfop", "mixing", 0, 2.0),
    ("dfop", "loss", 0, -1e9),
    ("dfop", "tally", (0, 0), -1.0),
    ("dfop", "calibration", 0, -100.0),
    ("dynamic_odm", "weights", ..., 100.0),
    *(("dynamic_odm", "shares", ..., by) for by in (1.0, -2.0)),
    *(("dynamic_odm", "losses", ..., by) for by in (-1e6, 1e6)),
    *(("dynamic_odm", "tally", at, by)
      for at, by in ((0, 1e6), (0, 0.5), (1, 1.0), (2, -1e6), (3, 20.0), (4, -1e3), (5, ROWS + 1.0), (5, 0.5))),
    ("dynamic_odm", "calibration", ..., -100.0),
    ("ga2m", "weights", 5, 1e3),
    ("ga2m of numbers", "gradients", 5, 1e308),
]  # fmt: skip
TOLD = {"ga2m": "weights", "ga2m of numbers": "variance"}


@pytest.mark.parametrize(("name", "array", "place", "by"), FORGED)
def test_inconsistent_numbers_are_refused(name, array, place, by):
    """No rows lead to such a state; the refusal changes nothing."""
    learner = MADE[name]()
    learner.learn(X, Y.astype(float) if learner.regression else Y)
    before = state(learner)
    arrays, header = learner.to_arrays()
    arrays[array][place] += by
    with pytest.raises(ValueError, match=TOLD.get(name)):
        learner.load_arrays(arrays, header)
    assert before == state(learner)


@pytest.mark.parametrize(("rows", "room"), [(0, 0), (0, 63), (0, 65), (100, 99), (100, 201), (500, 149), (500, 151)])
def test_boosting_has_room_for_the_rows_learned(rows, room):
    """It may have room for at most twice as many."""
    made = MADE["boosting"]()
    made.learn(X[:rows], Y[:rows])
    arrays, header = made.to_arrays()
    for name in ("held", "labels", "scores"):
        arrays[name] = np.zeros((room, *arrays[name].shape[1:]))
    with pytest.raises(ValueError, match="length does not match"):
        made.load_arrays(arrays, header)
