"""Labels far from 0, and a wild one: they cost no accuracy, and the deviations that are told stay near the errors."""

import numpy as np
import pytest

from core.entry import Switch
from core.features import parse_features
from tests.core.twin import Fed

ROWS, LATE = 2000, 1000
_rng = np.random.default_rng(3)
X = _rng.normal(size=(ROWS, 3))
Y = X @ [1.0, -1.0, 0.5] + np.sin(2 * X[:, 0]) + 0.3 * _rng.normal(size=ROWS)
FAR = 2500.0
"""In units of the labels' noise: as 50 Hz, give or take .02."""


def model(algorithm, **params):
    """A regression with three features."""
    return Fed({"algorithm": algorithm, "task": "regression", "features": ["a", "b", "c"], "params": params})


def error(outcome, y):
    """The mean squared error of predictions before their labels."""
    return float(np.square(np.array(outcome.predictions) - y).mean())


@pytest.mark.parametrize(("algorithm", "params"), [("auto", {"size": "small"}), ("dfop", {})])
def test_labels_far_from_zero_are_predicted_as_well(algorithm, params):
    """The first rows are predicted near 0, and their errors would outweigh those of all later ones."""
    found = {}
    for level in (0.0, FAR):
        one = model(algorithm, **params)
        one.learn(X[:LATE], Y[:LATE] + level)
        late = error(one.learn(X[LATE:], Y[LATE:] + level), Y[LATE:] + level)
        found[level] = late, float(one.predict(X).std.mean())
    assert found[FAR][0] < 1.1 * found[0.0][0]
    assert found[FAR][1] < 10 * found[0.0][1]


def test_a_wild_label_does_not_stay_in_the_deviations():
    """It may be a hundred thousand times as far off as others."""
    one, y = model("auto", size="small"), Y.copy()
    y[LATE] = 1e5
    for labels in (y, Y, Y, Y):
        one.learn(X, labels)
    assert one.predict(X).std.mean() < 2.0  # of labels with a deviation of 1.7


@pytest.mark.parametrize("algorithm", ["fesl_c", "fesl_s"])
def test_experts_after_a_change_are_told_apart(algorithm):
    """Although the first rows of one of them are predicted near 0."""
    found, rng = [], np.random.default_rng(1)
    turned = X @ rng.normal(size=(3, 3)) + 0.05 * rng.normal(size=X.shape)
    for level in (0.0, 4 * FAR):
        one = model(algorithm)
        one.learn(X[:500], Y[:500] + level)
        one.commit(Switch("begin", parse_features(["p", "q", "r"]), "linear"))
        one.learn(np.hstack([X, turned])[500:550], Y[500:550] + level)
        one.commit(Switch("complete"))
        one.learn(turned[550:650], Y[550:650] + level)
        found.append(error(one.learn(turned[650:LATE], Y[650:LATE] + level), Y[650:LATE] + level))
    assert found[1] < 2 * found[0]


def far_off(algorithm, at, switch):
    """The mean squared errors of rows 50 to 200 after a label of 1e6 deviations, and without it."""
    found, rng = [], np.random.default_rng(1)
    turned = X @ rng.normal(size=(3, 3)) + 0.05 * rng.normal(size=X.shape)
    for wild in (1e6, 0.0):
        one, y, rows = model(algorithm), Y.copy(), X
        y[at] += wild
        if switch:
            one.learn(X[:switch], y[:switch])
            one.commit(Switch("begin", parse_features(["p", "q", "r"]), "linear"))
            one.learn(np.hstack([X, turned])[switch : switch + 50], y[switch : switch + 50])
            one.commit(Switch("complete"))
            rows = turned
        start = switch + 50 if switch else 0
        one.learn(rows[start : at + 50], y[start : at + 50])
        found.append(error(one.learn(rows[at + 50 : at + 200], Y[at + 50 : at + 200]), Y[at + 50 : at + 200]))
    return found


@pytest.mark.parametrize("algorithm", ["fesl_c", "fesl_s"])
@pytest.mark.parametrize(("at", "switch"), [(100, 0), (LATE, 0), (LATE, 500)])
def test_gradient_descent_forgets_a_wild_label(algorithm, at, switch):
    """Within fifty rows, not after thousands, before and after a change of features."""
    wild, usual = far_off(algorithm, at, switch)
    assert wild < 1.5 * usual
