"""The random projection: known hashes, and M built by hand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from core.features.projection import Projection
from core.numerics.rng import mix
from tests.core.numerics.test_rng import GAMMA, MASK, word

NAMES = ["a", "b", "foobar", "größe", "1", "01", "a b", "x" * 200]
kinds = pytest.mark.parametrize("kind", ["sign", "gaussian"])


def slow_fnv(name):
    """FNV-1a of 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def slow_stream(seed, name):
    """The generator state at which the words of a name start."""
    return word(slow_fnv(name) ^ word(seed, 1))


def slow_column(seed, name, d, kind):
    """One column of M, number by number."""
    state = slow_stream(seed, name)
    words = [word(state, k) for k in range(1, d + 2)]
    if kind == "sign":
        entries = [1.0 if words[i // 64] >> (i % 64) & 1 else -1.0 for i in range(d)]
    else:
        entries = []
        for first, second in zip(words[::2], words[1::2], strict=False):
            radius = math.sqrt(-2.0 * math.log(((first >> 11) + 1) * 2.0**-53))
            angle = (second >> 11) * 2.0**-53 * 2.0 * math.pi
            entries += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.array(entries[:d]) / math.sqrt(d)


def project(M, rows):
    """Project rows given as dictionaries."""
    names = [name for row in rows for name in row]
    values = np.array([value for row in rows for value in row.values()], dtype=np.float64)
    return M.project(names, values, np.cumsum([0, *map(len, rows)]))


def test_the_hashes_have_their_published_values():
    """SplitMix64 of seed 0 and FNV-1a of its test suite: the oracle implements the published algorithms."""
    assert [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F] == [word(0, k) for k in (1, 2, 3)]
    expected = {"": 0xCBF29CE484222325, "a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
    assert expected == {name: slow_fnv(name) for name in expected}
    assert 0xE220A8397B1DCDAF == int(mix(np.uint64(GAMMA)))


def test_the_streams_of_known_names():
    """If these numbers changed, every stored model of sparse rows would read a different M."""
    assert [slow_stream(7, name) for name in NAMES] == Projection(7, 100, "sign").states(NAMES).tolist()
    assert [0x223510DE0DD4615F, 0x1BE10B3F4FAF470F] == Projection(0, 100, "sign").states(["a", "foobar"]).tolist()


@pytest.mark.parametrize("d", [1, 7, 8, 64, 65, 100, 130])
@kinds
def test_columns_match_those_built_by_hand(kind, d):
    """Signs to the bit, normal deviates up to round-off, for every remainder of d by words and bytes."""
    for seed in (0, 3, 2**53 - 1):
        expected = np.stack([slow_column(seed, name, d, kind) for name in NAMES], axis=1)
        found = Projection(seed, d, kind).columns(NAMES)
        if kind == "sign":
            assert_array_equal(expected, found)
        else:
            assert_allclose(expected, found, rtol=1e-12, atol=1e-15)


@kinds
def test_rows_are_sums_of_columns(kind):
    """A row is M x, for rows of several lengths, including the empty row."""
    M = Projection(5, 100, kind)
    rows = [{"a": 1.5, "b": -2.0}, {}, {name: 1.0 + at for at, name in enumerate(NAMES)}, {"b": 0.0}]
    dense = np.array([[row.get(name, 0.0) for name in NAMES] for row in rows])
    assert_allclose(dense @ M.columns(NAMES).T, project(M, rows), rtol=1e-12, atol=1e-13)


@kinds
@pytest.mark.filterwarnings("error")
def test_any_finite_row_stays_finite(kind):
    """Sums beyond the largest double are clipped at 1e300, and the smallest numbers do no harm."""
    M = Projection(0, 100, kind)
    wild = [1.7976931348623157e308, -1.7976931348623157e308, 1e308, 5e-324, -0.0, 1e300]
    rows = [{f"{i}": value for i, value in enumerate(wild * 20)}, {f"{i}": 1.7e308 for i in range(500)}, {"a": 1e308}]
    psi = project(M, rows)
    assert np.isfinite(psi).all()
    assert 1e300 == np.abs(psi).max()
    assert_allclose(M.columns(["a"])[:, 0] * 1e150, project(M, [{"a": 1e150}])[0], rtol=1e-12)


def test_a_name_cannot_hold_the_separator():
    """No printable name does; a text whose cuts are not at its names is refused."""
    with pytest.raises(ValueError, match="newline"):
        Projection(0, 8, "sign").project(["a\nb"], np.ones(1), np.array([0, 1]))
