"""Dynamic ODM with labels that come late: its candidates are judged by what they said when a row was predicted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.entry import Entry, Reset, Rows, Switch
from core.features import Feature
from core.model import save
from core.model.apply import apply
from tests.core.learners.odm.test_odm import built, stream
from tests.core.twin import Fed, Twin

X, Y = stream(700, flip=300)


def fed(kind=Fed, **params):
    """A model of two features."""
    body = {"algorithm": "dynamic_odm", "task": "classification", "features": ["a", "b"], "watch": None}
    return kind({**body, "params": params})


def told(learner, *kept):
    """What ``learn`` is told of tracked rows, None: of others."""
    return np.hstack([np.zeros((len(kept), 1)), learner.returned_past(kept)])


def cost(w, margin):
    """The cost of a row for a candidate w, one column of two classes, as in steps.py, with the default parameters."""
    short, over = max(0.9 - margin, 0.0), max(margin - 1.1, 0.0)
    return min((w @ w / 2 + 10.0 * (short**2 + 0.1 * over**2) / 0.81) / 40.0, 1.0)


@pytest.mark.parametrize("late", [0, 20, 80])
def test_a_late_row_moves_the_weights_by_what_was_said(late):
    """All but the weights is learned as ever; of candidates that splits have added, each said what the last did.

    The losses of a row whose label comes after d others count 1 / sqrt(d).
    """
    learner, other = built(), built()
    for one in (learner, other):
        one.learn(X[:20], Y[:20])
    x, label = X[20:21] * 0.5, 1
    scores = learner.W[0] @ [*x[0], 1.0]
    kept = learner.past(learner.predict(x), 0)
    for one in (learner, other) if late else ():
        one.learn(X[21 : 21 + late], Y[21 : 21 + late])
    K, before = learner.count, learner.shares.copy()
    said = np.append(scores[: int(kept[2])], np.full(K - int(kept[2]), scores[int(kept[2]) - 1]))
    lost = np.array([cost(learner.W[0, k], said[k]) for k in range(K)]) / np.sqrt(max(late, 1))
    learner.learn(x, np.array([label]), past=told(learner, kept))
    other.learn(x, np.array([label]))
    shares = before[:K] * np.exp(-3.0 * lost)
    assert_allclose(0.999 * shares / shares.sum() + 0.001 / K, learner.shares[:K], rtol=1e-9)
    assert learner.W.tobytes() == other.W.tobytes()
    assert (late == 0) == (learner.shares.tobytes() == other.shares.tobytes())
    assert learner.calibration.tobytes() == other.calibration.tobytes()


def test_a_label_that_comes_at_once_is_learned_like_an_untracked_row():
    """Nothing has changed since the prediction, also with other rows in the same call and four classes."""
    classes = (X[:, 0] > 0) + 2 * (X[:, 1] > 0.5)
    for y, late in ((Y, 1), (classes, 1), (Y, 30)):
        learner, other = built(classes=y.max() + 1), built(classes=y.max() + 1)
        for at in range(0, 150, late):
            rows = slice(at, at + late)
            found = learner.predict(X[rows])
            kept = [learner.past(found, row) if row % 2 == 0 else None for row in range(late)]
            learner.learn(X[rows], y[rows], past=told(learner, *kept))
            other.learn(X[rows], y[rows])
        assert (late == 1) == (repr(learner.to_arrays()) == repr(other.to_arrays()))


@pytest.mark.parametrize(
    "params", [{}, {"vote": "majority"}, {"variant": "paper"}, {"candidates": 40}, {"random_features": 3}], ids=str
)
def test_late_rows_that_come_together_leave_the_bits_of_single_ones(params):
    """Through splits, new classes, a reset and a change of features; the model of single rows is loaded before each."""
    single, together, rng, waiting = fed(Twin, **params), fed(**params), np.random.default_rng(2), []
    changes = {100: Reset(), 160: Switch("begin", (Feature("b"), Feature("c")), "linear"), 220: Switch("abort")}
    for row in range(290):
        if row in changes:
            assert {None} == {one.commit(changes[row]).refusal for one in (single, together)}
        label = [f"class {rng.integers(0, 2 if row < 60 else 4)}"]
        waiting.append(
            (X[row : row + 1, :3], label, single.served(X[row : row + 1, :2]) if rng.random() < 0.9 else None)
        )
        if len(waiting) < rng.integers(1, 60):
            continue
        space, due = single.machine.feedback_schema, []
        for x, label, served in waiting:
            due.append(Rows(space.id, None, np.ascontiguousarray(x[:, : space.width]), label, served=served))
            single.commit(due[-1])
        together.version, waiting = single.version, []
        apply(together.machine, Entry(together.version, 1000 * together.version, tuple(due)))
        assert save.to_bytes(single.machine) == save.to_bytes(together.machine)
    assert single.machine.own.answers.metrics.rows > 100


@pytest.mark.parametrize("classes", [2, 4])
def test_strange_numbers_that_a_row_was_kept_with_are_not_used(classes):
    """Of another number of columns or candidates, not whole or not finite; huge scores leave a sound state."""
    y = (X[:, 0] > 0) + (classes - 2) * (X[:, 1] > 0.5)
    learner, other = built(classes=classes), built(classes=classes)
    for one in (learner, other):
        one.learn(X[:200], y[:200])
    m, nan, inf = len(learner.W), np.nan, np.inf
    strange = [(), (1.0,), (nan, nan, nan), (0.0, m, 0.0), (0.0, m, -1.0, 1.0), (0.0, m + 1.0, 1.0, *[1.0] * (m + 1))]
    strange += [(0.0, m, 2.0, *[1.0] * m), (0.0, m, inf, 1.0), (0.0, m, 1.0, *[nan] * m), (nan, m, 1.0, *[1.0] * m)]
    strange += [(0.0, 0.0, 5.0), (0.0, -1.0, -1.0, 1.0), (0.0, m / 2, 2.0, *[1.0] * m), (0.0, m, 1.0, *[inf] * m), None]
    n = len(strange)
    learner.learn(X[200 : 200 + n], y[200 : 200 + n], past=told(learner, *strange))
    other.learn(X[200 : 200 + n], y[200 : 200 + n])
    assert repr(learner.to_arrays()) == repr(other.to_arrays())
    for rows, score in ((-1e300, 1e308), (1e300, -1e308), (0.0, 1e308)):
        huge = (rows, m, 2.0, *[score, -score] * m)
        learner.learn(X[:2], y[:2], past=told(learner, huge, huge))
    fresh = built(classes=classes)
    fresh.load_arrays(*learner.to_arrays())
    assert np.isfinite(fresh.predict(X).probabilities).all()


def test_a_few_scores_are_kept_and_of_one_candidate_none():
    """There is nothing to choose; and many scores would take much memory for each row that waits for its label."""
    for algorithm, more, classes, kept in (
        ("odm", {}, 2, None),
        ("dynamic_odm", {}, 2, 3 + 6),
        ("dynamic_odm", {}, 10, 3 + 60),
        ("dynamic_odm", {}, 11, None),
    ):
        learner = built(algorithm, classes=classes, **more)
        learner.learn(X[:200], np.arange(200) % classes)
        past = learner.past(learner.predict(X[:3]), 2)
        assert kept == (None if past is None else len(past))
