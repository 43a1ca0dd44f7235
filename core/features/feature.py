"""Features as clients declare them: names, types, categories, ranges.

    numeric      its number                                                              1 column
    boolean      0 or 1                                                                  1 column
    categorical  one-hot: a column per declared category; where none are declared, one
                 per bucket that values hash to
    time         hour, weekday and day of the year on circles, elapsed days (core.features.encoder)   7 columns

``minimum`` and ``maximum`` state the range a client expects of a numeric feature; drift tests measure in units of that
range. Values outside are taken as they are, unless ``outside`` says that they are refused, or clipped to the range.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from core.contract import Label
from core.features.labels import key

NAME_MAX = 200
"""Characters in a feature's name."""
COLUMNS_MAX = 100_000
"""Features of one model, and columns after encoding."""
CATEGORIES_MAX = 10_000
"""Categories of one feature."""
TIME_COLUMNS = ("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos", "days")
"""What the encoded columns of a time are called, behind the feature's name."""
BUCKETS = 32
"""Buckets of a categorical feature without declared categories, where it does not say how many."""
Type = Literal["numeric", "categorical", "boolean", "time"]
Outside = Literal["accept", "refuse", "clip"]
Missing = Literal["error", "zero", "mean"]
"""What becomes of missing values."""
_ANY_RANGE = -1e12, 1e12


@dataclass(frozen=True, slots=True)
class Feature:
    """One named input; ``categories`` are () where none are declared, ``buckets`` 0 unless values are hashed."""

    name: str
    type: Type = "numeric"
    categories: tuple[Label, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    buckets: int = 0
    outside: Outside = "accept"

    @property
    def width(self) -> int:
        """Encoded columns."""
        return len(TIME_COLUMNS) if self.type == "time" else len(self.categories) or self.buckets or 1

    @property
    def columns(self) -> list[str]:
        """Names of the encoded columns: ``load``; ``day=mon``, ``day=tue``; ``plan#0``, ``plan#1``; ``sent.days``."""
        if self.type == "time":
            return [f"{self.name}.{column}" for column in TIME_COLUMNS]
        if self.buckets:
            return [f"{self.name}#{bucket}" for bucket in range(self.buckets)]
        return [f"{self.name}={key(category)}" for category in self.categories] or [self.name]

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """Least and largest value of each encoded column, NaN where none is declared."""
        if self.type == "time":
            return [(-1.0, 1.0)] * (self.width - 1) + [(math.nan, math.nan)]
        if self.type != "numeric":
            return [(0.0, 1.0)] * self.width
        low, high = self.minimum, self.maximum
        return [(math.nan if low is None else low, math.nan if high is None else high)]

    @property
    def drift_ranges(self) -> list[tuple[float, float]]:
        """The ranges in whose units drift tests measure.

        Those of a time are so wide that no test ever fires: time passes and seasons change, which is no drift.
        """
        return [_ANY_RANGE] * self.width if self.type == "time" else self.ranges

    def to_json(self) -> Any:
        """The declaration of this feature: its name where that is enough, else an object."""
        if self == Feature(self.name):
            return self.name
        declared = {
            "name": self.name,
            "type": self.type,
            "categories": list(self.categories) or None,
            "buckets": self.buckets or None,
            "min": self.minimum,
            "max": self.maximum,
            "outside": None if self.outside == "accept" else self.outside,
        }
        return {field: value for field, value in declared.items() if value is not None}


def width_of(features: Sequence[Feature]) -> int:
    """Encoded columns of some features."""
    return sum(feature.width for feature in features)


def digest(declaration: object) -> str:
    """16 hexadecimal characters that only equal declarations share."""
    canonical = json.dumps(declaration, sort_keys=True, separators=(",", ":"))
    return blake2b(canonical.encode(), digest_size=8).hexdigest()
