"""One wild row or label is forgotten like any other, and a real change of scale is followed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.contract import Floats
from core.learners.dfop.kernels import WINSOR
from tests.core.learners.dfop.test_bank import build as build_bank
from tests.core.learners.dfop.test_dfop import build, exciting
from tests.core.learners.dfop.test_safety import finite

WEIGHTS = np.array([2.0, 1.0])


def good(n, seed) -> tuple[Floats, Floats]:
    """Normal rows (n, 2) and targets 2 a + b."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, X @ WEIGHTS


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("rate", "wild", "size"),
    [
        *((0.01, "row", size) for size in (1e6, 1e8, 1e16)),
        *((rate, "row", size) for rate in (0.5, 0.05) for size in (1e8, 1e16, 1e75, 1e300)),
        *((rate, "label", size) for rate in (0.5, 0.05) for size in (1e20, 1e75, 1e100, 1e300)),
    ],
)
def test_a_wild_row_or_label_is_forgotten(rate, wild, size):
    """After 200 rows, one huge number: 350 / rate rows later the weights are those of the stream again."""
    learner = build(d=2, forgetting_rate=rate)
    learner.learn(*good(200, 0))
    row, label = ([size, 0.0], 1.0) if wild == "row" else ([1.0, 1.0], size)
    learner.learn(np.array([row]), np.array([label]))
    learner.learn(*good(int(350 / rate), 1))
    assert_allclose(WEIGHTS, learner.weights().coefficients[0], rtol=1e-6)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("where", [0, 1, 70, 300])
def test_mean_squares_are_winsorised_row_by_row(where):
    """However rows are cut into blocks, s_j is the mean of x_j^2, each capped at 1e4 times the mean before it."""
    X, y = exciting(400)
    X[where] *= [1e9, 1e3, 1e20]
    blocks, cut = build(), build()
    blocks.learn(X, y)
    for begin in range(0, 400, 23):
        cut.learn(X[begin : begin + 23], y[begin : begin + 23])
    expected = np.zeros(4)
    for t, row in enumerate(np.c_[X, np.ones(400)], 1):
        most = np.where(expected > 0, WINSOR * expected, np.inf)
        expected += (np.minimum(row * row, most) - expected) / t
    assert_allclose([expected], blocks.mean_square, rtol=1e-12)
    assert_array_equal(blocks.mean_square, cut.mean_square)


@pytest.mark.slow_but("rows-*-0.5", "blocks-*-0.01")
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("scales", [(1.0, 1e6), (1.0, 1e-6), (1e-6, 1.0, 1e6), (1e6, 1.0, 1e-6)])
def test_scales_that_change_and_silence(rate, scales):
    """Columns whose scale changes by 1e6, then silence: the state stays finite, and the stream is learned again."""
    learner = build(d=3, forgetting_rate=rate)
    X, y = exciting(3000)
    for scale in scales:
        learner.learn(X * scale, y)
        learner.learn(np.zeros((8000, 3)), np.zeros(8000))
        assert finite(learner)
    learner.learn(X * max(scales), y)
    error = (learner.learn(X * max(scales), y).value - y)[100:]
    expected = (build(forgetting_rate=rate).learn(X, y).value - y)[100:]
    assert finite(learner)
    assert error.std() < 3 * expected.std()


@pytest.mark.parametrize(("before", "after"), [(1e-6, 1.0), (1e-150, 1.0), (1.0, 1e6)])
def test_a_real_change_of_scale_is_followed(before, after):
    """s_j catches up within some rows: 1000 rows after the change it is nearly the mean square of all 2000."""
    X, y = exciting(2000)
    X[:1000] *= before
    X[1000:] *= after
    learner = build()
    learner.learn(X, y)
    assert_allclose((X * X).mean(axis=0), learner.mean_square[0, :3], rtol=0.3)


@pytest.mark.parametrize("size", [1e6, 1e20, 1e50, 1e75, 1e100, 1e300, -1e100])
def test_auto_survives_a_wild_label(size):
    """One huge label among noisy ones: 1000 rows later the bank's error is at most twice that of one that never saw it.

    Its deviation stays within three ranges of the labels, and so do the members' values.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4001, 2))
    y = X @ WEIGHTS + rng.normal(size=4001) / 10
    spared, bank = build_bank(d=2), build_bank(d=2)
    expected = spared.learn(X, y).value
    y[1000] = size
    told = bank.learn(X, y)
    late = slice(2000, None)
    assert np.sqrt(np.mean((told.value - y)[late] ** 2)) < 2 * np.sqrt(np.mean((expected - y)[late] ** 2))
    assert np.ptp(bank.span) <= 2 * np.ptp(spared.span)
    assert told.std[1001:].max() <= 6 * np.ptp(bank.span)
    assert bank.loss[0] < np.ptp(bank.span) ** 2


@pytest.mark.parametrize("jump", [1e2, 1e3, 1e6])
def test_auto_follows_labels_that_jump(jump):
    """From 100 rows after a jump on, the error of the bank is near that without one; its linear model follows too."""
    X, y = good(4000, 2)
    y += np.random.default_rng(3).normal(size=4000) / 10
    bank, spared = build_bank(d=2), build_bank(d=2)
    expected = np.square(spared.learn(X, y).value - y)
    y[2000:] += jump
    error = np.square(bank.learn(X, y).value - y)
    assert error[2100:2600].mean() < 2 * expected[2100:2600].mean()
    assert error[3000:].mean() < 1.1 * expected[3000:].mean()
    X, y = good(500, 4)
    assert_allclose(bank.weights().coefficients[0] @ X.T + bank.weights().bias[0], y + jump, atol=0.2)


def test_auto_follows_labels_that_grow():
    """From constant labels to varying ones, then 1e6 times as large: range and loss follow within some rows."""
    X, y = exciting(6000)
    y[:1000] = 0.0
    y[3000:] *= 1e6
    bank, late = build_bank(), build_bank()
    told = bank.learn(X, y).value
    assert_allclose(y[2000:3000], told[2000:3000], atol=0.6)
    assert_allclose([y.min(), y.max()], bank.span)
    assert np.std((told - y)[4000:]) < 1.3 * np.std((late.learn(X[3000:], y[3000:]).value - y[3000:])[1000:])
