"""Useless experts of `auto` rest, at row numbers that no client decides, and come back."""

from itertools import pairwise

import numpy as np
import pytest

from core.contract import Spec
from core.learners.auto.resting import BEGIN, FIRST_REST, REST_ROWS, decide
from core.learners.catalogue import find
from tests.core.learners.streams import assert_same, learner_of, state

AUTO = find("auto")


def learner(task, dimension=3):
    return learner_of("auto", dimension, 2, task, seed=3)


def stream(task, rows, seed=0):
    """A plane that turns to another one halfway; numbers also depend on the previous one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    w = np.where(np.arange(rows)[:, None] < rows // 2, [1.0, 2.0, 0.0], [2.0, -1.0, 0.0])
    score = (X * w).sum(axis=1) + 0.1 * rng.normal(size=rows)
    if task == "classification":
        return X, (score > 0).astype(np.int64)
    for t in range(1, rows):
        score[t] += 0.95 * score[t - 1]
    return X, score


def resting(built):
    return [one["expert"] for one in built.info()["experts"] if one["resting"]]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_they_rest_alike_however_rows_are_cut(task):
    """States and predictions have the same bits, also after loading a state while some experts rest."""
    X, y = stream(task, 3000)
    whole, cut, loaded = (learner(task) for _ in range(3))
    expected = whole.learn(X[:2100], y[:2100])
    assert resting(whole)
    assert_same([expected], [cut.learn(X[at : at + 1], y[at : at + 1]) for at in range(2100)])
    assert state(whole) == state(cut)
    loaded.load_arrays(*whole.to_arrays())
    ends = [*range(2100, 2400), 2700, 3000]
    told = [loaded.learn(X[begin:end], y[begin:end]) for begin, end in pairwise(ends)]
    assert_same([whole.learn(X[2100:], y[2100:])], told)
    assert state(whole) == state(loaded)
    assert_same([whole.predict(X)], [loaded.predict(part) for part in np.array_split(X, 3)])


def test_resting_experts_neither_learn_nor_predict():
    """Their row counts do not move; ``info`` lists them with no weight, and an explanation leaves them out."""
    X, y = stream("classification", 2500)
    built = learner("classification")
    built.learn(X[:2048], y[:2048])
    asleep = resting(built)
    before = {name: built.team.experts[name].info()["rows"] for name in asleep}
    built.learn(X[2048:2300], y[2048:2300])
    assert before
    assert before == {name: built.team.experts[name].info()["rows"] for name in asleep}
    assert not set(asleep) & {one["expert"] for one in built.explain(X[:1])["experts"]}
    assert {0.0} == {one["weight"] for one in built.info()["experts"] if one["resting"]}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_all_wake_when_it_goes_worse(task):
    """A change of the concept shows in the rows that go wrong."""
    X, y = stream(task, 8192)
    built = learner(task)
    rows = 1536
    built.learn(X[:rows], y[:rows])
    assert resting(built)
    turned = -y if task == "regression" else 1 - y
    built.learn(X[rows : rows + REST_ROWS], turned[rows : rows + REST_ROWS])
    assert [] == resting(built)


def test_a_rest_is_longer_every_time_and_the_most_used_never_rests():
    """Experts below a share of the average rest; free experts never do, and nobody does in the first rows."""
    table = np.array([[1e-9, 1e-8, 0.5, 0.0], [0.0] * 4, [0.0] * 4])
    decide(table, 0.1, 1, BEGIN - REST_ROWS, False)
    assert not table[1].any()
    decide(table, 0.1, 1, BEGIN, False)
    assert [BEGIN + FIRST_REST] * 2 + [0, 0] == table[1].tolist()
    rows = int(table[1, 0])
    decide(table, 0.1, 1, rows, False)
    assert not table[1].any()
    assert 0.25 == table[0, 0]
    table[0, 0] = 0.0
    decide(table, 0.1, 1, rows + REST_ROWS, False)
    assert [rows + REST_ROWS + 2 * FIRST_REST, 0, 0, 0] == table[1].tolist()
    assert 0 == table[2, 1]
    decide(alone := np.zeros((3, 2)), 0.1, 1, BEGIN, False)
    assert not alone[1].any()


def test_no_expert_rests_where_rows_are_learned_in_blocks():
    """Beyond 255 columns the cuts of blocks would change: a state with a resting expert is refused."""
    built = AUTO.build(Spec("regression", 256, AUTO.complete({})))
    X = np.random.default_rng(0).normal(size=(BEGIN + REST_ROWS, 256))
    built.learn(X, X[:, 0])
    assert [] == resting(built)
    arrays, header = built.to_arrays()
    changed = {**arrays, "mixture.table": arrays["mixture.table"].copy()}
    changed["mixture.table"][2, 0] = 5000.0
    with pytest.raises(ValueError, match="never rest"):
        built.load_arrays(changed, header)


def test_a_state_loads_after_any_number_of_errors_where_no_expert_rests():
    """The errors since experts last could have come to rest are more than those of one turn."""
    built, again = (learner("classification", 256) for _ in range(2))
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4 * REST_ROWS)
    errors = (built.learn(rng.normal(size=(len(y), 256)), y).value != y).sum()
    assert errors > REST_ROWS
    again.load_arrays(*built.to_arrays())
    assert state(built) == state(again)


def test_all_wake_when_columns_are_added_until_no_expert_rests():
    """Those that rested in the smaller learner go on; the state loads."""
    small, large, again = learner("classification"), *(learner("classification", 256) for _ in range(2))
    X = np.random.default_rng(0).normal(size=(2048, 3))
    small.learn(X, (X[:, 0] > X[:, 1] ** 2 - 0.5).astype(np.int64))
    assert {*resting(small)} & {*large.team.experts}
    large.extend(small, np.arange(3))
    assert [] == resting(large)
    again.load_arrays(*large.to_arrays())
    assert state(large) == state(again)
