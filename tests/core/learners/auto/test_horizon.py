"""A second team of `auto`: when it starts and ends, how both are mixed, and that no client decides any of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.learners.auto.horizon import AGE, BEGIN, BLOCK, LIFE, RECENT, ROWS, SHARE, USUAL, YOUNG, Horizon, mix_teams
from core.learners.learner import NO_VALUE, NONE_GIVEN
from tests.core.learners.streams import learner_of, relative, state

TURN = 2 * BEGIN


def learner(dimension=4, classes=2, task="classification"):
    return learner_of("auto", dimension, classes, task, seed=3)


def turning(rows, seed=0):
    """Classes with a curved boundary that changes at row TURN; a short stream is a prefix of a longer one."""
    rng = np.random.default_rng(seed)
    A, X = rng.normal(size=(4, 4)), rng.normal(size=(rows, 4))
    y = ((X @ A) * X).sum(axis=1) > 0.5
    y[TURN:] = (X[TURN:, :2] ** 2).sum(axis=1) < 1.4
    return X, y.astype(np.int64)


def learned(rows=TURN + 3 * BLOCK):
    built, (X, y) = learner(), turning(rows)
    built.learn(X, y)
    return built


def test_both_teams_are_mixed_as_the_equations_say():
    """Probabilities, classes, share and counters equal plain Python, weighted or not; a prediction learns nothing."""
    rng = np.random.default_rng(1)
    P, Q = rng.dirichlet(np.ones(3), (2, 200))
    y, weights, made = rng.integers(0, 3, 200), rng.uniform(0.2, 3.0, 200), P.copy()
    shares = relative(weights)
    for given in (NONE_GIVEN, weights):
        P, own, s, value = made.copy(), Horizon().state, 0.5, np.zeros(200, dtype=np.int64)
        mix_teams(P, Q, y, given, own, value)
        for i in range(200):
            assert_allclose((1 - s) * made[i] + s * Q[i], P[i])
            weight = shares[i] if given.size else 1.0
            old, new = (1 - s) * made[i, y[i]] ** weight, s * Q[i, y[i]] ** weight
            s = 0.999 * new / (old + new) + 0.0005
        assert_array_equal(P.argmax(axis=1), value)
        wrong = (value != y).sum()
        assert_allclose([200, wrong / 200, wrong, 200, s], own[: SHARE + 1])
        before = own.copy()
        mix_teams(P, Q, NO_VALUE, NONE_GIVEN, own, value)
        assert_array_equal(before, own)


def test_one_team_is_left_as_it_is():
    """Its rows and errors are counted, and everything else stays the same to the bit."""
    P = np.random.default_rng(1).dirichlet(np.ones(2), 10)
    own, value, told = Horizon().state, P.argmax(axis=1), P.copy()
    mix_teams(told, P[:0], 1 - value, NONE_GIVEN, own, value)
    assert_array_equal(P, told)
    assert [10.0, 1.0, 10.0, 0.0, 0.5, 0.0] == own.tolist()


@pytest.mark.parametrize(
    ("rows", "usual", "recent", "age", "expected"),
    [
        (BEGIN - BLOCK, 0.1, 40, 0, (False, False)), (BEGIN, 0.1, 40, 0, (True, True)),
        (BEGIN, 0.1, 14, 0, (False, False)), (BEGIN, 0.1, 15, 0, (True, True)),
        (BEGIN, 0.1, 40, YOUNG - BLOCK, (False, False)), (BEGIN, 0.1, 40, YOUNG, (True, True)),
        (BEGIN, 0.1, 6, LIFE, (True, False)),
        (BEGIN, 0.0, 1, 0, (False, False)), (BEGIN, 0.0, 3, 0, (False, False)), (BEGIN, 0.0, 4, 0, (True, True)),
    ],
)  # fmt: skip
def test_when_it_begins_and_ends(rows, usual, recent, age, expected):
    """At an alarm of three deviations and four errors, from row BEGIN; not while one is young; its life is bounded."""
    horizon = Horizon()
    horizon.state[[ROWS, USUAL, RECENT, AGE]] = rows, usual, recent, age
    assert expected == horizon.judge()
    assert 0.0 == horizon.state[RECENT]


def test_after_a_turn_it_is_soon_right_again():
    """A second team starts within a few blocks, and at the end of its life the better team stays."""
    X, y = turning(TURN + LIFE + 1024)
    built = learner()
    told = [built.learn(X[:TURN], y[:TURN])]
    assert built.second is None
    told.append(built.learn(X[TURN : TURN + 1024], y[TURN : TURN + 1024]))
    assert built.second is not None
    second, names = built.second, [one["expert"] for one in built.info()["experts"]]
    assert [f"new_{name}" for name in names[: len(names) // 2]] == names[len(names) // 2 :]
    assert 1.0 == pytest.approx(sum(one["weight"] for one in built.info()["experts"]))
    told.append(built.learn(X[TURN + 1024 :], y[TURN + 1024 :]))
    assert built.second is None
    assert built.team is second
    assert (np.concatenate([one.value for one in told])[TURN + 512 :] == y[TURN + 512 :]).mean() > 0.85


def test_rows_one_by_one_and_a_restored_state_give_the_same_bits():
    """While a second team lives; a new class is new to both teams, and predictions change neither."""
    X, y = turning(TURN + 512)
    whole, cut, loaded = learned(), learner(), learner()
    for at in range(TURN + 3 * BLOCK):
        cut.learn(X[at : at + 1], y[at : at + 1])
    assert whole.second is not None
    assert state(whole) == state(cut)
    loaded.load_arrays(*whole.to_arrays())
    assert state(loaded) == state(whole)
    assert whole.nbytes == loaded.nbytes
    for built in (whole, loaded):
        built.add_class()
    rest = slice(TURN + 3 * BLOCK, None)
    before, alone = state(whole), [whole.predict(row[None]).probabilities[0] for row in X[rest]]
    assert_array_equal(alone, loaded.predict(X[rest]).probabilities)
    assert before == state(whole) == state(loaded)
    y[-9:] = 2
    told = whole.learn(X[rest], y[rest]).probabilities
    assert_array_equal(alone[0], told[0])
    assert_array_equal(told, loaded.learn(X[rest], y[rest]).probabilities)
    assert state(whole) == state(loaded)
    assert {"new_rls", "rls"} < {one["expert"] for one in whole.explain(X[:1])["experts"]}


def test_a_second_team_that_does_not_fit_is_refused():
    """Other rows, other classes, a missing or damaged team, a team in regression: the learner stays as it was."""
    built, other, third = learned(), learner(), learned()
    (arrays, header), before = built.to_arrays(), state(other)
    third.second.add_class()
    aged = {**arrays, "horizon.state": arrays["horizon.state"] + [0, 0, 0, 1, 0, 0]}
    alone = {name: array for name, array in arrays.items() if not name.startswith("second.")}
    one = {name: own for name, own in header.items() if name != "second"}
    numbers = learner(classes=0, task="regression")
    for target, changed, told in [
        (other, (aged, header), "another number of rows"),
        (other, (alone, one), "another number of rows"),
        (other, third.to_arrays(), "different classes"),
        (other, (arrays, header | {"second": 5}), "exactly the parts"),
        (other, (arrays, header | {"second": {}}), "exactly the parts"),
        (numbers, (numbers.to_arrays()[0], numbers.to_arrays()[1] | {"second": {}}), "exactly the parts"),
    ]:
        with pytest.raises(ValueError, match=told):
            target.load_arrays(*changed)
    assert before == state(other)


def test_a_large_team_stays_alone(monkeypatch):
    """Beyond TEAM_BYTES_MAX no second team starts, and no memory is announced for one."""
    room = learner().nbytes
    monkeypatch.setattr("core.learners.auto.learner.TEAM_BYTES_MAX", 1000)
    built, (X, y) = learner(), turning(TURN + 3 * BLOCK)
    assert built.nbytes < 0.6 * room
    built.learn(X, y)
    assert built.second is None
    assert 0.0 == built.horizon.state[AGE]


def test_it_continues_with_further_columns_and_ends_with_forget():
    """A wider learner takes over both teams; ``forget`` leaves one."""
    few, more = learned(), learner(5)
    more.extend(few, np.array([0, 1, 2, 4]))
    assert few.horizon.state[SHARE] == more.horizon.state[SHARE]
    X, y = turning(TURN + 512)
    wider = np.ascontiguousarray(np.insert(X[-256:], 3, 0.0, axis=1))
    assert (more.learn(wider, y[-256:]).value == y[-256:]).mean() > 0.7
    few.forget()
    assert few.second is None
    assert 0.0 == few.horizon.state[AGE]
    assert {"rls"} == {one["expert"] for one in few.info()["experts"] if one["expert"].endswith("rls")}
