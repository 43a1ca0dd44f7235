"""Weight columns of linear classifiers as classes appear."""

import numpy as np
from numpy.testing import assert_array_equal

from core.learners.linear import column_count, linear_model, with_class


def test_columns_from_one_class_to_four():
    """Two classes share a column; the third splits it and appends its own; later ones append theirs."""
    w, new = np.array([[1.0, -2.0]]), np.array([[7.0, 8.0]])
    assert with_class(w, 1, new) is w
    assert with_class(w, 2, new) is w
    three = with_class(w, 3, new)
    assert_array_equal([[-1.0, 2.0], [1.0, -2.0], [7.0, 8.0]], three)
    assert_array_equal([*three, [7.0, 8.0]], with_class(three, 4, new))
    assert_array_equal([[-0.5, 1.0], [0.5, -1.0], [7.0, 8.0]], with_class(w, 3, new, (-0.5, 0.5)))
    assert [1, 1, 1, 3, 4] == [column_count(classes) for classes in range(5)]


def test_the_linear_model_of_the_columns():
    """One row per class seen, with a shared column split in two; the last column is the bias; the arrays are copies."""
    w = np.array([[1.0, -2.0, 3.0]])
    assert [(0, 2), (1, 2), (2, 2)] == [linear_model(w, 2, classes).coefficients.shape for classes in range(3)]
    coefficients, bias = linear_model(w, 2, 2)
    assert_array_equal([[-1.0, 2.0], [1.0, -2.0]], coefficients)
    assert_array_equal([-3.0, 3.0], bias)
    assert_array_equal([[-0.5, 1.0], [0.5, -1.0]], linear_model(w, 2, 2, (-0.5, 0.5)).coefficients)
    number = linear_model(w, 3, None)
    assert_array_equal(w, number.coefficients)
    assert_array_equal([0.0], number.bias)
    number.coefficients.fill(0.0)
    assert_array_equal([[1.0, -2.0, 3.0]], w)
