"""Metrics that counted classes as they appeared count labels as they are declared."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.state.answers_of_3 import LAST, LEADER, ROWS, in_declared_order


def state(declared, seen, counts, rows=3):
    """A state of format 3 as far as its metrics go: three rows, the ring with room for more."""
    scalars, ring = np.zeros(19), np.zeros((16, 4))
    scalars[[ROWS, LAST, LEADER]] = rows, -1.0 if rows == 0 else 1.0, -1.0 if rows == 0 else 0.0
    ring[:rows, :2] = np.array([[-1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])[:rows]
    arrays = {"metrics.scalars": scalars, "metrics.ring": ring, "metrics.counts": np.array(counts, dtype=float)}
    header = {"config": {"labels": declared}, "state": {"labels": {"labels": seen}}}
    return {**arrays, "pipeline.learner.weights": np.ones(2)}, header


def test_classes_take_the_places_of_their_labels():
    """Counts, the window, the last label and the most frequent one; one not seen yet counts nothing; 0 is not False."""
    arrays, header = state([False, "a", 0], [0, "a"], [[2, 1]] * 6)
    found, same = in_declared_order(arrays, header)
    assert header == same
    assert_array_equal([[0, 1, 2]] * 6, found["metrics.counts"])
    assert_array_equal([[-1, 2], [2, 2], [2, 1], [0, 0]], found["metrics.ring"][:4, :2])
    assert (1.0, 2.0) == tuple(found["metrics.scalars"][[LAST, LEADER]])
    assert found["pipeline.learner.weights"] is arrays["pipeline.learner.weights"]
    assert_array_equal([[2, 1]] * 6, arrays["metrics.counts"])


def test_what_declares_no_labels_stays_as_it_is():
    """As they appeared is as they are said; and a regression has no classes."""
    arrays, header = state(None, ["b", "a"], [[2, 1]] * 6)
    assert in_declared_order(arrays, header) == (arrays, header)
    del arrays["metrics.counts"]
    assert in_declared_order(arrays, header) == (arrays, header)


def test_a_state_before_the_first_row():
    """Nothing to put in order."""
    arrays, header = state(["a", "b"], [], np.zeros((6, 0)), rows=0)
    found, _ = in_declared_order(arrays, header)
    assert ((6, 0), -1.0) == (found["metrics.counts"].shape, found["metrics.scalars"][LAST])


@pytest.mark.parametrize("seen", [["a", "c"], ["a"]])
def test_a_state_that_cannot_be_is_refused(seen):
    """A label that is not declared, or other classes than were counted."""
    with pytest.raises(ValueError, match="not in list|differ"):
        in_declared_order(*state(["a", "b"], seen, [[2, 1]] * 6))
