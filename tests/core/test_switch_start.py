"""What a change of features starts from: how good the mapping is now, and whom the first predictions rely on."""

import numpy as np
import pytest

from core.mapping import LinearMapping


@pytest.mark.parametrize(("rows", "most"), [(40, 2.0), (70, 2.0), (200, 2.0)])
def test_the_mapping_s_error_is_that_of_the_mapping_in_use(rows, most):
    """An exact map of 12 columns: what is told is no more than twice the error on rows that are still to come."""
    rng = np.random.default_rng(0)
    X1, A = rng.normal(size=(rows + 500, 12)), rng.normal(size=(12, 12))
    X2 = X1 @ A
    mapping = LinearMapping(12, 12)
    mapping.learn(X2[:rows], X1[:rows])
    mapping.solve()
    actual = ((mapping.recover(X2[rows:]) - X1[rows:]) ** 2).mean() / (X1[rows:] ** 2).mean()
    assert actual / most <= mapping.error <= most * actual + 0.01
