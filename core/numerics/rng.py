"""Reproducible random numbers: a draw depends on (seed, absolute row number, purpose) and on nothing else.

    u = (mix(mix(mix(seed + gamma) xor row) xor purpose) >> 11) 2^-53     a purpose is the blake2b of its text, 8 bytes

    mix(z):  z <- (z xor z >> 30) 0xBF58476D1CE4E5B9;  z <- (z xor z >> 27) 0x94D049BB133111EB;  z xor z >> 31
    gamma = 0x9E3779B97F4A7C15                                            all arithmetic modulo 2^64

All steps up to the last product use integers, so draws are the same on every platform; there is no state to save.

``mix`` is also called by the kernels of features/projection.py. Numba's cache watches only the file of the calling
kernel; ``make`` compiles it again when ``mix`` changes (the tests compare every caller with Python's integers).

Source: SplitMix64: Steele, Lea, Flood, OOPSLA 2014.
"""

from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.contract import Floats, direct

Words = NDArray[np.uint64]

GAMMA = np.uint64(0x9E3779B97F4A7C15)
UNIT = 2.0**-53  # turns the upper 53 bits of a word into a number in [0, 1)


@njit("u8(u8)", cache=True, nogil=True)
def mix(z: Any) -> Any:
    """SplitMix64's finaliser: 64 bits to 64 bits, one to one."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit("u8[::1](u8, i8)", cache=True, nogil=True)
def words(state: Any, count: int) -> Words:
    """The first words of SplitMix64 from a state: mix(state + k gamma), k = 1 ... count; (count,)."""
    found = np.empty(count, np.uint64)
    for k in range(count):
        found[k] = mix(state + np.uint64(k + 1) * GAMMA)
    return found


@direct("void(u8, u8, u8, f8[::1])")
def _fill(seed: Any, first: Any, word: Any, u: Floats) -> None:
    """Draws for the rows from ``first`` on."""
    start = mix(seed + GAMMA)
    for i in range(u.shape[0]):
        u[i] = (mix(mix(start ^ (first + np.uint64(i))) ^ word) >> np.uint64(11)) * UNIT


def mixed_seed(seed: int) -> np.uint64:
    """mix(seed + gamma), for any integer seed from 0 to 2^64 - 1."""
    return np.uint64(mix(np.uint64((seed + int(GAMMA)) % 2**64)))


def uniform(seed: int, first_row: int, rows: int, purpose: str) -> Floats:
    """Numbers in [0, 1) (rows,), one for each row from the absolute row number ``first_row`` on, counted from 0.

    The model's seed is 0 to 2^53 - 1. A purpose says in a word or two what the numbers are for; each purpose has its
    own numbers.
    """
    u = np.empty(rows)
    _fill(np.uint64(seed), np.uint64(first_row), _word_of(purpose), u)
    return u


@cache
def _word_of(purpose: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(purpose.encode(), digest_size=8).digest(), "little"))
