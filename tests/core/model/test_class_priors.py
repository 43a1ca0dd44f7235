"""A class with few rows: the prior from its number of rows, and that one mistyped label attracts no answers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Prediction
from core.metrics.class_kernels import CLASS_ROWS, SEEN
from tests.benchmarks.streams import generators
from tests.core.model.scored_answers import answered, answers_of, scored
from tests.core.twin import Fed

ROWS = 2000
STREAMS = {
    "mixed": lambda: generators.mixed_kinds(0, ROWS),
    "chess": lambda: generators.chess_board(0, ROWS),
    "led": lambda: generators.led(0, ROWS),
}


def model_of(algorithm, X):
    """A model for rows like these."""
    features = [f"x{j}" for j in range(X.shape[1])]
    return Fed({"algorithm": algorithm, "task": "classification", "features": features, "watch": None})


def drawn(name):
    X, y = STREAMS[name]()[:2]
    return np.asarray(X, dtype=np.float64), [f"c{int(k)}" for k in y]


def right(said, names, labels):
    return np.mean([names[k] == label for k, label in zip(said.value, labels, strict=True)])


@pytest.mark.slow_but("auto-mixed", "ga2m-chess", "dynamic_odm-led", "vigow-chess", "fesl_c-mixed", "dfop-led")
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("algorithm", ["auto", "ga2m", "odm", "dynamic_odm", "fesl_c", "vigow", "dfop"])
def test_one_mistyped_label_draws_no_answers(algorithm, name):
    """A label seen once gets hardly any answers or probability; the other labels stay as accurate as before."""
    X, labels = drawn(name)
    model = model_of(algorithm, X)
    model.learn(X, labels)
    before = model.predict(X)
    model.learn(X[-1:], ["fial"])
    after = model.predict(X)
    names = model.machine.labels.labels
    assert "fial" == names[-1]
    assert (after.value == len(names) - 1).mean() < 0.01
    assert after.probabilities[:, -1].mean() < 10 / ROWS
    assert right(after, names, labels) > right(before, names, labels) - 0.02


@pytest.mark.parametrize("algorithm", ["auto", "ga2m", "dynamic_odm"])
def test_a_class_that_comes_late_and_stays_is_learned(algorithm):
    """It is in a third of the rows from halfway on: most of its rows are found after a hundred of them."""
    X, y = generators.rbf(10, 2 * ROWS)[:2]
    late = np.flatnonzero(y == y.max())
    keep = np.delete(np.arange(2 * ROWS), late[late < ROWS])
    X, y = np.asarray(X, dtype=np.float64)[keep], y[keep]
    labels = [f"c{int(k)}" for k in y]
    model, at = model_of(algorithm, X), np.flatnonzero(y == y.max())[100]
    model.learn(X[:at], labels[:at])
    new = np.flatnonzero(y == y.max())[100:]
    said = model.predict(X[new]).value
    found = np.mean([model.machine.labels.labels[k] == labels[new[0]] for k in said])
    assert found > (0.5 if algorithm == "dynamic_odm" else 0.9)


def answers(counts):
    found = answers_of([f"c{k}" for k in range(len(counts))])
    found.metrics.by_class = np.zeros((CLASS_ROWS, len(counts)))
    found.metrics.by_class[SEEN] = counts
    return found


@pytest.mark.parametrize("counts", [[1, 999, 1000], [2, 1, 4000], [10, 1, 90], [0, 3, 50]])
def test_the_priors(counts):
    """Laplace's share over the even one, to the power 1 / n_k^2; at most 1, and zero rows count as one."""
    own = np.maximum(counts, 1.0)
    expected = np.array([0.5, 0.3, 0.2]) * np.minimum(1, 3 * (own + 1) / (sum(counts) + 3)) ** (1 / own**2)
    p = np.array([[0.5, 0.3, 0.2]])
    said = answered(answers(counts), Prediction(p.argmax(axis=1), p)).probabilities[0]
    assert_allclose(expected / expected.sum(), said, rtol=1e-5, atol=1e-6)


def test_rows_count_whether_they_were_scored_or_not():
    """Scored rows and rows of a retired space both count, in the order of the labels."""
    ours = answers_of(["yes", "no"], labels=["no", "yes"])
    scored(ours, Prediction(np.zeros(3, dtype=np.int64), np.full((3, 2), 0.5)), np.array([0, 0, 1]))
    assert_array_equal([1, 2], ours.metrics.by_class[SEEN])
    scored(ours, None, np.array([1, 1]))
    assert_array_equal([3, 2], ours.metrics.by_class[SEEN])
