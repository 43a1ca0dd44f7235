"""The median of errors from bounded counts, compared with that of all errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.metrics import RegressionMetrics
from core.metrics.error_sketch import OCTAVES, PER_OCTAVE, ZERO, bin_of, covering
from tests.core.metrics.prequential_oracle import fed

RELATIVE = 1 / 32


def told(errors, sizes=()):
    """The metrics of rows with these errors."""
    return fed(RegressionMetrics(), (np.asarray(errors, dtype=float), np.zeros(len(errors))), sizes)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 3e7, 1e15])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "exponential"])
def test_the_median_is_within_its_error(scale, shape):
    """Over all rows and in the window, whatever the unit; with an odd number of rows it is exact in the window."""
    errors = scale * getattr(np.random.default_rng(3), shape)(size=2501)
    report = told(errors).report()
    assert np.median(np.abs(errors)) == pytest.approx(report["overall"]["median_ae"], rel=RELATIVE)
    assert np.median(np.abs(errors[-1000:])) == pytest.approx(report["window"]["median_ae"], rel=1e-12)


def test_the_fading_median_is_that_of_the_weights():
    """Half of the weight is below it, up to the width of a bin."""
    errors = np.random.default_rng(4).lognormal(size=3000) * np.linspace(1, 30, 3000)
    found = told(errors).report()["fading"]["median_ae"]
    order = np.argsort(errors)
    weights = (0.999 ** np.arange(3000)[::-1])[order]
    expected = errors[order][np.searchsorted(weights.cumsum(), weights.sum() / 2)]
    assert expected == pytest.approx(found, rel=RELATIVE)


@pytest.mark.parametrize(("error", "expected"), [(0.0, 0.0), (1e-30, 0.0), (1e19, 1e19), (1e300, 2.0**64)])
def test_errors_beyond_the_range_are_clipped(error, expected):
    """Too small an error counts as 0, too large a one as the largest."""
    assert expected == pytest.approx(told([error] * 3).report()["overall"]["median_ae"], rel=RELATIVE)


def test_memory_grows_with_the_octaves_in_use():
    """Errors of one magnitude take little memory, and errors of all magnitudes a bounded amount."""
    assert 6_000 > told([1.0, 1.5, 0.0]).nbytes
    assert 2 * 8 * (1 + OCTAVES * PER_OCTAVE) + 6_000 > told([1e-300, 1e-19, 1.0, 1e300]).nbytes


@given(st.floats(0, 1e25))
def test_a_bin_covers_its_range(error):
    """There are sixteen bins of equal width between powers of two."""
    place = bin_of(error)
    if place == ZERO:
        assert error < 2.0**-64
    elif error < 2.0**64:
        octave, part = divmod(place, PER_OCTAVE)
        low = math.ldexp(1 + part / PER_OCTAVE, octave - 64)
        assert low <= error < low + math.ldexp(1 / PER_OCTAVE, octave - 64)


def test_counts_keep_their_bins_when_the_range_grows():
    """It grows on either side; the count of zeros stays first."""
    counts = np.arange(1.0, 2 * (1 + PER_OCTAVE) + 1).reshape(2, -1)
    wider, first = covering(counts, 64, np.array([0.0, 2.0**-1, 7.9]))
    assert (63, 1 + 4 * PER_OCTAVE) == (first, wider.shape[1])
    assert counts[:, 0].tolist() == wider[:, 0].tolist()
    assert counts[:, 1:].tolist() == wider[:, 1 + PER_OCTAVE : 1 + 2 * PER_OCTAVE].tolist()
    assert counts.sum() == wider.sum()
