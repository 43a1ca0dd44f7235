"""The mappings between feature spaces: their equations, their memory, wild rows, and columns that both spaces have."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Weights
from core.state.envelope import dump, load
from core.switching import feature_recovery, linear_mapping
from core.switching.feature_recovery import STORED_MAX
from core.switching.kernel_mapping import KernelMapping
from core.switching.linear_mapping import LinearMapping
from core.switching.phases import mapping_bytes
from core.switching.ridge import CHOICE_ROWS_MAX, RIDGES
from tests.core.learners.streams import state

KINDS = {"linear": LinearMapping, "kernel": KernelMapping}


def mapping_of(kind, sources, targets, paper=False):
    """A mapping from ``sources`` new columns to ``targets`` old ones."""
    return kind([f"new {at}" for at in range(sources)], [f"old {at}" for at in range(targets)], paper)


def solved(kind, X2, X1, paper=False):
    """A mapping that has learned these rows."""
    mapping = mapping_of(kind, X2.shape[1], X1.shape[1], paper)
    mapping.learn(X2, X1)
    mapping.solve()
    return mapping


every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
every_form = pytest.mark.parametrize("paper", [False, True], ids=["ours", "paper"])
D2, D1 = 6, 4


def rows(count, seed=0, d2=D2, d1=D1):
    rng = np.random.default_rng(seed)
    X1 = rng.normal(size=(count, d1)) * rng.uniform(0.1, 10, d1) + rng.normal(size=d1)
    X2 = X1 @ rng.normal(size=(d1, d2)) + rng.normal(size=(count, d2)) / 5 + 3
    return X2, X1


@pytest.mark.parametrize("count", [2, 3, 6, 7, 40, 128, 129, 150])
def test_the_linear_mapping_solves_the_normal_equations(count):
    """Both the dual (up to 128 rows) and the primal give the ridge solution on standardised columns, by brute force."""
    X2, X1 = rows(count)
    mapping = solved(LinearMapping, X2, X1)
    Z = (X2 - X2.mean(axis=0)) / X2.std(axis=0)
    N = np.linalg.solve(Z.T @ Z + mapping.ridge * D2 * np.eye(D2), Z.T @ (X1 - X1.mean(axis=0)))
    new = np.random.default_rng(9).normal(size=(5, D2))
    expected = X1.mean(axis=0) + (new - X2.mean(axis=0)) / X2.std(axis=0) @ N
    assert_allclose(expected, mapping.recover(new), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("count", [3, 40])
def test_the_paper_s_linear_mapping_is_least_squares_through_the_origin(count):
    """Equation (2), with the smallest norm if there are fewer rows than columns."""
    X2, X1 = rows(count)
    mapping = solved(LinearMapping, X2, X1, paper=True)
    assert_allclose(np.linalg.lstsq(X2, X1, rcond=None)[0], mapping.M, rtol=1e-4, atol=1e-6)
    assert_allclose(X2 @ mapping.M, mapping.recover(X2), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("paper", "most"), [(False, CHOICE_ROWS_MAX), (True, D2)])
def test_rows_are_stored_no_longer_than_they_are_needed(paper, most):
    """Beyond the rows that choose the ridge, and d2, sums of products replace them, and the state stops growing."""
    X2, X1 = rows(most + 50)
    mapping = mapping_of(LinearMapping, D2, D1, paper)
    mapping.learn(X2[:most], X1[:most])
    assert most == len(mapping.to_arrays()[0]["stored"])
    mapping.learn(X2[most : most + 10], X1[most : most + 10])
    assert "stored" not in mapping.to_arrays()[0]
    before = mapping.nbytes
    mapping.learn(X2[most + 10 :], X1[most + 10 :])
    assert before == mapping.nbytes


@every_kind
def test_the_ridge_stays_when_it_is_no_longer_chosen(kind):
    """Later rows follow another relation; they change the mapping but not the ridge."""
    X2, _ = rows(CHOICE_ROWS_MAX + 60)
    mapping = mapping_of(kind, D2, D2)
    exact = X2[:CHOICE_ROWS_MAX] @ np.random.default_rng(2).normal(size=(D2, D2))
    mapping.learn(X2[:CHOICE_ROWS_MAX], exact)
    mapping.solve()
    ridge, A = mapping.ridge[0], mapping.recover(X2)
    mapping.learn(X2[CHOICE_ROWS_MAX:], np.random.default_rng(3).normal(size=(60, D2)))
    mapping.solve()
    assert ridge == mapping.ridge[0]
    assert not np.allclose(A, mapping.recover(X2))
    if kind is LinearMapping:
        assert min(RIDGES) == ridge


def test_the_kernel_mapping_solves_its_equations():
    """Kernel ridge with the median distance as bandwidth, by brute force."""
    X2, X1 = rows(30)
    mapping = solved(KernelMapping, X2, X1)
    new = np.random.default_rng(9).normal(size=(5, D2)) + 3
    Z, z = ((X - X2.mean(axis=0)) / X2.std(axis=0) for X in (X2, new))
    far = np.linalg.norm(Z[:, None] - Z, axis=2)
    h = np.median(far[np.triu_indices(30, 1)])
    A = np.linalg.solve(np.exp(-(far**2) / (2 * h * h)) + mapping.ridge * np.eye(30), X1 - X1.mean(axis=0))
    k = np.exp(-(np.linalg.norm(z[:, None] - Z, axis=2) ** 2) / (2 * h * h))
    assert_allclose(X1.mean(axis=0) + k @ A, mapping.recover(new), rtol=1e-9)


def test_the_paper_s_kernel_mapping_is_its_gradient_descent():
    """Equation (3), taken literally."""
    X2, X1 = rows(20)
    mapping = mapping_of(KernelMapping, D2, D1, paper=True)
    mapping.learn(X2, X1)

    def kernel(a, b):
        return np.exp(-((a - b) ** 2).sum() / 20)

    e = []
    for t in range(20):
        e.append(X1[t] - sum((e[i] * kernel(X2[i], X2[t]) for i in range(t)), np.zeros(D1)))
    expected = [sum(e[i] * kernel(X2[i], x) for i in range(20)) for x in X2[:5] + 0.1]
    assert_allclose(expected, mapping.recover(X2[:5] + 0.1), rtol=1e-9)


def test_the_kernel_mapping_keeps_the_newest_rows_only():
    """Beyond 500 rows the oldest leave, so that the state is bounded."""
    X2, X1 = rows(STORED_MAX + 70, d2=2, d1=1)
    mapping = solved(KernelMapping, X2, X1)
    assert_array_equal(np.hstack([X2, X1])[-STORED_MAX:], mapping.stored)
    assert STORED_MAX == len(mapping.Z)


@every_kind
@every_form
def test_a_frozen_mapping_recovers_as_before_and_is_saved(kind, paper):
    """Freezing solves for the last rows and drops what only learning needs."""
    X2, X1 = rows(33)
    mapping, restored = mapping_of(kind, D2, D1, paper), mapping_of(kind, D2, D1, paper)
    mapping.learn(X2, X1)
    mapping.solve()
    expected = mapping.recover(X2)
    mapping.freeze()
    restored.load_arrays(*load(state(mapping)))
    assert_array_equal(expected, mapping.recover(X2))
    assert_array_equal(expected, restored.recover(X2))
    assert state(mapping) == state(restored)


@every_kind
def test_the_error_is_small_where_columns_can_be_recovered_and_one_where_they_cannot(kind):
    """It is held out, in units of the columns' variance."""
    rng = np.random.default_rng(0)
    X1 = rng.normal(size=(300, 2)) * [1e-3, 1e3]
    X2 = np.hstack([X1 / [1e-3, 1e3], rng.normal(size=(300, 4))]) @ rng.normal(size=(6, 6))
    good, bad = mapping_of(kind, 6, 2), mapping_of(kind, 6, 2)
    assert good.error is None
    good.learn(X2, X1)
    bad.learn(X2, rng.normal(size=(300, 2)))
    assert good.error < 0.3
    assert 0.8 < bad.error < 1.5


