"""BLAS and LAPACK routines that let other threads run while they work.

SciPy's ``scipy.linalg.blas`` and ``lapack`` hold the interpreter for as long as a call takes, which is seconds for a
few thousand columns. Here the same routines of the same library are called by their addresses, which SciPy publishes
for compiled code; ctypes releases the interpreter. The results have the same bits.

All matrices are float64 in Fortran order; those that are written are changed in place.
"""

import sys
from ctypes import CFUNCTYPE, byref, c_double, c_int, c_void_p
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numba.extending import get_cython_function_address

from core.contract import Floats


def _routine(module: str, name: str, arguments: int) -> Any:
    _load(f"scipy.linalg.{module}")
    address = get_cython_function_address(f"scipy.linalg.{module}", name)
    return CFUNCTYPE(None, *[c_void_p] * arguments)(address)


def _load(name: str) -> None:
    """Import an extension module of ``scipy.linalg`` without the package itself, which is large and not needed."""
    found = None if name in sys.modules else PathFinder.find_spec(name, [str(Path(scipy.__file__).parent / "linalg")])
    if found is not None and found.loader is not None:
        found.loader.exec_module(sys.modules.setdefault(name, module_from_spec(found)))


_dsymm = _routine("cython_blas", "dsymm", 12)
_dsyrk = _routine("cython_blas", "dsyrk", 10)
_dtrsm = _routine("cython_blas", "dtrsm", 11)
_dpotrf = _routine("cython_lapack", "dpotrf", 5)
_dpotri = _routine("cython_lapack", "dpotri", 5)


def symmetric_product(A: Floats, B: Floats) -> Floats:
    """A B for a symmetric A (d, d), of which only the lower triangle is read, and B (d, n)."""
    d, n = B.shape
    C = np.zeros((d, n), order="F")
    _dsymm(b"L", b"L", *_integers(d, n), *_numbers(1.0), *_matrices(A), *_matrices(B), *_numbers(0.0), *_matrices(C))
    return C


def add_outer(C: Floats, A: Floats, alpha: float, beta: float) -> None:
    """C <- alpha A A' + beta C for A (d, n) and a symmetric C (d, d), of which only the lower triangle counts."""
    _dsyrk(b"L", b"N", *_integers(*A.shape), *_numbers(alpha), *_matrices(A), *_numbers(beta), *_matrices(C))


def solve_lower(L: Floats, B: Floats) -> None:
    """B <- L^{-1} B for a lower triangular L (m, m) and B (m, n)."""
    _dtrsm(b"L", b"L", b"N", b"N", *_integers(*B.shape), *_numbers(1.0), *_matrices(L, B))


def solve_lower_transposed(L: Floats, B: Floats) -> None:
    """B <- B L'^{-1} for a lower triangular L (m, m) and B (n, m)."""
    _dtrsm(b"R", b"L", b"T", b"N", *_integers(*B.shape), *_numbers(1.0), *_matrices(L, B))


def cholesky(A: Floats) -> bool:
    """Lower triangle of A (d, d) <- its Cholesky factor; False if A is not positive definite."""
    return _in_place(_dpotrf, A)


def inverse_of_cholesky(L: Floats) -> bool:
    """Lower triangle of L (d, d), a Cholesky factor <- that of (L L')^{-1}; False if L is singular."""
    return _in_place(_dpotri, L)


def _in_place(routine: Any, A: Floats) -> bool:
    info = c_int()
    routine(b"L", *_integers(len(A)), *_matrices(A), byref(info))
    return info.value == 0


def _integers(*values: int) -> list[Any]:
    return [byref(c_int(value)) for value in values]


def _numbers(*values: float) -> list[Any]:
    return [byref(c_double(value)) for value in values]


def _matrices(*matrices: Floats) -> list[Any]:
    """Address and leading dimension of each matrix."""
    assert all(A.flags.f_contiguous and A.dtype == np.float64 for A in matrices), "a matrix is not in Fortran order"
    return [each for A in matrices for each in (A.ctypes.data, *_integers(max(1, A.shape[0])))]
