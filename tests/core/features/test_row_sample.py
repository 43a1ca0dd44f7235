"""The sample of learned rows: uniform, bounded, and independent of how rows are split."""

import numpy as np

from core.features.row_sample import NUMBERS_MAX, ROWS_MIN, RowSample, sample_bytes, sample_room

ROWS = np.arange(20_000.0)[:, None]


def test_every_row_is_equally_likely():
    """Over many seeds each tenth of the rows fills a tenth of the sample; no row is kept twice."""
    kept = []
    for seed in range(60):
        sample = RowSample(seed, 1)
        sample.absorb(ROWS)
        assert 256 == len(np.unique(sample.held))
        kept.append(sample.held[:, 0])
    share = np.histogram(np.concatenate(kept), bins=10, range=(0, len(ROWS)))[0] / (60 * 256)
    assert np.abs(share - 0.1).max() < 0.012  # five deviations


def test_wide_rows_take_bounded_memory():
    """Fewer wide rows are kept, and their bytes are known in advance."""
    for width in (1, 64, 65, 5000, 20_000):
        sample = RowSample(0, width)
        sample.absorb(np.zeros((300, width)))
        assert len(sample.held) == sample_room(width) >= ROWS_MIN
        assert sample.nbytes <= sample_bytes(width)
        assert sample.held.size <= max(NUMBERS_MAX, ROWS_MIN * width)
