"""How many cells a model has: bins of every column, and of every pair of columns, from their number alone."""

from core.contract import Spec

_SINGLE = ((32, 32), (256, 8))
"""Columns up to a number, and bins of each of them; beyond, WIDE."""
_PAIR = ((12, 8), (32, 4), (64, 2))
"""Columns up to a number, and bins of each in a pair; beyond, there are no pairs."""
_WIDE = 4


def column_bins(d: int) -> int:
    """Bins of a column."""
    return next((bins for most, bins in _SINGLE if d <= most), _WIDE)


def pair_bins(spec: Spec) -> int:
    """Bins of a column in a pair, 0 where there are no pairs."""
    d = spec.dimension
    return next((bins for most, bins in _PAIR if spec.params["pairs"] and 1 < d <= most), 0)


def cells(spec: Spec) -> int:
    """All cells, that of the constant included."""
    d, bins = spec.dimension, pair_bins(spec)
    return d * column_bins(d) + d * (d - 1) // 2 * bins * bins + 1


def active(spec: Spec) -> int:
    """Cells that a row is in."""
    d = spec.dimension
    return d + (d * (d - 1) // 2 if pair_bins(spec) else 0) + 1
