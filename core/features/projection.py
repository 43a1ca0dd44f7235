r"""Random projection of named sparse rows: psi = M x, where M is computed when needed and never stored.

    psi_i = sum_j M_ij x_j          i = 1 ... d (compressed_dim), j over the names a row holds

M has one column per *name*, and that column is a function of (seed, name) alone. So the number of names is
unlimited, names need not be known in advance, no dictionary is kept, and every process computes the same rows. With mix
and gamma of core.numerics.rng and all arithmetic modulo 2^64:

    h    = fnv1a(name)                      h = 14695981039346656037; per UTF-8 byte b: h <- (h xor b) 1099511628211
    s    = mix(h xor mix(seed + gamma))     the start of the name's stream of words
    w_k  = mix(s + k gamma), k = 1, 2 ...   its words: SplitMix64 from the state s

**Signs** (the default, +-1/sqrt(d), Bernoulli in the paper's Theorem 2). Bit b of w_k, counted from the lowest, decides
row 64 (k - 1) + b of the column: set is plus. Values are added or subtracted in the order of the row, and the sum is
multiplied by 1/sqrt(d). All arithmetic before that is on integers, so psi has the same bits on every platform.

**Gaussian** (N(0, 1/d), as the paper prints). Rows 2k - 2 and 2k - 1 come from two words by Box-Muller:

    u = ((w_{2k-1} >> 11) + 1) 2^-53    t = (w_2k >> 11) 2^-53
    sqrt(-2 ln u) (cos 2 pi t, sin 2 pi t)

A column costs d/2 logarithms, sines and cosines each time the name occurs, some fifty times as much as a column of
signs: an option for up to 1e5 names or so. Its last bit depends on the platform's ln, cos and sin; what replicas learn
does not, because rows are projected once, when they are read, and logged as psi.

Terms are summed in the order in which the row gives its names; another order gives the same psi to round-off.
For any finite values psi is finite: it is clipped to +-1e300.

Source: Zhao, Wang, Xie, Guo, Zhou: Distribution-Free One-Pass Learning, IEEE TKDE 33(3), 2021, Algorithm 2, line 3.
FNV-1a: Fowler, Noll, Vo.

Deviations
- M is hashed from names instead of drawn and stored as d x D numbers.
- Signs are the default; the paper's own experiments draw a Gaussian M. Both satisfy its condition (RIP).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numba import njit

from core.contract import CLASSES_IN, NUMBERS_IN, ROWS_IN, TABLE, Floats, Ints
from core.numerics.rng import GAMMA, UNIT, Words, mix, mixed_seed

PSI_MAX = 1e300  # bound on every coordinate of a projected row
_AT_ONCE = 1000
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_BYTE, _SHIFT_8, _SHIFT_11 = np.uint64(255), np.uint64(8), np.uint64(11)
_SIGNS: Floats = np.where((np.arange(256)[:, None] >> np.arange(8)) & 1, 1.0, -1.0)
"""(256, 8): the signs of the bits of a byte, lowest first."""
_TWO_PI = 2.0 * math.pi
_SHRINK = 2.0**-40

_TEXT = "Array(u1, 1, 'C', readonly=True)"
_STATES = "Array(u8, 1, 'C', readonly=True)"


@njit(f"void({_TEXT}, u8, u8[::1])", cache=True, nogil=True)
def _start_streams(text: Any, key: Any, states: Words) -> None:
    """The state s of every name in a text of names, each followed by the separator."""
    h, name = _FNV_START, 0
    for byte in text:
        if byte == 10:
            states[name] = mix(h ^ key)
            h, name = _FNV_START, name + 1
        else:
            h = (h ^ np.uint64(byte)) * _FNV_PRIME


@njit(f"void({_STATES}, {NUMBERS_IN}, {ROWS_IN}, u8[::1], f8[::1])", cache=True, nogil=True)
def _add_signs(states: Words, values: Floats, signs: Floats, words: Words, psi: Floats) -> None:
    """Fill psi (d, rounded up to whole bytes) with the sum of the values times the signs of their columns.

    The loop over names keeps eight sums in registers; ``words`` is scratch, one word per name.
    """
    for place in range(psi.shape[0] // 8):
        if place % 8 == 0:
            step = np.uint64(place // 8 + 1) * GAMMA
            for at in range(states.shape[0]):
                words[at] = mix(states[at] + step)
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for at in range(states.shape[0]):
            row, value = np.intp(words[at] & _BYTE), values[at]
            words[at] >>= _SHIFT_8
            s0 += value * signs[row, 0]
            s1 += value * signs[row, 1]
            s2 += value * signs[row, 2]
            s3 += value * signs[row, 3]
            s4 += value * signs[row, 4]
            s5 += value * signs[row, 5]
            s6 += value * signs[row, 6]
            s7 += value * signs[row, 7]
        begin = 8 * place
        psi[begin], psi[begin + 1], psi[begin + 2], psi[begin + 3] = s0, s1, s2, s3
        psi[begin + 4], psi[begin + 5], psi[begin + 6], psi[begin + 7] = s4, s5, s6, s7


@njit("void(u8, f8, f8[::1])", cache=True, nogil=True)
def _add_normals(state: Any, value: float, psi: Floats) -> None:
    """Add value times the normal deviates of one column to psi (d, rounded up to an even number)."""
    for i in range(0, psi.shape[0], 2):
        state += GAMMA
        u = (float(mix(state) >> _SHIFT_11) + 1.0) * UNIT
        state += GAMMA
        angle = float(mix(state) >> _SHIFT_11) * UNIT * _TWO_PI
        radius = value * math.sqrt(-2.0 * math.log(u))
        psi[i] += radius * math.cos(angle)
        psi[i + 1] += radius * math.sin(angle)


@njit(f"void({_STATES}, {NUMBERS_IN}, {CLASSES_IN}, b1, {ROWS_IN}, {TABLE})", cache=True, nogil=True)
def _project(states: Words, values: Floats, starts: Ints, gaussian: bool, signs: Floats, psi: Floats) -> None:
    """Rows ``starts[i]`` to ``starts[i + 1]`` of names and values into psi (n, d): Algorithm 2, line 3."""
    n, d = psi.shape
    scale = 1.0 / math.sqrt(d)
    sums = np.zeros((d + 7) // 8 * 8)
    words = np.empty(states.shape[0], np.uint64)
    scaled = np.empty(states.shape[0])
    for i in range(n):
        begin, end = starts[i], starts[i + 1]
        largest = 0.0
        for at in range(begin, end):
            largest = max(largest, abs(values[at]))
        # A power of two keeps every partial sum finite; 16 is beyond any normal deviate of 53 bits.
        shrink = 1.0 if largest * (16.0 * (end - begin)) <= PSI_MAX else _SHRINK
        for at in range(begin, end):
            scaled[at] = values[at] * shrink
        if gaussian:
            sums[:] = 0.0
            for at in range(begin, end):
                _add_normals(states[at], scaled[at], sums)
        else:
            _add_signs(states[begin:end], scaled[begin:end], signs, words, sums)
        bound = PSI_MAX * shrink
        for j in range(d):
            psi[i, j] = min(max(sums[j] * scale, -bound), bound) / shrink


class Projection:
    """M, with d = ``dimension`` rows, for one seed (0 to 2^64 - 1) and kind ("sign" or "gaussian")."""

    def __init__(self, seed: int, dimension: int, kind: Literal["sign", "gaussian"]) -> None:
        self.dimension = dimension
        self.kind = kind
        self._key = mixed_seed(seed)

    def states(self, names: Sequence[str]) -> Words:
        """The start of each name's stream (count,)."""
        found = np.empty(len(names), np.uint64)
        text = ("\n".join(names) + "\n").encode() if names else b""
        if text.count(b"\n") != len(names):
            raise ValueError("a name holds a newline")
        _start_streams(np.frombuffer(text, np.uint8), self._key, found)
        return found

    def project(self, names: Sequence[str], values: Floats, starts: Ints) -> Floats:
        """The projection psi (n, d) of n rows, finite.

        Row i has the names and the finite values (m,) from starts[i] to starts[i + 1]; ``starts`` (n + 1,) goes from 0
        to m.
        """
        psi = np.empty((len(starts) - 1, self.dimension))
        _project(self.states(names), values, starts, self.kind == "gaussian", _SIGNS, psi)
        return psi

    def columns(self, names: Sequence[str]) -> Floats:
        """The columns of M of some names, as (d, number of names)."""
        starts = np.arange(len(names) + 1)
        return np.ascontiguousarray(self.project(names, np.ones(len(names)), starts).T)

    def contributions(self, values: Mapping[str, float], weights: Floats) -> dict[str, float]:
        """The contribution of each name of a row to w'psi: its value times <its column of M, w>, for weights w (d,)."""
        names, found = [*values], np.empty(len(values))
        for begin in range(0, len(names), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            found[part] = weights @ self.columns(names[part])
        with np.errstate(over="ignore"):
            parts = np.clip(found * np.array([*values.values()], dtype=np.float64), -PSI_MAX, PSI_MAX)
        return dict(zip(names, parts.tolist(), strict=True))
