"""Dynamic ODM with inputs that break naive implementations, on long streams, and its state."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.core.learners.odm.test_odm import built, stream

EXPLICIT, CONSTANT = {"step": "explicit"}, {"learning_rate": 1.0}
STEPS = ({}, EXPLICIT, CONSTANT, EXPLICIT | CONSTANT, {"variant": "paper"})


@pytest.mark.parametrize("params", STEPS, ids=str)
@pytest.mark.parametrize("size", [1e-308, 1e-160, 1e-8, 1e8, 1e160, 1e308])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.filterwarnings("error")
def test_units_leave_everything_finite(params, size, classes):
    """Rows of any size, unscaled and with any step, leave a finite state within its ball."""
    X, y = stream(300)
    learner = built(classes=classes, **params)
    y = y + 2 * (X[:, 0] > 0.5) if classes > 2 else y
    told = learner.learn(X * size if size < 1e300 else np.clip(X, -1, 1) * size, y)
    assert np.isfinite(told.probabilities).all()
    squares = np.square(learner.W).sum(axis=2)
    assert ((squares if classes == 2 else squares.sum(axis=0) / 2) <= 20.0 * (1 + 1e-9)).all()
    assert all(np.isfinite(array).all() for array in learner.to_arrays()[0].values())


@pytest.mark.parametrize("params", STEPS[:2], ids=str)
def test_collinear_and_constant_columns_do_no_harm(params):
    """Copies, sums and constants as further columns leave the predictions about as good."""
    X, y = stream(3000)
    more = np.hstack([X, X, X.sum(axis=1, keepdims=True), np.zeros((3000, 1)), np.full((3000, 1), 3.0)])
    right = [(built(d=Z.shape[1], **params).learn(Z, y).value == y).mean() for Z in (X, np.ascontiguousarray(more))]
    assert right[1] > right[0] - 0.02


def test_weights_never_underflow():
    """However long one candidate stays better, no other falls below its minimal share."""
    X, y = stream(150_000)
    learner = built()
    learner.learn(X, y)
    K = len(learner.info()["epochs"])
    assert K == 1 + np.log2(2**17 / 8) + 1
    assert learner.shares[:K].min() >= 1e-3 * np.exp(-3) / (K + 1)
    assert_allclose(1.0, learner.shares[:K].sum(), rtol=1e-12)


def test_the_papers_weights_come_back_from_underflow():
    """A candidate whose share underflowed keeps its sum of losses, and can become the best again."""
    X, y = stream(20_000)
    learner = built(variant="paper", horizon=10.0, bound=10.0)
    learner.learn(X, y)
    assert learner.shares.min() < 1e-300
    behind = int(learner.shares.argmin())
    losses = learner.losses.copy()
    losses[behind] = losses.min() - 1.0
    arrays, header = learner.to_arrays()
    learner.load_arrays({**arrays, "losses": losses}, header)
    learner.learn(X[:1], y[:1])
    assert behind == learner.shares.argmax()


def test_one_versus_rest_states_still_load():
    """Their columns may be larger in total than a candidate's can be: they load, shrink, and predict much the same."""
    X, _ = stream(400)
    y = np.argmax(X[:, :3], axis=1)
    learner, older = built("odm", classes=3), built("odm", classes=3)
    learner.learn(X, y)
    arrays, header = learner.to_arrays()
    columns = arrays["weights"] - np.array([0, 0, 0, 0, 1.0])
    columns *= np.sqrt(19.9 / np.square(columns).sum(axis=2, keepdims=True))
    older.load_arrays({**arrays, "weights": columns}, header)
    before = older.predict(X).value
    told = older.learn(X[:1], y[:1])
    assert before[0] == told.value[0]
    assert np.square(older.W).sum() / 2 <= 20.0 * (1 + 1e-9)
    assert (older.predict(X).value == before).mean() > 0.9
    assert (older.learn(X, y).value == y).mean() > 0.8
