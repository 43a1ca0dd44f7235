r"""Seeded random Fourier features: a linear learner on them is one with a Gaussian kernel, approximately.

    phi_i(z) = sqrt(2) cos(w_i'z + b_i)      i = 1 ... R,    w_ij ~ N(0, 2/d),  b_i ~ U(0, 2 pi)

For rows z of d standardised columns: then |z - z'|^2 is about 2 d, and phi(z)'phi(z') / R estimates the kernel
exp(-|z - z'|^2 / d). The features are appended to the columns, so that linear relations stay linear.

w and b are a function of (seed, R, d) alone, by SplitMix64 and Box-Muller, so they are no part of any state. With mix
and gamma of core.numerics.rng and all arithmetic modulo 2^64,

    word k = mix(s + k gamma), k = 1, 2 ...     s = mix(seed + gamma) xor 0x52616E646F6D4678 (the purpose)
    u = ((word >> 11) + 1/2) 2^-53              words 1 ... R: b;  then two words for every two w, row by row

The last bit of a feature depends on the platform's cos and ln.

Source: Rahimi, Recht: Random Features for Large-Scale Kernel Machines, NIPS 2007.
"""

import math

import numpy as np
from numba import njit

from core.contract import Floats
from core.numerics.rng import UNIT, mixed_seed, words

_PURPOSE = np.uint64(0x52616E646F6D4678)
_VALUE_MAX = 1e100

_ROWS_IN = "Array(f8, 2, 'C', readonly=True)"


def _uniforms(seed: int, count: int) -> Floats:
    """Count numbers in (0, 1), a function of the seed and their place."""
    drawn = words(mixed_seed(seed) ^ _PURPOSE, count)
    return np.asarray(((drawn >> np.uint64(11)).astype(np.float64) + 0.5) * UNIT)


@njit(f"void({_ROWS_IN}, f8[:,::1], f8[::1], f8[:,::1])", cache=True, nogil=True)
def _expand(Z: Floats, directions: Floats, phases: Floats, out: Floats) -> None:
    """Rows Z (n, d) and their features into out (n, d + R); sums in the order of the columns."""
    d = Z.shape[1]
    root = math.sqrt(2.0)
    for i in range(Z.shape[0]):
        for j in range(d):
            out[i, j] = Z[i, j]
        for r in range(phases.shape[0]):
            angle = phases[r]
            for j in range(d):
                angle += directions[r, j] * min(max(Z[i, j], -_VALUE_MAX), _VALUE_MAX)
            out[i, d + r] = root * math.cos(angle)


class RandomFeatures:
    """The features of one seed; nothing in it ever changes.

    Args:
        seed: any integer from 0 to 2^64 - 1.
        dimension: d >= 1 columns.
        count: R >= 1 features.
    """

    def __init__(self, seed: int, dimension: int, count: int) -> None:
        pairs = (count * dimension + 1) // 2
        u = _uniforms(seed, count + 2 * pairs)
        self.phases = 2.0 * math.pi * u[:count]
        radius = np.sqrt(-2.0 * np.log(u[count::2])) * math.sqrt(2.0 / dimension)
        angle = 2.0 * math.pi * u[count + 1 :: 2]
        normals = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
        self.directions = np.ascontiguousarray(normals[: count * dimension].reshape(count, dimension))  # (R, d)

    def expand(self, Z: Floats) -> Floats:
        """Rows Z (n, d) followed by their features: (n, d + R), finite for finite rows."""
        out = np.empty((Z.shape[0], Z.shape[1] + len(self.phases)))
        _expand(Z, self.directions, self.phases, out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes of memory the directions and phases take."""
        return self.directions.nbytes + self.phases.nbytes
