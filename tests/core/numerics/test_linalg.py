"""The single numerical policy, and LAPACK routines called by address, which give the bits of SciPy's wrappers."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.linalg import inv
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import blas
from scipy.linalg import lapack as wrapped
from threadpoolctl import threadpool_info

from core.numerics import lapack
from core.numerics.linalg import INFLATION_MAX, single_threaded, spd_inverse

WILD = st.one_of(
    st.floats(-1e75, 1e75, allow_subnormal=True), st.sampled_from([0.0, 1.0, -1.0, 1e75, -1e75, 1e-75, 1e-308, 5e-324])
)


@pytest.mark.parametrize("d", [1, 2, 11, 60])
def test_inverse_of_a_regular_matrix(d):
    """A well-conditioned matrix gets the inverse NumPy computes."""
    A = np.random.default_rng(d).normal(size=(3 * d, d))
    R = A.T @ A
    assert_allclose(inv(R), spd_inverse((R + R.T) / 2), rtol=1e-9, atol=1e-12)


def test_scales_do_not_matter():
    """Features whose scales differ by 1e120 are inverted to the same relative precision as their scaled versions."""
    A = np.random.default_rng(0).normal(size=(20, 4))
    scale = np.array([1e-60, 1.0, 1e20, 1e60])
    S = A.T @ A
    S = (S + S.T) / 2
    expected = inv(S) / np.outer(scale, scale)
    assert_allclose(expected, spd_inverse(S * np.outer(scale, scale)), rtol=1e-9)


def test_a_singular_matrix_is_inverted_where_it_is_regular():
    """Two identical columns: their sum is inverted exactly, their difference gets a large finite variance; R stays."""
    R = np.full((2, 2), 4.0)
    Q = spd_inverse(R)
    assert_array_equal(np.full((2, 2), 4.0), R)
    total = np.ones(2)
    assert_allclose(0.25, total @ Q @ total, rtol=1e-3)
    assert Q.max() <= INFLATION_MAX


@pytest.mark.parametrize("d", [1, 3])
def test_the_zero_matrix_has_a_finite_inverse(d):
    """Without any information the numbers are still finite."""
    assert np.isfinite(spd_inverse(np.zeros((d, d)))).all()


@settings(max_examples=150, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=WILD))
def test_any_sum_of_squares_has_a_finite_symmetric_inverse(X):
    """For any sum of rows, the inverse is finite, exactly symmetric and positive on the diagonal."""
    R = np.zeros((X.shape[1], X.shape[1]))
    for x in X:
        R += np.outer(x, x)
    Q = spd_inverse(R)
    assert np.isfinite(Q).all()
    assert_array_equal(Q, Q.T)
    assert (Q.diagonal() > 0).all()


def test_single_threaded_limits_every_blas():
    """After the call every loaded BLAS library computes with one thread; the limit can be undone."""
    limit = single_threaded()
    try:
        assert {1} == {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    finally:
        limit.restore_original_limits()


# -- LAPACK

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
