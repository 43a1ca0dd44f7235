"""As in the service: one BLAS thread, on which the order of sums depends, and nothing to compile while it runs."""

import sys
from collections.abc import Iterator

import pytest
from numba.core import event

from core.numerics.linalg import single_threaded

IMPORTING = {"<module>", "compiled"}
"""Functions in which kernels with a signature are compiled: modules, and ``core.contract.direct``."""


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread for all tests of core."""
    limits = single_threaded()
    yield
    limits.restore_original_limits()


@pytest.fixture(scope="session", autouse=True)
def no_compiling() -> Iterator[None]:
    """Fail where Python code of core calls a kernel that has no signature: the service would compile it."""

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            kernel, frame = event.data["dispatcher"].py_func.__qualname__, sys._getframe()
            while frame.f_globals["__name__"].partition(".")[0] in {"numba", "contextlib", "tests"} and frame.f_back:
                frame = frame.f_back
            assert frame.f_globals["__name__"].partition(".")[0] != "core" or frame.f_code.co_name in IMPORTING, kernel

        def on_end(self, event: event.Event) -> None:
            """Nothing is looked at."""

    event.register("numba:compile", listener := Listener())
    yield
    event.unregister("numba:compile", listener)
