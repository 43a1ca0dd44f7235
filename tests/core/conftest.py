"""One BLAS thread, as in the service: the tests compare results that depend on the order of sums."""

import pytest

from core.numerics.linalg import single_threaded


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Limit BLAS to one thread for all tests of core."""
    limits = single_threaded()
    yield
    limits.restore_original_limits()
