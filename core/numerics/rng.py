"""Chance as a function: a draw depends on (seed, absolute row number, purpose) and on nothing else.

    u = mix(mix(mix(seed + gamma) xor row) xor purpose) / 2^64        mix: SplitMix64's finaliser, modulo 2^64;
                                                                   a purpose is the blake2b of its text, 8 bytes

Integers only up to the last division, so the same on every platform; no state to keep, to save or to get out of step.

Source: SplitMix64: Steele, Lea, Flood, OOPSLA 2014.
"""

from hashlib import blake2b
from typing import Any

import numpy as np
from numba import njit

from core.contract import Floats

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53


@njit("u8(u8)", cache=True, nogil=True)
def _mix(z: Any) -> Any:
    """64 bits to 64 bits, one to one."""
    z = (z ^ (z >> _SHIFT_30)) * _MIX_1
    z = (z ^ (z >> _SHIFT_27)) * _MIX_2
    return z ^ (z >> _SHIFT_31)


@njit("void(u8, u8, u8, f8[::1])", cache=True, nogil=True)
def _fill(seed: Any, first: Any, word: Any, u: Floats) -> None:
    """Draws for the rows from ``first`` on."""
    start = _mix(seed + _GAMMA)
    for i in range(u.shape[0]):
        u[i] = (_mix(_mix(start ^ (first + np.uint64(i))) ^ word) >> _SHIFT_11) * _UNIT


def uniform(seed: int, first_row: int, rows: int, purpose: str) -> Floats:
    """Numbers in [0, 1), one for each of some neighbouring rows (n,).

    Args:
        seed: the model's, 0 to 2^53 - 1.
        first_row: absolute number of the first row, counted from 0.
        rows: n.
        purpose: what they are drawn for, in a word or two: other purposes draw other numbers.
    """
    u = np.empty(rows)
    word = int.from_bytes(blake2b(purpose.encode(), digest_size=8).digest(), "little")
    _fill(np.uint64(seed), np.uint64(first_row), np.uint64(word), u)
    return u
