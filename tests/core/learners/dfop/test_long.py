"""Many rows with every kind of column that winds up forgetting."""

import numpy as np
import pytest

import core.learners.dfop.blocks
from tests.core.learners.dfop.long_streams import fresh_plain, plain, rows, starved
from tests.core.learners.dfop.test_dfop import build
from tests.core.learners.dfop.test_safety import finite

ROWS = 100_000
RATES = pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])


@pytest.mark.slow_but("0.5-*")
@pytest.mark.parametrize(("rate", "share"), [(0.01, 1.0), (0.1, 1.0), (0.5, 0.998)])
def test_many_exciting_rows_equal_the_plain_recursion(rate, share):
    """With constant, zero, collinear and one-hot columns and with scales 1e6 and 1e-6, four digits agree.

    At rate .5 an indicator that is absent for ten rows is not excited, hence the share of .998.
    """
    X, y = rows(ROWS)
    learner, told = build(d=10, forgetting_rate=rate), np.empty(ROWS)
    plain(X, y, rate, 1e3 * rate, *fresh_plain(rate, 1e3 * rate), told)
    value = learner.learn(X, y).value
    settled = slice(int(100 / rate), None)
    assert np.quantile(np.abs(value - told)[settled], share) <= 1e-4 * told[settled].std()
    assert finite(learner)


@pytest.mark.slow_but("rows-0.1", "blocks-0.5")
@RATES
@pytest.mark.parametrize("path", ["rows", "blocks"])
def test_many_starved_rows_stay_finite(rate, path, monkeypatch):
    """With silence and repetition as well, everything is finite, and predictions stay about as large as the targets."""
    if path == "blocks":
        monkeypatch.setattr(core.learners.dfop.blocks, "COLUMNS_MIN", 1)
    n = ROWS if path == "rows" else ROWS // 2
    X, y = starved(*rows(n))
    learner = build(d=10, forgetting_rate=rate)
    told = learner.learn(X, y)
    assert finite(learner)
    assert np.isfinite(told.value).all()
    assert np.isfinite(told.std).all()
    exciting = np.arange(n) % 20_000 < 5000
    later = exciting & (np.arange(n) % 20_000 >= 1000)
    assert np.sqrt(np.mean((told.value - y)[later] ** 2)) < 1.0