@every_kind
def test_one_extreme_row_does_not_make_a_mapping_poor(kind):
    """The first two rows are nearly equal, so the third is recovered a thousand deviations away."""
    X2, X1 = rows(30)
    X2[1] = X2[0] * (1 + 1e-6)
    mapping = mapping_of(kind, D2, D1)
    mapping.learn(X2, X1)
    assert mapping.error < 0.3


def test_weights_carried_through_wild_rows_are_finite():
    """Huge weights through a huge mapping are clipped instead of overflowing."""
    mapping = mapping_of(LinearMapping, 2, 1)
    mapping.learn(np.array([[1e-90, 1.0], [2e-90, 0.0], [0.0, 3.0]]), np.array([[1e75], [-1e75], [0.0]]))
    carried = mapping.carry(Weights(np.array([[1e300]]), np.array([-1e300])))
    assert all(np.isfinite(part).all() for part in carried)


@pytest.mark.parametrize("new", [7.0, 0.1])  # sums of 0.1 are rounded
@pytest.mark.parametrize("newest", [False, True])
@every_kind
def test_a_constant_column_is_ignored_or_recovered(kind, newest, new, monkeypatch):
    """A new column that never varied has no part in the mapping; an old one is recovered exactly."""
    if newest:  # the linear mapping keeps the newest 26 rows alone
        monkeypatch.setattr(feature_recovery, "SUMS_MAX", 100)
        monkeypatch.setattr(feature_recovery, "WINDOW_MAX", 26 * (D2 + D1))
    X2, X1 = rows(30)
    X2[:, 0], X1[:, 0] = new, -2.1
    mapping = mapping_of(kind, D2, D1)
    mapping.learn(X2, X1)
    moved = X2.copy()
    moved[:, 0] = 1e6
    assert_array_equal(mapping.recover(X2), mapping.recover(moved))
    assert_array_equal(np.full(30, -2.1), mapping.recover(X2)[:, 0])


