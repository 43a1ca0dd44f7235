"""Columns of another space: kept ones are copied, vanished ones are recovered, and weights are carried over."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Weights
from core.state.envelope import dump, load
from core.switching.linear_mapping import LinearMapping
from tests.core.switching.mappings import KINDS, mapping_of

OLD, NEW = ("a", "b", "c"), ("x", "c", "y", "a", "z")


def rows(count=40):
    rng = np.random.default_rng(0)
    old = rng.normal(size=(count, 3))
    fresh = old @ rng.normal(size=(3, 3)) + rng.normal(size=(count, 3)) / 10
    return np.column_stack([fresh[:, 0], old[:, 2], fresh[:, 1], old[:, 0], fresh[:, 2]]), old


def learned(kind="linear", paper=False):
    recovery = KINDS[kind](NEW, OLD, paper)
    recovery.learn(*rows())
    recovery.freeze()
    return recovery


@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("paper", [False, True])
def test_kept_columns_are_copied_and_vanished_ones_recovered(kind, paper):
    """By name, whatever their order in the new space."""
    X, old = rows()
    recovered = learned(kind, paper).recover(X)
    assert_array_equal(old[:, [0, 2]], recovered[:, [0, 2]])
    assert not np.array_equal(old[:, 1], recovered[:, 1])
    if not paper:
        assert ((old[:, 1] - recovered[:, 1]) ** 2).mean() < 0.2 * old[:, 1].var()


def test_the_mapping_only_learns_vanished_columns():
    """It uses all new columns; its error covers only what it recovers."""
    X, old = rows()
    alone = mapping_of(LinearMapping, 5, 1)
    alone.learn(X, old[:, 1:2])
    alone.solve()
    recovery = learned()
    assert_array_equal(alone.recover(X)[:, 0], recovery.recover(X)[:, 1])
    assert alone.error == recovery.error


def test_carried_weights_predict_like_the_old_ones_on_recovered_rows():
    """Kept columns keep their weights, and the mapping adds to them."""
    X, _ = rows()
    recovery, weights = learned(), Weights(np.array([[1.0, -2.0, 3.0], [0.0, 1.0, 0.0]]), np.array([0.5, -1.0]))
    carried = recovery.carry(weights)
    expected = recovery.recover(X) @ weights.coefficients.T + weights.bias
    assert_allclose(expected, X @ carried.coefficients.T + carried.bias, rtol=1e-9)


def test_a_kernel_carries_no_weights():
    """What it recovers is not linear in the new columns."""
    assert learned("kernel").carry(Weights(np.ones((1, 3)), np.zeros(1))) is None


@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("targets", [("x", "z"), ("a", "c", "x", "y", "z")])
def test_without_vanished_columns_all_is_copied(targets, kind):
    """No mapping is needed or learned, and there is no error to report; rows are counted but take no memory."""
    X, _ = rows()
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
