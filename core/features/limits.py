"""Numbers outside the range that their feature declares: refused, or clipped to it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from core.contract import Floats
from core.features.feature import Feature
from core.problems import PROBLEMS_MAX, Invalid, Problem

_WAY_OUT = 'declare "outside": "clip" or "accept" to take such values'


class Limits(NamedTuple):
    """What the features of a space say of numbers outside their ranges.

    Attributes:
        low, high: (F,) ends of the ranges, infinite where there are none and where any number is taken.
        refused: (F,) whether numbers outside are refused; else they are clipped.
    """

    low: Floats
    high: Floats
    refused: NDArray[np.bool_]

    @classmethod
    def of(cls, features: Sequence[Feature]) -> Self | None:
        """Those of some features; None where all of them take any number."""
        if all(feature.outside == "accept" for feature in features):
            return None
        low, high = (np.full(len(features), end) for end in (-np.inf, np.inf))
        for at, feature in enumerate(features):
            if feature.outside != "accept":
                low[at] = -np.inf if feature.minimum is None else feature.minimum
                high[at] = np.inf if feature.maximum is None else feature.maximum
        return cls(low, high, np.array([feature.outside == "refuse" for feature in features]))

    def apply(self, raw: Floats, place: Callable[[int, int], str]) -> Floats:
        """Raw rows (n, F) within the limits.

        Args:
            raw: the rows; NaN is missing, and within all limits.
            place: how errors name a cell.

        Raises:
            Invalid: numbers that are refused; the first 20 of them.
        """
        found: Floats = np.clip(raw, self.low, self.high)
        wrong: NDArray[Any] = np.argwhere((found != raw) & ~np.isnan(raw) & self.refused)[:PROBLEMS_MAX]
        if len(wrong):
            raise Invalid(*(self._problem(place(int(i), int(j)), int(j)) for i, j in wrong))
        return found

    def _problem(self, field: str, column: int) -> Problem:
        ends = [(">=", self.low[column]), ("<=", self.high[column])]
        allowed = " and ".join(f"{sign} {end:g}" for sign, end in ends if np.isfinite(end))
        return Problem(field, f"is outside the declared range; {_WAY_OUT}", allowed)
