"""Blocks by matrix products, compared with the same rows one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import core.learners.dfop.blocks
from core.learners.dfop.blocks import COLUMNS_MIN, ROWS_MIN, block_rows
from core.learners.dfop.kernels import FORGOTTEN, ROWS
from core.numerics.linalg import spd_inverse
from tests.core.learners.dfop.test_dfop import build, exciting

WIDE = COLUMNS_MIN + 44


def row_by_row(learner, X, y, discounts=None):
    """A-priori values and deviations of rows learned by the row update."""
    told = [
        learner.learn(X[i : i + 1], y[i : i + 1], None if discounts is None else discounts[i : i + 1])
        for i in range(len(y))
    ]
    return np.concatenate([t.value for t in told]), np.concatenate([t.std for t in told])


def collinear(n, d=3, seed=0):
    """Rows of rank one, and exactly linear targets."""
    a = np.random.default_rng(seed).normal(size=(n, 1))
    return a * np.arange(1.0, d + 1), 3 * a[:, 0] + 1


@pytest.mark.parametrize(
    ("stream", "rate", "tolerance"),
    [
        (exciting, 0.01, 1e-12), (exciting, 0.1, 1e-11), (exciting, 0.5, 1e-9),
        (collinear, 0.01, 3e-9), (collinear, 0.1, 2e-7), (collinear, 0.5, 2e-6),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("narrow")
def test_blocks_agree_with_rows(stream, rate, tolerance):
    """Values, deviations and weights agree within the tolerances measured in ALGORITHMS.md, through some leaks."""
    X, y = stream(1500)
    blocks, rows = build(forgetting_rate=rate), build(forgetting_rate=rate)
    told = blocks.learn(X, y)
    value, std = row_by_row(rows, X, y)
    assert_allclose(value, told.value, atol=tolerance)
    assert_allclose(std, told.std, rtol=1e-6, atol=tolerance)
    assert_allclose(rows.W, blocks.W, atol=tolerance)
    assert_allclose(rows.counters, blocks.counters, rtol=1e-6, atol=1e-12)
    assert_allclose(rows.mean_square, blocks.mean_square, rtol=1e-12)


@pytest.mark.usefixtures("narrow")
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 299), max_size=5), st.floats(0.2, 1.0))
def test_any_cut_and_any_discounts_give_the_same_numbers(seed, cuts, lowest):
    """G-DFOP in blocks, cut anywhere, with discounts that force leaks, is G-DFOP row by row."""
    X, y = exciting(300, seed=seed)
    discounts = np.random.default_rng(seed).uniform(lowest, 1.0, 300)
    blocks, rows = build("gdfop"), build("gdfop")
    ends = sorted({*cuts, 300})
    told = [blocks.learn(X[a:b], y[a:b], discounts[a:b]).value for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    value, _ = row_by_row(rows, X, y, discounts)
    assert_allclose(value, np.concatenate(told), rtol=1e-6, atol=1e-6)
    assert_allclose(rows.counters[0, FORGOTTEN], blocks.counters[0, FORGOTTEN], atol=1e-9)


def test_few_rows_are_the_same_bits_at_any_width():
    """Calls too short for blocks are learned row by row, even with many columns."""
    X, y = exciting(ROWS_MIN - 1, d=WIDE)
    together, apart = build(d=WIDE), build(d=WIDE)
    assert_array_equal(row_by_row(apart, X, y)[0], together.learn(X, y).value)
    assert_array_equal(apart.Q, together.Q)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("wild", [1e9, 1e40, 1e200])
@pytest.mark.parametrize("where", [0, 40, 63])
def test_a_block_with_a_wild_row_is_split(wild, where):
    """Wherever the wild row is, rows before it are predicted as usual, and everything equals learning row by row."""
    X, y = exciting(64)
    X[where] *= wild
    blocks, rows = build(), build()
    told, (value, _) = blocks.learn(X, y), row_by_row(rows, X, y)
    assert_allclose(value[:where], told.value[:where], rtol=1e-9, atol=1e-9)
    assert_allclose(value, told.value, rtol=1e-3, atol=1e-3)
    assert np.isfinite(blocks.Q).all()


@pytest.mark.usefixtures("narrow")
def test_a_block_that_would_cost_the_covariance_its_digits_is_split():
    """No row leaves less than 1e-8 of the variance, but all 64 together do."""
    learner = build("rls", d=1, bias=False, initial_variance=9e7)
    learner.learn(np.random.default_rng(0).uniform(0.5, 1.0, (64, 1)), np.ones(64))
    assert_allclose(1.0 / learner.R[0], learner.Q[0], rtol=1e-9)


@pytest.mark.usefixtures("narrow")
def test_blocks_end_on_the_absolute_grid(monkeypatch):
    """Blocks run from a call's first row to the next multiple of the block size, then from multiple to multiple."""
    seen, learn_block = [], core.learners.dfop.blocks.learn_block

    def spy(rows, state, *rest, **options):
        seen.append((int(state[-1][ROWS]), len(rows.X)))
        return learn_block(rows, state, *rest, **options)

    monkeypatch.setattr(core.learners.dfop.blocks, "learn_block", spy)
    X, y = exciting(300)
    learner = build(forgetting_rate=1e-4, initial_variance=1.0)
    learner.learn(X[:50], y[:50])
    learner.learn(X[50:], y[50:])
    assert [(0, 50), (50, 14), (64, 64), (128, 64), (192, 64), (256, 44)] == seen
    assert 64 == block_rows(4)


def test_the_inverse_inside_the_kernel_is_the_one_of_linalg():
    """After a leak Q is R^-1 to the last bit; a stale compiled kernel would show here."""
    X, y = exciting(65)
    learner = build(forgetting_rate=0.1)
    learner.learn(X, y)
    assert 0 == learner.counters[0, FORGOTTEN]
    assert_array_equal(spd_inverse(learner.R[0]), learner.Q[0])
