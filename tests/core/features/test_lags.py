"""Lag columns, compared with explicit lists of the preceding rows."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from core.features.lags import BEFORE_ALL, NOT_RETURNED, LagColumns

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=12)
CLASSES = RNG.integers(0, 4, 12)


def literal(X, y, i, m, k, classes=None):
    """The lag columns of row i: row 0 stands in for rows before it; row 0 itself gets its own values and zeros."""
    if i == 0:
        return [*np.tile(X[0], m), *[0.0] * (k * (classes or 1))]
    own = [value for lag in range(1, m + 1) for value in X[max(i - lag, 0)]]
    for lag in range(1, k + 1):
        label = y[max(i - lag, 0)]
        own += [label] if classes is None else [float(label == c) for c in range(classes)]
    return own


@pytest.mark.parametrize(("m", "k"), [(1, 1), (3, 3), (1, 2), (0, 2), (2, 0)])
@pytest.mark.parametrize("classes", [None, 3])
def test_they_are_the_rows_before(m, k, classes):
    """Rows learned alone or in blocks; predict uses the lags of the next row and changes nothing."""
    y = Y if classes is None else CLASSES
    one, whole = LagColumns(2, m, k, classes), LagColumns(2, m, k, classes)
    found = []
    for i in range(12):
        expected = [*X[i], *literal(X, y, i, m, k, classes)]
        assert [expected, expected] == one.lag(X[[i, i]]).tolist()
        found += one.lag(X[i : i + 1], y[i : i + 1]).tolist()
        assert expected == found[-1]
    assert_array_equal(found, whole.lag(X, y))
    assert one.now() == whole.now()
    assert one.to_arrays()[0]["labels"].tolist() == whole.to_arrays()[0]["labels"].tolist()


def test_a_row_that_was_predicted_earlier_keeps_its_lag_columns():
    """It joins the history like any row; before the first row it stands in for itself; other widths are ignored."""
    lags = LagColumns(2, 2, 2)
    assert () == lags.now()
    lags.lag(X[:5], Y[:5])
    brought = lags.now()
    lags.lag(X[5:8], Y[5:8])
    returned = lags.as_returned([brought, None, ()])
    assert [NOT_RETURNED, BEFORE_ALL] == pytest.approx(returned[1:, 0].tolist(), nan_ok=True)
    found = lags.lag(X[8:11], Y[8:11], returned)
    expected = [literal(X, Y, 5, 2, 2), literal(X, Y, 9, 2, 2), [*X[10], *X[10], 0.0, 0.0]]
    assert_array_equal(expected, found[:, 2:])
    assert (*X[10], *X[9], Y[10], Y[9]) == lags.now()
    assert np.isnan(lags.as_returned([(1.0, 2.0)])[0, 0])  # of a space with other features


def test_further_columns_were_zero_so_far():
    """A history extended by columns equals one whose rows had zeros there."""
    small, large = LagColumns(2, 2, 1), LagColumns(3, 2, 1)
    small.lag(X[:4], Y[:4])
    large.extend(small, np.array([2, 0]))
    literal_rows = np.column_stack([X[:, 1], np.zeros(12), X[:, 0]])
    expected = LagColumns(3, 2, 1)
    expected.lag(literal_rows[:4], Y[:4])
    assert expected.now() == large.now()
    small.lag(X[4:], Y[4:])
    assert expected.now() == large.now()
