"""Lag columns in `auto`: separate experts read them, and the others behave as without."""

import numpy as np
import pytest

from core.config import Config
from core.contract import Spec
from core.learners.auto.columns import Columns
from core.learners.auto.experts import PRODUCTS, RANDOM, RAW, SCALED, WHOLE, WHOLE_SCALED, expert_spec, recipes
from core.learners.catalogue import find
from tests.core.learners.streams import state

AUTO, D, LAGS = find("auto"), 3, 4


def spec(task, lagged=LAGS, dimension=D, **params):
    return Spec(task, dimension + lagged, AUTO.complete(params), seed=5, lagged=lagged)


def learner(task, lagged=LAGS, classes=2):
    built = AUTO.build(spec(task, lagged))
    for _ in range(classes if task == "classification" else 0):
        built.add_class()
    return built


def rows(task, n=900):
    """Labels that depend on a column and on a lag."""
    X = np.random.default_rng(4).normal(size=(n, D + LAGS))
    score = np.sign(X[:, 0]) + 2.0 * X[:, D]
    return X, (score > 0).astype(np.int64) if task == "classification" else score


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_lags_get_experts_of_their_own(task):
    """All others have the same specs as without lag columns; experts that would get too many columns are left out."""
    plain = {one.name: expert_spec(spec(task, 0), one) for one in recipes(spec(task, 0))}
    lagged = {one.name: expert_spec(spec(task), one) for one in recipes(spec(task))}
    assert plain == {name: own for name, own in lagged.items() if not name.endswith("_lags")}
    assert {D + LAGS} == {own.dimension for name, own in lagged.items() if name.endswith("_lags")}
    many = {one.name for one in recipes(spec(task, 300))}
    assert {"neighbours", "boosting"} < many
    assert not {"vigow_lags", "neighbours_lags"} & many


def test_column_sets_are_with_lags_or_without():
    """Without lags, raw and scaled columns are cut; products and random features use the first columns only."""
    X, y = rows("classification")
    made, plain = (Columns(own, recipes(own)) for own in (spec("classification"), spec("classification", 0)))
    found, expected = made.of(X, y), plain.of(np.ascontiguousarray(X[:, :D]), y)
    for columns in (RAW, SCALED, RANDOM, PRODUCTS):
        assert np.array_equal(expected[columns], found[columns])
    assert np.array_equal(X, found[WHOLE])
    assert np.array_equal(found[SCALED], found[WHOLE_SCALED][:, :D])
    assert WHOLE not in expected


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_block_equals_its_rows_and_states_come_back(task):
    """The same bits, and better than without lags; the announced size is about the real one."""
    X, y = rows(task)
    whole, single, without = learner(task), learner(task), learner(task, 0)
    told = whole.learn(X, y).value
    assert told.tolist() == [single.learn(X[i : i + 1], y[i : i + 1]).value[0] for i in range(len(X))]
    assert state(whole) == state(single)
    again = learner(task, classes=0)
    again.load_arrays(*whole.to_arrays())
    assert state(again) == state(whole)
    before = without.learn(np.ascontiguousarray(X[:, :D]), y).value
    assert ((told - y)[400:] ** 2).mean() < 0.6 * ((before - y)[400:] ** 2).mean()
    announced = AUTO.state_bytes(spec(task), 2 if task == "classification" else 0)
    assert announced == pytest.approx(whole.nbytes, rel=0.1)


@pytest.mark.parametrize(("task", "labels", "expected"), [("regression", None, 2 * 4), ("classification", 2, 2 * 5)])
def test_a_model_says_which_columns_are_lags(task, labels, expected):
    """Lags of rows and of labels, in every space."""
    body = {"task": task, "lags": 2} | ({} if labels is None else {"labels": [*range(labels)]})
    config = Config.parse(body)
    assert expected == config.lag_width(3)
    assert expected == config.spec(3 + expected).lagged
    assert 0 == Config.parse({"task": task}).spec(3).lagged
