"""Features as clients declare them: names, types, categories, ranges.

    numeric      its number                                                              1 column
    boolean      0 or 1                                                                  1 column
    categorical  one-hot: a column per declared category; where none are declared, one
                 per bucket that values hash to
    time         hour, weekday and day of the year on circles, elapsed days              7 columns (core.features.times)

``minimum`` and ``maximum`` state the range a client expects of a numeric feature; drift tests measure in units of that
range. Values outside are taken as they are, unless ``outside`` says that they are refused, or clipped to the range.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, cast

from core.features.labels import Label, distinct, key
from core.features.times import TIME_COLUMNS
from core.problems import PROBLEMS_MAX, SUGGESTED_MAX, Invalid, Problem, suggestion

NAME_MAX = 200
"""Characters in a feature's name."""
COLUMNS_MAX = 100_000
"""Features of one model, and columns after encoding."""
CATEGORIES_MAX = 10_000
"""Categories of one feature."""
BUCKETS = 32
"""Buckets of a categorical feature without declared categories, where it does not say how many."""
Type = Literal["numeric", "categorical", "boolean", "time"]
Outside = Literal["accept", "refuse", "clip"]
_FIELDS = ["name", "type", "categories", "buckets", "min", "max", "outside"]
_TYPES = ["numeric", "categorical", "boolean", "time"]
_TYPE_OF: dict[str, Type] = {
    "categories": "categorical",
    "buckets": "categorical",
    "min": "numeric",
    "max": "numeric",
    "outside": "numeric",
}
"""The type of feature that a field is for."""
_OUTSIDE = ["accept", "refuse", "clip"]
_ANY_RANGE = -1e12, 1e12


@dataclass(frozen=True, slots=True)
class Feature:
    """One named input.

    Attributes:
        name: 1 to 200 printable characters.
        type: what its values are.
        categories: the declared values of a categorical feature; () for others and for hashed ones.
        minimum, maximum: the range a numeric feature is expected in, or None.
        buckets: columns of a categorical feature without declared categories; 0 for others.
        outside: what becomes of a number outside the range.
    """

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
        described: dict[str, Any] = {"name": self.name, "type": self.type}
        if self.categories:
            described["categories"] = list(self.categories)
        if self.buckets:
            described["buckets"] = self.buckets
        if self.minimum is not None:
            described["min"] = self.minimum
        if self.maximum is not None:
            described["max"] = self.maximum
        if self.outside != "accept":
            described["outside"] = self.outside
        return described


def width_of(features: Sequence[Feature]) -> int:
    """Encoded columns of some features."""
    return sum(feature.width for feature in features)


def hashed(name: str) -> Feature:
    """A categorical feature whose values need no declaration."""
    return Feature(name, "categorical", buckets=BUCKETS)


def parse_features(raw: object, field: str = "features") -> tuple[Feature, ...]:
    """The features a client declares: a list of names and objects.

    Raises:
        Invalid: naming each error, e.g. ``features[1].categories[3]``; the first 20 of them.
    """
    if not isinstance(raw, list | tuple) or not raw:
        raise Invalid.of(field, "is not a list of features", f"1 to {COLUMNS_MAX} names or objects")
    if len(raw) > COLUMNS_MAX:
        raise Invalid.of(field, "has too many features", f"1 to {COLUMNS_MAX} names or objects")
    problems: list[Problem] = []
    features = [_feature(item, f"{field}[{i}]", problems) for i, item in enumerate(raw)]
    _check_together(features, field, problems)
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])
    return tuple(features)


def digest(declaration: object) -> str:
    """16 hexadecimal characters that only equal declarations share."""
    canonical = json.dumps(declaration, sort_keys=True, separators=(",", ":"))
    return blake2b(canonical.encode(), digest_size=8).hexdigest()


