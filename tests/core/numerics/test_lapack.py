"""LAPACK routines called by address give the bits of SciPy's wrappers and touch only the triangle they should."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.linalg import blas
from scipy.linalg import lapack as wrapped

from core.numerics import lapack

SIZES = [(1, 1), (3, 2), (33, 128), (200, 7), (257, 1)]


def matrices(d, n):
    """A symmetric positive definite matrix (d, d) with a NaN upper triangle, and a matrix (d, n), in Fortran order."""
    rng = np.random.default_rng(d * n)
    X = rng.normal(size=(d, 2 * d))
    A = np.asfortranarray(X @ X.T)
    A[np.triu_indices(d, 1)] = np.nan
    return A, np.asfortranarray(rng.normal(size=(d, n)))


@pytest.mark.parametrize(("d", "n"), SIZES)
def test_products_have_the_bits_of_the_wrappers(d, n):
    """A B and alpha B B' + beta A; only the lower triangle of A counts."""
    A, B = matrices(d, n)
    assert_array_equal(blas.dsymm(1.0, A, B, lower=1), lapack.symmetric_product(A, B))
    expected = blas.dsyrk(-0.3, B, beta=1.7, c=A, lower=1)
    lapack.add_outer(A, B, -0.3, 1.7)
    assert_array_equal(expected, A)
    assert np.isnan(A[np.triu_indices(d, 1)]).all()


@pytest.mark.parametrize(("d", "n"), SIZES)
def test_factors_and_solutions_have_the_bits_of_the_wrappers(d, n):
    """Cholesky, the inverse from it, and both ways to solve with the factor."""
    A, B = matrices(d, n)
    expected, failed = wrapped.dpotrf(A, lower=1, clean=0)
    assert not failed
    assert lapack.cholesky(A)
    assert_array_equal(expected, A)
    solution, transposed = B.copy(order="F"), B.T.copy(order="F")
    lapack.solve_lower(A, solution)
    assert_array_equal(blas.dtrsm(1.0, expected, B, lower=1), solution)
    lapack.solve_lower_transposed(A, transposed)
    assert_array_equal(blas.dtrsm(1.0, expected, B.T, side=1, lower=1, trans_a=1), transposed)
    inverse, failed = wrapped.dpotri(expected, lower=1)
    assert not failed
    assert lapack.inverse_of_cholesky(A)
    assert_array_equal(inverse, A)


def test_a_matrix_that_is_not_positive_definite_is_reported():
    """It has no factor, and a factor with a zero on the diagonal has no inverse."""
    assert not lapack.cholesky(np.asfortranarray(-np.eye(3)))
    assert not lapack.inverse_of_cholesky(np.zeros((3, 3), order="F"))


def test_another_order_in_memory_is_refused():
    """The routine would read it transposed."""
    with pytest.raises(AssertionError, match="Fortran"):
        lapack.add_outer(np.eye(3), np.ones((2, 3)).T[:, ::-1], 1.0, 1.0)


def test_other_threads_run_meanwhile():
    """A counting thread goes on counting while a factor is computed."""
    A = np.asfortranarray(np.eye(1500))
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(None)

    counter = threading.Thread(target=count)
    held, lapack_routine = [], lapack._dpotrf

    def watched(*arguments):
        before = len(counted)
        lapack_routine(*arguments)
        held.append(len(counted) - before)

    counter.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lapack, "_dpotrf", watched)
            assert lapack.cholesky(A)
    finally:
        done.set()
        counter.join()
    assert held[0] > 0
