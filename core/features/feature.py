"""Features as clients declare them: names, types, categories, ranges.

A feature is numeric or categorical. ``minimum`` and ``maximum`` state the range a client expects; drift tests
measure in units of that range. Values outside are neither clipped nor refused.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, cast

from core.features.labels import Label, distinct, key
from core.problems import PROBLEMS_MAX, Invalid, Problem

NAME_MAX = 200
"""Characters in a feature's name."""
COLUMNS_MAX = 100_000
"""Features of one model, and columns after encoding."""
CATEGORIES_MAX = 10_000
"""Categories of one feature."""
_FIELDS = ["name", "type", "categories", "min", "max"]
_TYPES = ["numeric", "categorical"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One named input.

    Attributes:
        name: 1 to 200 printable characters.
        type: "numeric" or "categorical".
        categories: all values of a categorical feature; () for a numeric one.
        minimum, maximum: the range a numeric feature is expected in, or None.
    """

    name: str
    type: Literal["numeric", "categorical"] = "numeric"
    categories: tuple[Label, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    @property
    def width(self) -> int:
        """Encoded columns: one, or one per category."""
        return len(self.categories) or 1

    @property
    def columns(self) -> list[str]:
        """Names of the encoded columns: ``load``, or ``day=mon``, ``day=tue``."""
        return [f"{self.name}={key(category)}" for category in self.categories] or [self.name]

    @property
    def range(self) -> tuple[float, float]:
        """Declared least and largest value of an encoded column, NaN where none is declared."""
        if self.categories:
            return 0.0, 1.0
        low, high = self.minimum, self.maximum
        return math.nan if low is None else low, math.nan if high is None else high

    def to_json(self) -> Any:
        """The declaration of this feature: its name where that is enough, else an object."""
        if self == Feature(self.name):
            return self.name
        described: dict[str, Any] = {"name": self.name, "type": self.type}
        if self.categories:
            described["categories"] = list(self.categories)
        if self.minimum is not None:
            described["min"] = self.minimum
        if self.maximum is not None:
            described["max"] = self.maximum
        return described


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
    problems.extend(
        Problem(f"{field}.{name}", "is not a field of a feature", _FIELDS) for name in item if name not in _FIELDS
    )
    name = _name(item.get("name"), f"{field}.name", problems)
    kind = item.get("type", "numeric")
    if not isinstance(kind, str) or kind not in _TYPES:
        problems.append(Problem(f"{field}.type", "is not a type of feature", _TYPES))
        return Feature(name)
    return (_categorical if kind == "categorical" else _numeric)(name, item, field, problems)


def _name(value: object, field: str, problems: list[Problem]) -> str:
    if isinstance(value, str) and 1 <= len(value) <= NAME_MAX and value.isprintable():
        return value
    problems.append(Problem(field, "is not a feature name", f"1 to {NAME_MAX} printable characters"))
    return ""


def _numeric(name: str, item: Mapping[str, object], field: str, problems: list[Problem]) -> Feature:
    if item.get("categories") is not None:
        problems.append(Problem(f"{field}.categories", "is only for categorical features"))
    low, high = (_bound(item.get(end), f"{field}.{end}", problems) for end in ("min", "max"))
    if low is not None and high is not None and low >= high:
        problems.append(Problem(f"{field}.max", "is not above min"))
    return Feature(name, minimum=low, maximum=high)


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
    ends = [end for end in ("min", "max") if item.get(end) is not None]
    problems.extend(Problem(f"{field}.{end}", "is only for numeric features") for end in ends)
    raw = item.get("categories")
    if not isinstance(raw, list | tuple) or not 2 <= len(raw) <= CATEGORIES_MAX:
        problems.append(Problem(f"{field}.categories", "is not a list of categories", f"2 to {CATEGORIES_MAX} labels"))
        return Feature(name)
    try:
        return Feature(name, "categorical", distinct(raw, f"{field}.categories"))
    except Invalid as refused:
        problems.extend(refused.problems)
        return Feature(name)


def _check_together(features: list[Feature], field: str, problems: list[Problem]) -> None:
    """Refuse two features or two encoded columns of one name, and too many columns."""
    if sum(feature.width for feature in features) > COLUMNS_MAX:
        problems.append(Problem(field, "gives too many columns, counting one per category", f"at most {COLUMNS_MAX}"))
        return
    names: dict[str, int] = {}
    owners: dict[str, int] = {}
    for i, feature in enumerate(features):
        where = f"{field}[{i}]" + ("" if feature == Feature(feature.name) else ".name")
        if feature.name and names.setdefault(feature.name, i) != i:
            problems.append(Problem(where, f"is the same as that of {field}[{names[feature.name]}]"))
        elif feature.name and any(owners.setdefault(column, i) != i for column in feature.columns):
            problems.append(Problem(where, "gives a column named like one of another feature"))