@every_kind
def test_blocks_with_one_source_column_equal_their_rows(kind):
    """For one source column with chosen targets NumPy's own layout would leave no row contiguous."""
    X, Y = rows(140, d2=1, d1=3)
    block, single = (mapping_of(kind, 1, 3) for _ in range(2))
    block.learn(X, Y)
    for at in range(len(X)):
        single.learn(X[at : at + 1], Y[at : at + 1])
    assert_array_equal(block.recover(X), single.recover(X))


def wild(count, d2=40, d1=30):
    """Rows with columns that are huge, tiny, constant or copies of others."""
    X2, X1 = rows(count, d2=d2, d1=d1)
    X2[:, 3], X2[:, 5], X1[:, 2] = 7.0, X2[:, 4], -1.0
    rng = np.random.default_rng(4)
    return X2 * 10.0 ** rng.integers(-9, 9, d2), X1 * 10.0 ** rng.integers(-9, 9, d1)


@every_form
def test_factors_recover_like_the_whole_mapping(paper, monkeypatch):
    """They also carry the same weights, alone or as a part, before and after they become the whole mapping."""
    X2, X1 = rows(60, d2=40, d1=30) if paper else wild(60)  # least squares of wild columns is round-off in any form
    weights = Weights(np.random.default_rng(1).normal(size=(2, 30)) / np.abs(X1).max(axis=0), np.array([0.5, -1.0]))
    whole, factored = mapping_of(LinearMapping, 40, 30, paper), None
    for most in (2**40, 0):
        monkeypatch.setattr(linear_mapping, "DENSE_MAX", most)
        whole, factored = factored, mapping_of(LinearMapping, 40, 30, paper)
        for at in range(0, 15, 3):
            factored.learn(X2[at : at + 3], X1[at : at + 3])
        factored.solve()
    assert (None, (15, 40), (15, 30)) == (factored.M, factored.left.shape, factored.right.shape)
    assert whole.M is not None
    size = np.abs(X1).max(axis=0)
    assert_allclose(whole.recover(X2) / size, factored.recover(X2) / size, rtol=1e-9, atol=1e-9)
    for one, other in zip(whole.carry(weights), factored.carry(weights), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max())
    part = factored.targets[4:9]
    assert_array_equal(factored.recover(X2)[:, 4:9], factored.only(part).recover(X2))
    restored = mapping_of(LinearMapping, 40, 30, paper)
    restored.load_arrays(*load(state(factored)))
    for one in (whole, factored, restored):
        one.learn(X2[15:], X1[15:])
    assert state(factored) == state(restored)
    assert factored.M is not None
    assert_allclose(whole.recover(X2) / size, factored.recover(X2) / size, rtol=1e-9, atol=1e-9)


