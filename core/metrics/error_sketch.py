"""The median of absolute errors from bounded counts in log-spaced bins, of which only those in use are kept.

An error |e| = m 2^x with m in [1, 2) lies in octave x, which is cut into 16 bins of equal width:

    bin = 16 (x + 64) + floor(16 (m - 1))        x from -64 to 63

The reported median (of an even number the lower one) is the middle of its bin, at most 1/32 (3.2 %) away. Errors below
2^-64 (5e-20) count as 0, unless all are that small; those of 2^64 (2e19) and more are in the last bin, whose median is
unknown. Bins depend on mantissa and exponent alone: no logarithm, no round-off.

Counts (2, 1 + 16 k), overall and fading, are those of 0 and of k octaves, from a first one on.
"""

import math
from typing import Final

import numpy as np
from numba import njit

from core.contract import Floats

PER_OCTAVE: Final = 16
OCTAVES: Final = 128
ZERO: Final = -1  # the bin of errors that count as 0
_LOWEST: Final = -64
_LEAST: Final = 2.0**_LOWEST
_MOST: Final = 2.0 ** (_LOWEST + OCTAVES)


@njit("i8(f8)", cache=True)
def bin_of(error: float) -> int:
    """The bin of an error, from 0 to 2047, or ZERO."""
    size = abs(error)
    if size < _LEAST:
        return ZERO
    if size >= _MOST:
        return OCTAVES * PER_OCTAVE - 1
    m, x = math.frexp(size)  # m in [.5, 1)
    return (x - 1 - _LOWEST) * PER_OCTAVE + int((2.0 * m - 1.0) * PER_OCTAVE)


def covering(counts: Floats, first: int, sizes: Floats) -> tuple[Floats, int]:
    """The counts of the octaves from ``first`` on, extended to cover |e| (n,), not all 0; and their first octave."""
    counted = np.minimum(sizes[sizes >= _LEAST], _MOST)
    octaves = np.minimum(np.frexp(counted)[1] - 1 - _LOWEST, OCTAVES - 1)
    low, high, held = int(octaves.min()), int(octaves.max()), (counts.shape[1] - 1) // PER_OCTAVE
    if held:
        low, high = min(low, first), max(high, first + held - 1)
    wider = np.zeros((2, 1 + (high - low + 1) * PER_OCTAVE))
    wider[:, 0] = counts[:, 0]
    start = 1 + (first - low) * PER_OCTAVE if held else 1
    wider[:, start : start + held * PER_OCTAVE] = counts[:, 1:]
    return wider, low


def median(counts: Floats, first: int, mean: float) -> float:
    """The median of the errors counted (1 + 16 k,), whose exact mean is given; NaN if there are none, or it is unknown:
    in the last bin, or if all errors are below the first bin but not 0.
    """
    total = counts.sum()
    if not total:
        return math.nan
    place = int(np.searchsorted(counts.cumsum(), total / 2))
    if place == 0:
        return math.nan if len(counts) == 1 and mean > 0.0 else 0.0
    octave, part = divmod(min(place, len(counts) - 1) - 1, PER_OCTAVE)
    if (first + octave, part) == (OCTAVES - 1, PER_OCTAVE - 1):
        return math.nan
    return math.ldexp(1.0 + (part + 0.5) / PER_OCTAVE, first + octave + _LOWEST)
