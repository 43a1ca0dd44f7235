"""The part of a row of both spaces of a change that one of them reads (core.features.feature_space.union).

A name that both have is sent once. Where they declare it differently, such a row holds it as both can read it, and each
space takes its own reading:

    categories   numbered as those of the old space, then those that only the new one has; in the space by its own
                 numbers, ``OTHER`` where it does not have one
    numbers      as they were sent; clipped to the space's range where it does not accept others
"""

import math

import numpy as np

from core.contract import Floats
from core.features.columns import OTHER
from core.features.feature import Feature
from core.features.feature_space import places
from core.features.labels import LabelSet
from core.features.schema import Schema


class RowPart:
    """How a space reads its part of the rows of a larger one.

    Args:
        space: the space.
        whole: the larger one, which has all its names.
    """

    def __init__(self, space: Schema, whole: Schema) -> None:
        self._places = places(space, whole)
        pairs = [(own, whole.features[at]) for own, at in zip(space.features, self._places.tolist(), strict=True)]
        differ = [(column, own, other) for column, (own, other) in enumerate(pairs) if own != other]
        self._codes = [(column, _codes(own, other)) for column, own, other in differ if own.categories]
        self._ranges = [(column, _range(own)) for column, own, other in differ if own.outside != other.outside]

    def of(self, raw: Floats) -> Floats:
        """The part (n, F) of rows of the larger space; they are left as they are."""
        part = np.ascontiguousarray(raw[:, self._places])
        for column, codes in self._codes:
            known = ~np.isnan(part[:, column])
            part[known, column] = codes[part[known, column].astype(np.int64)]
        for column, (low, high) in self._ranges:
            part[:, column] = np.clip(part[:, column], low, high)
        return part


def _codes(own: Feature, other: Feature) -> Floats:
    """A feature's own code of each category of the larger declaration, and last that of a category of neither."""
    known = LabelSet(own.categories)
    found = [known.index(category) for category in other.categories]
    return np.array([*(float(at) if at >= 0 else OTHER for at in found), OTHER])


def _range(own: Feature) -> tuple[float, float]:
    """The range that numbers are clipped to."""
    low, high = own.minimum, own.maximum
    return -math.inf if low is None else low, math.inf if high is None else high
