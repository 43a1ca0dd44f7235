"""One BLAS thread, as the service has it: the order of sums is part of what the tests compare."""

import pytest

from core.numerics.linalg import single_threaded


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """For all tests of the algorithms."""
    limits = single_threaded()
    yield
    limits.restore_original_limits()
