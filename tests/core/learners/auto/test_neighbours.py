"""The nearest of the last rows, compared with a plain loop over all of them; and what they add to `auto`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.contract import Spec
from core.learners.neighbours import NEIGHBOURS, WINDOW, Neighbours
from core.numerics.rows import capacity

RNG = np.random.default_rng(8)
N = 1200
X = RNG.normal(size=(N, 3))
X[:9] = X[0]  # rows at one point count equally
X[N - 300 :] = X[N - 300 :].round()  # of many at the same distance the latest ones count
CLASSES = (np.hypot(X[:, 0], X[:, 1]) * 2).astype(np.int64) % 3
NUMBERS = np.sin(3 * X[:, 0]) + X[:, 1] ** 2


def learner(regression, classes=3):
    """A learner without any rows."""
    made = Neighbours(Spec("regression" if regression else "classification", 3, {}))
    for _ in range(0 if regression else classes):
        made.add_class()
    return made


def oracle(held, labels, x, regression, classes=3):
    """The prediction for a row by the equations, sorting all distances."""
    if not len(held):
        return (0.0, 0.0) if regression else np.full(classes, 1.0 / classes)
    held, labels = held[::-1], labels[::-1]
    squares = ((held - x) ** 2).sum(axis=1)
    near = np.argsort(squares, kind="stable")[:NEIGHBOURS]
    w = 1.0 / (0.05 + squares[near] / squares[near[-1]]) if squares[near[-1]] else np.ones(len(near))
    if regression:
        mean = w @ labels[near] / w.sum()
        return mean, np.sqrt(w @ (labels[near] - mean) ** 2 / w.sum())
    return np.array([w[labels[near] == c].sum() + 1.0 / classes for c in range(classes)]) / (w.sum() + 1.0)


@pytest.mark.parametrize("regression", [False, True])
def test_it_is_the_nearest_rows(regression):
    """With fewer rows than the window and with more, one by one and in blocks."""
    y = NUMBERS if regression else CLASSES
    whole, rows = learner(regression), learner(regression)
    told = whole.learn(X, y)
    for i in range(N):
        found = rows.learn(X[i : i + 1], y[i : i + 1])
        assert found.value[0] == told.value[i]
        if i % 97 < 3:
            expected = oracle(X[max(0, i - WINDOW) : i], y[max(0, i - WINDOW) : i], X[i], regression)
            own = (told.value[i], told.std[i]) if regression else told.probabilities[i]
            assert_allclose(own, expected, rtol=1e-9, atol=1e-12)
    assert all(np.array_equal(own, rows.to_arrays()[0][name]) for name, own in whole.to_arrays()[0].items())
    assert WINDOW == len(whole.labels)


def test_room_grows_with_the_rows():
    """An idle learner is small; the announced size covers a full one."""
    few = learner(True)
    assert 16 == len(few.labels)
    few.learn(X[:40], NUMBERS[:40])
    assert (64, 64) == (len(few.labels), capacity(40, WINDOW))
    few.learn(X, NUMBERS)
    assert few.nbytes <= Neighbours.state_bytes(few.spec, 0)


def test_it_forgets_and_continues_with_further_columns():
    """After forgetting it knows nothing; further columns count as 0 for earlier rows."""
    few = learner(True)
    few.learn(X, NUMBERS)
    more = Neighbours(Spec("regression", 5, {}))
    more.extend(few, np.array([0, 2, 4]))
    wide = np.zeros((10, 5))
    wide[:, [0, 2, 4]] = X[:10]
    assert_allclose(few.predict(X[:10]).value, more.predict(wide).value)
    few.forget()
    assert 0.0 == few.predict(X[:1]).value[0]