@every_form
def test_the_newest_rows_replace_sums_that_would_be_too_large(paper, monkeypatch):
    """The mapping is that of these rows; blocks equal rows, and the size stays within the announced one."""
    monkeypatch.setattr(feature_recovery, "SUMS_MAX", 1000)
    monkeypatch.setattr(feature_recovery, "WINDOW_MAX", 20 * 70)
    monkeypatch.setattr(linear_mapping, "DENSE_MAX", 0)
    X2, X1 = rows(150, d2=40, d1=30)
    long, single, last = (mapping_of(LinearMapping, 40, 30, paper) for _ in range(3))
    long.learn(X2, X1)
    for at in range(150):
        single.learn(X2[at : at + 1], X1[at : at + 1])
        assert single.nbytes <= mapping_bytes(30, 40, "linear")
    assert state(long) == state(single)
    last.learn(X2[-20:], X1[-20:])
    for mapping in (long, last):
        mapping.ridge[0], mapping.solved = RIDGES[0], 0
        monkeypatch.setattr(linear_mapping, "chosen", lambda *_: RIDGES[0])
        mapping.solve()
    assert_allclose(last.recover(X2), long.recover(X2), rtol=1e-9, atol=1e-9)
    restored = mapping_of(LinearMapping, 40, 30, paper)
    restored.load_arrays(*load(state(long)))
    assert state(long) == state(restored)


# -- spaces with common columns


OLD, NEW = ("a", "b", "c"), ("x", "c", "y", "a", "z")


def overlapping():
    """Rows of both spaces."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=(40, 3))
    fresh = old @ rng.normal(size=(3, 3)) + rng.normal(size=(40, 3)) / 10
    return np.column_stack([fresh[:, 0], old[:, 2], fresh[:, 1], old[:, 0], fresh[:, 2]]), old


def learned(kind="linear", paper=False):
    recovery = KINDS[kind](NEW, OLD, paper)
    recovery.learn(*overlapping())
    recovery.freeze()
    return recovery


@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("paper", [False, True])
def test_kept_columns_are_copied_and_vanished_ones_recovered(kind, paper):
    """By name, whatever their order in the new space; the mapping is of all new columns and the vanished ones alone."""
    X, old = overlapping()
    alone, recovery = solved(KINDS[kind], X, old[:, 1:2], paper), learned(kind, paper)
    recovered = recovery.recover(X)
    assert_array_equal(old[:, [0, 2]], recovered[:, [0, 2]])
    assert_array_equal(alone.recover(X)[:, 0], recovered[:, 1])
    assert alone.error == recovery.error
    if not paper:
        assert ((old[:, 1] - recovered[:, 1]) ** 2).mean() < 0.2 * old[:, 1].var()


@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("targets", [("x", "z"), ("a", "c", "x", "y", "z")])
def test_without_vanished_columns_all_is_copied(targets, kind):
    """No mapping is needed or learned, and there is no error to report; rows are counted but take no memory."""
    X, _ = overlapping()
    recovery = KINDS[kind](NEW, targets)
    assert_array_equal(X[:, [NEW.index(name) for name in targets]], recovery.recover(X))
    before = recovery.nbytes
    recovery.learn(X, recovery.recover(X))
    assert (40, before) == (recovery.count, recovery.nbytes)
    restored = KINDS[kind](NEW, targets)
    restored.load_arrays(*load(dump(*recovery.to_arrays())))
    recovery.freeze()
    assert_array_equal(X[:, [NEW.index(name) for name in targets]], recovery.recover(X))
    assert recovery.error is None