def _feature(item: object, field: str, problems: list[Problem]) -> Feature:
    if isinstance(item, str):
        return Feature(_name(item, field, problems))
    if not isinstance(item, Mapping):
        problems.append(Problem(field, "is neither a name nor an object"))
        return Feature("")
    for strange in [one for one in item if one not in _FIELDS][:PROBLEMS_MAX]:
        problem = "is not a field of a feature" + _near(strange, _FIELDS, problems)
        problems.append(Problem(f"{field}.{strange}", problem, _FIELDS))
    name = _name(item.get("name"), f"{field}.name", problems)
    given = [own for own in _TYPE_OF if item.get(own) is not None]
    kind = item.get("type", _TYPE_OF[given[0]] if given else "numeric")
    if not isinstance(kind, str) or kind not in _TYPES:
        problems.append(Problem(f"{field}.type", "is not a type of feature" + _near(kind, _TYPES, problems), _TYPES))
        return Feature(name)
    foreign = [own for own in given if _TYPE_OF[own] != kind]
    problems.extend(Problem(f"{field}.{own}", f"is only for {_TYPE_OF[own]} features") for own in foreign)
    if kind in ("boolean", "time"):
        return Feature(name, cast("Type", kind))
    return (_categorical if kind == "categorical" else _numeric)(name, item, field, problems)


def _near(given: object, known: Sequence[str], problems: Sequence[Problem]) -> str:
    """A suggestion for a misspelt word; of the first few problems only."""
    return suggestion(given, known) if len(problems) < SUGGESTED_MAX else ""


def _name(value: object, field: str, problems: list[Problem]) -> str:
    if isinstance(value, str) and 1 <= len(value) <= NAME_MAX and value.isprintable():
        return value
    problems.append(Problem(field, "is not a feature name", f"1 to {NAME_MAX} printable characters"))
    return ""


def _numeric(name: str, item: Mapping[str, object], field: str, problems: list[Problem]) -> Feature:
    low, high = (_bound(item.get(end), f"{field}.{end}", problems) for end in ("min", "max"))
    if low is not None and high is not None and low >= high:
        problems.append(Problem(f"{field}.max", "is not above min"))
    outside = item.get("outside")
    if outside is None:
        return Feature(name, minimum=low, maximum=high)
    if outside not in _OUTSIDE:
        problem = "is not one of the choices" + _near(outside, _OUTSIDE, problems)
        problems.append(Problem(f"{field}.outside", problem, _OUTSIDE))
    elif outside != "accept" and low is None and high is None:
        problems.append(Problem(f"{field}.outside", "needs a range to be outside of", "min, max or both"))
    return Feature(name, minimum=low, maximum=high, outside=cast("Outside", outside))


def _bound(value: object, field: str, problems: list[Problem]) -> float | None:
    if value is None:
        return None
    try:
        number = float(cast("float", value)) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if math.isfinite(number):
        return number
    problems.append(Problem(field, "is not a finite number"))
    return None


def _categorical(name: str, item: Mapping[str, object], field: str, problems: list[Problem]) -> Feature:
    raw, buckets = item.get("categories"), item.get("buckets")
    if raw is None:
        return _hashed(name, buckets, field, problems)
    if buckets is not None:
        problems.append(Problem(f"{field}.buckets", "goes without categories: declared ones have a column each"))
    if not isinstance(raw, list | tuple) or not 2 <= len(raw) <= CATEGORIES_MAX:
        problems.append(Problem(f"{field}.categories", "is not a list of categories", f"2 to {CATEGORIES_MAX} labels"))
        return Feature(name)
    try:
        return Feature(name, "categorical", distinct(raw, f"{field}.categories"))
    except Invalid as refused:
        problems.extend(refused.problems)
        return Feature(name)


def _hashed(name: str, buckets: object, field: str, problems: list[Problem]) -> Feature:
    if buckets is None:
        return hashed(name)
    if type(buckets) is int and 2 <= buckets <= CATEGORIES_MAX:
        return Feature(name, "categorical", buckets=buckets)
    problems.append(Problem(f"{field}.buckets", "is not a number of buckets", f">= 2 and <= {CATEGORIES_MAX}"))
    return hashed(name)


def _check_together(features: list[Feature], field: str, problems: list[Problem]) -> None:
    """Refuse two features or two encoded columns of one name, and too many columns."""
    if width_of(features) > COLUMNS_MAX:
        allowed = f"at most {COLUMNS_MAX}"
        problems.append(Problem(field, "gives too many columns, counting those of categories and times", allowed))
        return
    names: dict[str, int] = {}
    owners: dict[str, int] = {}
    for i, feature in enumerate(features):
        where = f"{field}[{i}]" + ("" if feature == Feature(feature.name) else ".name")
        if feature.name and names.setdefault(feature.name, i) != i:
            problems.append(Problem(where, f"is the same as that of {field}[{names[feature.name]}]"))
        elif feature.name and any(owners.setdefault(column, i) != i for column in feature.columns):
            problems.append(Problem(where, "gives a column named like one of another feature"))
