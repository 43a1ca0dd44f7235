"""The levels of intervals; nothing here loads a kernel."""

from typing import Final

LEVELS: Final = (0.5, 0.8, 0.9, 0.95, 0.99)
"""The levels that adapt: the share of labels that an interval is to cover."""
LEVEL_MAX: Final = LEVELS[-1]
"""The largest level that can be asked for."""
IntervalBounds = tuple[tuple[float, float] | None, ...]
"""Intervals of all ``LEVELS``, low and high, as returned with a prediction; None: there were too few residuals."""
