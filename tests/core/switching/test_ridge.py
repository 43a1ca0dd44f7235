"""The ridge of a mapping: leave-one-out by brute force, the chosen value, and its benefit for a switch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from core.switching import ridge
from core.switching.linear_mapping import LinearMapping
from core.switching.ridge import RIDGE, RIDGES, chosen
from tests.core.switching.test_linear_mapping import mapping_of
from tests.papers.switches import Life, Spaces, image


def left_out(Z, Y, penalty):
    """The sum of squared errors of rows recovered from all others: each fit is separate and has its own means."""
    total = 0.0
    for i in range(len(Z)):
        others = np.arange(len(Z)) != i
        z, y = Z[others].mean(axis=0), Y[others].mean(axis=0)
        N = np.linalg.solve(
            (Z[others] - z).T @ (Z[others] - z) + penalty * np.eye(Z.shape[1]), (Z[others] - z).T @ (Y[others] - y)
        )
        total += ((Y[i] - y - (Z[i] - z) @ N) ** 2).sum()
    return total


@pytest.mark.parametrize("rows", [3, 8, 30])
@pytest.mark.parametrize("one", [RIDGE, *RIDGES])
def test_the_closed_form_is_leaving_one_row_out(rows, one):
    """With fewer rows than columns and with more."""
    rng = np.random.default_rng(rows)
    Z, Y = rng.normal(size=(rows, 6)), rng.normal(size=(rows, 4))
    Z, Y = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    K = Z @ Z.T
    expected = left_out(Z, Y, one * np.trace(K) / rows)
    assert_allclose(expected, ridge._left_out(K, Y, one), rtol=1e-6)


@pytest.mark.parametrize(("noise", "expected"), [(0.0, min(RIDGES)), (0.1, RIDGE), (1.0, RIDGE)])
def test_a_smaller_ridge_is_chosen_if_old_columns_are_an_image_of_the_new_ones(noise, expected):
    """Not with a tenth of noise, where the best ridge varies by chance."""
    rng = np.random.default_rng(1)
    X1 = rng.normal(size=(20, 12)) * np.logspace(-3, 3, 12)  # old columns weigh the same, whatever their units
    X2 = X1 / X1.std(axis=0) @ rng.normal(size=(12, 12)) + noise * rng.normal(size=(20, 12))
    mapping = mapping_of(LinearMapping, 12, 12)
    mapping.learn(X2, X1)
    mapping.solve()
    assert expected == mapping.ridge[0]


def test_extreme_rows_do_not_change_it():
    """With heavy-tailed old columns that are independent of the new ones the ridge stays the usual one."""
    rng = np.random.default_rng(0)
    for rows in (13, 40):
        Z, Y = rng.normal(size=(rows, 12)), rng.standard_t(1, size=(rows, 12))
        Z, Y = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
        assert RIDGE == chosen(Z @ Z.T, Y)


@pytest.mark.parametrize("K", [np.zeros((5, 5)), np.eye(5) - 0.2])
def test_without_variance_it_is_the_usual_one(K):
    """Either no new column varies, or no old one does."""
    assert RIDGE == chosen(K, np.zeros((5, 2)))
    assert RIDGE == chosen(np.zeros((5, 5)), np.arange(5.0)[:, None] - 2)


@pytest.mark.parametrize("algorithm", ["dfop", "fesl_c"])
def test_a_switch_to_an_exact_image_costs_little(algorithm):
    """12 columns, 20 overlap rows: the next 100 rows are predicted nearly as if the features had not changed."""
    lost = np.zeros(2)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1100, 12))
        score = X @ rng.normal(size=12)
        y = score / score.std() + 0.1 * rng.normal(size=1100) > 0
        stream = image(X, y.astype(np.int64), rng, noise=0.0)
        switched, never = Life(stream, algorithm), Life(Spaces(stream.X[:1], stream.names[:1], stream.y), algorithm)
        switched.feed(0, 980)
        switched.begin()
        switched.feed(980, 1000)
        switched.complete()
        never.feed(0, 1000)
        lost += [life.feed(1000, 1100).mean() for life in (switched, never)]
    assert lost[0] / 8 <= lost[1] / 8 + 0.02
