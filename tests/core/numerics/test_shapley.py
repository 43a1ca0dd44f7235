"""Shapley values compared with their definition, and which results do not depend on the order."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.numerics import shapley
from core.numerics.shapley import EVALUATIONS_MAX, shapley_values

RNG = np.random.default_rng(5)


def groups_of(*sizes):
    """Consecutive columns in groups of these sizes."""
    ends = np.cumsum(sizes)
    return [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def by_definition(score, x, m, groups):
    """The mean gain over all orders in which the groups join."""
    found = np.zeros(len(groups))
    orders = [*permutations(range(len(groups)))]
    for order in orders:
        row = m.copy()
        for at in order:
            before = score(row[None])[0]
            row[groups[at]] = x[groups[at]]
            found[at] += (score(row[None])[0] - before) / len(orders)
    return found


def curved(X):
    """A score that is not a sum over columns."""
    return np.tanh(X[:, 0] * X[:, 1]) + X[:, 2] * X[:, 3] * X[:, 4] + np.cos(X).sum(axis=1)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 1, 2), (5,), (1, 2, 1, 1)])
def test_few_groups_are_exact(sizes):
    """Groups of one column and of several."""
    x, m = RNG.normal(size=(2, 5))
    groups = groups_of(*sizes)
    found = shapley_values(curved, x, (m, np.ones(5)), groups)
    assert_allclose(found, by_definition(curved, x, m, groups), atol=1e-12)


def test_pairs_are_exact_in_one_order_and_its_reverse():
    """A sum over columns and pairs, with more columns than are tried in every combination."""
    x, m, a, B = RNG.normal(size=9), RNG.normal(size=9), RNG.normal(size=9), RNG.normal(size=(9, 9))

    def score(X):
        return np.sin(X) @ a + np.einsum("ni,ij,nj->n", X, B, X)

    found = shapley_values(score, x, (m, np.ones(9)), groups_of(*[1] * 9), pairwise=True)
    S = B + B.T
    single = a * (np.sin(x) - np.sin(m)) + np.diag(B) * (x**2 - m**2)
    both = [sum(S[i, j] * (x[i] - m[i]) * (x[j] + m[j]) / 2 for j in range(9) if j != i) for i in range(9)]
    assert_allclose(found, single + both, atol=1e-12)


@pytest.mark.parametrize("d", [7, 20, 32, 63, 64, 200])
def test_many_groups_add_up(d):
    """For any score, in one call of bounded size; a linear score is exact as long as every group joins."""
    x, m, w, asked = RNG.normal(size=d), RNG.normal(size=d), RNG.normal(size=d), []

    def score(X):
        asked.append(len(X))
        return np.tanh(X @ w) + X[:, 0] ** 2

    found = shapley_values(score, x, (m, np.ones(d)), groups_of(*[1] * d), seed=3)
    assert_allclose(found.sum(), np.diff(score(np.vstack([m, x])))[0], atol=1e-12)
    assert asked[0] <= EVALUATIONS_MAX
    assert np.array_equal(found, shapley_values(score, x, (m, np.ones(d)), groups_of(*[1] * d), seed=3))
    linear = shapley_values(lambda X: X @ w, x, (m, np.ones(d)), groups_of(*[1] * d))
    if d <= 63:
        assert_allclose(linear, w * (x - m), atol=1e-12)
    assert_allclose(linear.sum(), w @ (x - m), atol=1e-12)


def test_orders_come_close(monkeypatch):
    """With seven groups the sampled orders give about the same as all combinations."""
    x, m = np.ones(7), np.zeros(7)

    def score(X):
        return X[:, 0] * X[:, 1] + X[:, 2] + np.maximum(X[:, 3], X[:, 4])

    sampled = shapley_values(score, x, (m, np.ones(7)), groups_of(*[1] * 7))
    monkeypatch.setattr(shapley, "_ALL_MAX", 7)
    exact = shapley_values(score, x, (m, np.ones(7)), groups_of(*[1] * 7))
    assert_allclose(exact, [0.5, 0.5, 1.0, 0.5, 0.5, 0.0, 0.0], atol=1e-12)
    assert_allclose(sampled, exact, atol=0.3)


def test_groups_equal_to_the_background_contribute_nothing():
    """A group that does not differ is not evaluated."""
    x = np.arange(4.0)
    m = np.array([0.0, 9.0, 2.0, 9.0])
    found = shapley_values(lambda X: X.sum(axis=1), x, (m, np.ones(4)), groups_of(1, 1, 1, 1))
    assert_allclose(found, [0.0, -8.0, 0.0, -6.0])
    assert_allclose(shapley_values(lambda X: X.sum(axis=1), m, (m, np.ones(4)), groups_of(2, 2)), [0.0, 0.0])
