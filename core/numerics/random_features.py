r"""Seeded random Fourier features: a linear learner on them is one with a Gaussian kernel, approximately.

    phi_i(z) = sqrt(2) cos(w_i'z + b_i)      i = 1 ... R,    w_ij ~ N(0, 2/d),  b_i ~ U(0, 2 pi)

For rows z of d standardised columns: then |z - z'|^2 is about 2 d, and phi(z)'phi(z') / R estimates the kernel
exp(-|z - z'|^2 / d). The features are appended to the columns, so that linear relations stay linear.

w and b are a function of (seed, purpose, R, d) alone, by SplitMix64 and Box-Muller, so they are not part of any state.
With mix and gamma of core.numerics.rng and all arithmetic modulo 2^64,

    word k = mix(s + k gamma), k = 1, 2 ...     s = mix(seed + gamma) xor purpose (its eight characters, in ASCII)
    u = ((word >> 11) + 1/2) 2^-53              words 1 ... R: b;  then two words for every two w, row by row

Cosines are computed here, many at once: several times as fast as one by one, and the same bits on every platform; only
the last bits of w depend on its ln, cos and sin. With k the integer nearest to a / 2 pi and t = pi/2 - |a - 2 pi k|,

    cos a = sin t = t - t^3/3! + t^5/5! - ... - t^19/19!         |t| <= pi/2; error below 1e-15 up to |a| = 1e8

Source: Rahimi, Recht: Random Features for Large-Scale Kernel Machines, NIPS 2007.
"""

import math

import numpy as np
from numba import njit

from core.contract import ROWS_IN, Floats, direct
from core.numerics.rng import UNIT, mixed_seed, words
from core.numerics.rows import put

PURPOSE = b"RandomFx"  # the purpose of the random draws

_VALUE_MAX = 1e100
_TURN = 2.0 * math.pi
_TURN_HIGH = float(np.float32(_TURN))
_TURN_LOW = (_TURN - _TURN_HIGH) + 2.4492935982947064e-16
"""2 pi = high + low: high times an integer below 2^29 is exact; the last number is what 2 pi lacks in float64."""
_QUARTER, _HALF = 0.5 * math.pi, math.pi
_NEAREST = 1.5 * 2.0**52  # adding and subtracting it rounds to the nearest integer
_C3, _C5, _C7, _C9, _C11, _C13, _C15, _C17, _C19 = ((-1.0) ** (n // 2) / math.factorial(n) for n in range(3, 20, 2))
_ROOT = math.sqrt(2.0)


@njit("void(f8[::1])", cache=True, nogil=True)
def to_features(angles: Floats) -> None:
    """Replace angles (R,) by sqrt(2) times their cosines, in place; within +-sqrt(2) for any finite angles."""
    for r in range(angles.shape[0]):
        a = angles[r]
        k = (a * (1.0 / _TURN) + _NEAREST) - _NEAREST
        apart = abs((a - k * _TURN_HIGH) - k * _TURN_LOW)
        t = _QUARTER - (apart if apart < _HALF else _HALF)
        s = t * t
        q = s * s
        low = (_C3 + _C5 * s) + (_C7 + _C9 * s) * q
        high = (_C11 + _C13 * s) + (_C15 + _C17 * s) * q + _C19 * (q * q)
        angles[r] = _ROOT * (t + t * s * (low + high * (q * q)))


@direct(f"void({ROWS_IN}, f8[:,::1], f8[::1], f8[:,::1])")
def expand_rows(Z: Floats, directions: Floats, phases: Floats, out: Floats) -> None:
    """Write rows Z (n, d) and their features into out (n, d + R); sums in the order of the columns.

    Directions (d, R) are stored by column, so that one pass over a column serves all features; phases are (R,).
    """
    n, d = Z.shape
    R = phases.shape[0]
    angles = np.empty(R)
    for i in range(n):
        put(phases, angles)
        for j in range(d):
            z = out[i, j] = Z[i, j]
            z = min(max(z, -_VALUE_MAX), _VALUE_MAX)
            for r in range(R):
                angles[r] += directions[j, r] * z
        to_features(angles)
        for r in range(R):
            out[i, d + r] = angles[r]


class RandomFeatures:
    """The R = ``count`` features of d columns for one seed, 0 to 2^64 - 1; nothing in it ever changes."""

    def __init__(self, seed: int, dimension: int, count: int) -> None:
        pairs = (count * dimension + 1) // 2
        drawn = words(mixed_seed(seed) ^ np.uint64(int.from_bytes(PURPOSE, "big")), count + 2 * pairs)
        u = ((drawn >> np.uint64(11)).astype(np.float64) + 0.5) * UNIT  # in (0, 1)
        self.phases = 2.0 * math.pi * u[:count]  # b (R,)
        radius = np.sqrt(-2.0 * np.log(u[count::2])) * math.sqrt(2.0 / dimension)
        angle = 2.0 * math.pi * u[count + 1 :: 2]
        normals = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
        self.directions = np.ascontiguousarray(normals[: count * dimension].reshape(count, dimension).T)  # w (d, R)

    def expand(self, Z: Floats) -> Floats:
        """Rows Z (n, d) followed by their features: (n, d + R), finite for finite rows."""
        out = np.empty((Z.shape[0], Z.shape[1] + len(self.phases)))
        expand_rows(Z, self.directions, self.phases, out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes of memory the directions and phases take."""
        return self.directions.nbytes + self.phases.nbytes
