"""Features as clients declare them: names, types, categories, ranges.

    numeric      its number                                                              1 column
    boolean      0 or 1                                                                  1 column
    categorical  one-hot: a column per declared category; where none are declared, one
                 per bucket that values hash to
    time         hour, weekday and day of the year on circles, elapsed days (core.features.encoder)   7 columns

``minimum`` and ``maximum`` state the range a client expects of a numeric feature; drift tests measure in units of that
range. Values outside are accepted unchanged, unless ``outside`` refuses them or clips them to the range.

Without a declaration, the first row proposes the features: a number is numeric, true and false are boolean, a string is
categorical with hashed values; a CSV cell that is not a number is a string. A missing value (in CSV also one of
``MISSING_TEXTS``) has no kind: its feature must be declared.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError

from core.contract import Label
from core.features.labels import LENGTH_MAX, distinct, key
from core.features.parsing import MISSING_TEXTS, NUMBERS, Unfit, number, reads
from core.problems import PROBLEMS_MAX, Checked, Invalid, Problem, Says, by, problems_of, refuse, suggestion

NAME_MAX = 200  # most characters in a feature's name
COLUMNS_MAX = 100_000  # most features of a model, and most columns after encoding
CATEGORIES_MAX = 10_000  # most categories of one feature
TIME_COLUMNS = ("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos", "days")
"""Suffixes of the encoded columns of a time, after the feature's name."""
BUCKETS = 32  # default number of buckets of a categorical feature without declared categories
Type = Literal["numeric", "categorical", "boolean", "time"]
Outside = Literal["accept", "refuse", "clip"]
Missing = Literal["error", "zero", "mean"]
"""How missing values are treated."""
_ANY_RANGE = -1e12, 1e12


@dataclass(frozen=True, slots=True)
class Feature:
    """One named input; ``categories`` is () if none are declared, ``buckets`` 0 unless values are hashed."""

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
        """Least and largest value of each encoded column, NaN if not declared."""
        if self.type == "time":
            return [(-1.0, 1.0)] * (self.width - 1) + [(math.nan, math.nan)]
        if self.type != "numeric":
            return [(0.0, 1.0)] * self.width
        low, high = self.minimum, self.maximum
        return [(math.nan if low is None else low, math.nan if high is None else high)]

    @property
    def drift_ranges(self) -> list[tuple[float, float]]:
        """The ranges that drift tests use as units.

        Those of a time are so wide that no test ever fires: passing time and changing seasons are not drifts.
        """
        return [_ANY_RANGE] * self.width if self.type == "time" else self.ranges

    def to_json(self) -> Any:
        """The declaration of this feature: its name if that is enough, else an object."""
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


def declaration(name: str, kind: str) -> str:
    """The declaration of a feature as in the body of PUT."""
    return json.dumps({"name": name, "type": kind}, ensure_ascii=False)


Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
_NAMES = f"1 to {NAME_MAX} printable characters"
GivenLabel = Annotated[str, Field(max_length=LENGTH_MAX)] | Annotated[int, Field(ge=-(2**63), lt=2**63)] | bool
"""A label or a category."""
_End = Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, Says("is not a finite number")]
_TYPE_OF: dict[str, Type] = {
    "categories": "categorical",
    "buckets": "categorical",
    "min": "numeric",
    "max": "numeric",
    "outside": "numeric",
}
"""The type of feature that each field belongs to."""


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError
    return name


def _categories(given: object) -> list[Label] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not 2 <= len(given) <= CATEGORIES_MAX:
        raise Invalid.of("", "is not a list of categories", f"2 to {CATEGORIES_MAX} labels")
    return list(distinct(given, ""))  # as it is serialised


class FeatureEntry(Checked):
    """A declared feature."""

    strange: ClassVar[str] = "is not a field of a feature"

    name: Annotated[Name, AfterValidator(_printable), Says("is not a feature name", _NAMES)]
    type: Annotated[Type, Says("is not a type of feature", [*get_args(Type)])] = Field(
        "numeric",
        description="Default: categorical with `categories` or `buckets`, else numeric. `boolean`: true, false, 0 or "
        "1. `time`: RFC 3339 or seconds since 1970; the model sees hour, weekday and day of the year as sine and "
        "cosine, and the number of days since 2026.",
    )
    categories: Annotated[
        Annotated[list[GivenLabel], Field(min_length=2, max_length=CATEGORIES_MAX)] | None, by(_categories)
    ] = Field(
        None,
        description="The values of a categorical feature, one column each. Default: values are hashed into `buckets`.",
    )
    buckets: Annotated[
        Annotated[int, Field(ge=2, le=CATEGORIES_MAX)] | None,
        Says("is not a number of buckets", f">= 2 and <= {CATEGORIES_MAX}"),
    ] = Field(None, description=f"Number of columns that undeclared values share. Default: {BUCKETS}.")
    minimum: _End = Field(None, alias="min", description="Usual minimum of the values.")
    maximum: _End = Field(None, alias="max", description="Usual maximum of the values.")
    outside: Annotated[Outside | None, Says("is not one of the choices", [*get_args(Outside)])] = Field(
        None, description="How to treat a number outside `min` and `max`. Default: accept it unchanged."
    )

    @property
    def feature(self) -> Feature:
        """The declared feature; raises ``Invalid`` for fields that do not fit together."""
        if self.minimum is not None and self.maximum is not None and self.minimum >= self.maximum:
            raise Invalid.of(".max", "is not above min")
        if self.outside in {"refuse", "clip"} and self.minimum is None and self.maximum is None:
            raise Invalid.of(".outside", "needs a declared range", "min, max or both")
        if self.categories is not None and self.buckets is not None:
            raise Invalid.of(".buckets", "cannot be combined with categories, which have one column each")
        buckets = (self.buckets or BUCKETS) if self.type == "categorical" and self.categories is None else 0
        categories, outside = tuple(self.categories or ()), self.outside or "accept"
        return Feature(self.name, self.type, categories, self.minimum, self.maximum, buckets, outside)


Declared = Annotated[list[Name | FeatureEntry], Field(min_length=1, max_length=COLUMNS_MAX)]
"""The features of a model."""


def parse_features(raw: object, field: str = "features") -> tuple[Feature, ...]:
    """The features a client declares: a list of names and objects; raises ``Invalid`` with the first 20 problems."""
    if not isinstance(raw, list | tuple) or not raw:
        raise Invalid.of(field, "is not a list of features", f"1 to {COLUMNS_MAX} names or objects")
    if len(raw) > COLUMNS_MAX:
        raise Invalid.of(field, "has too many features", f"1 to {COLUMNS_MAX} names or objects")
    problems: list[Problem] = []
    features = [_feature(item, f"{field}[{i}]", problems) for i, item in enumerate(raw)]
    _check_together(features, field, problems)
    refuse(problems)
    return tuple(features)


def _feature(item: object, field: str, problems: list[Problem]) -> Feature:
    """A feature; adds its problems to ``problems`` while there are fewer than ``PROBLEMS_MAX``."""
    if isinstance(item, str) and 1 <= len(item) <= NAME_MAX and item.isprintable():
        return Feature(item)
    if not isinstance(item, Mapping) or len(problems) >= PROBLEMS_MAX:
        wrong = ("is not a feature name", _NAMES) if isinstance(item, str) else ("is neither a name nor an object",)
        problems.append(Problem(field, *wrong))
        return Feature("")
    given = [own for own in _TYPE_OF if item.get(own) is not None]
    whole = {"name": None, "type": _TYPE_OF[given[0]] if given else "numeric", **item}
    foreign = [own for own in given if _TYPE_OF[own] != whole["type"]] if whole["type"] in get_args(Type) else []
    known = FeatureEntry.names()
    for strange in [name for name in item if name not in known][:PROBLEMS_MAX]:
        meant = suggestion(strange, known, len(problems))
        problems.append(Problem(f"{field}.{strange}", FeatureEntry.strange + meant, known))
    try:
        found = FeatureEntry.model_validate({own: whole[own] for own in known if own in whole.keys() - foreign}).feature
    except (ValidationError, Invalid) as refused:
        own = refused.problems if isinstance(refused, Invalid) else problems_of(refused, len(problems))
        problems.extend(one._replace(field=f"{field}{one.field}") for one in own)
        found = Feature(item["name"] if isinstance(item.get("name"), str) else "")
    problems.extend(Problem(f"{field}.{own}", f"is only for {_TYPE_OF[own]} features") for own in foreign)
    return found


def _check_together(features: list[Feature], field: str, problems: list[Problem]) -> None:
    """Refuse two features or encoded columns with the same name, and too many columns."""
    if width_of(features) > COLUMNS_MAX:
        allowed = f"at most {COLUMNS_MAX}"
        problems.append(Problem(field, "has too many columns, including those of categories and times", allowed))
        return
    names: dict[str, int] = {}
    owners: dict[str, int] = {}
    for i, feature in enumerate(features):
        where = f"{field}[{i}]" + ("" if feature == Feature(feature.name) else ".name")
        if feature.name and names.setdefault(feature.name, i) != i:
            problems.append(Problem(where, f"is also the name of {field}[{names[feature.name]}]"))
        elif feature.name and any(owners.setdefault(column, i) != i for column in feature.columns):
            problems.append(Problem(where, "has a column with the same name as another feature's"))


def propose(
    names: Sequence[str],
    values: Sequence[Any] | None,
    texts: bool,
    ignored: Collection[str],
    field: str,
    place: Callable[[int, str], str],
) -> tuple[Feature, ...]:
    """Propose features for ``names`` in order, except those ``ignored``, by the kinds of the values of one row.

    ``values`` has one per name, CSV texts if ``texts``, else JSON values; None if the row cannot be read: all are
    numeric for now. ``Invalid`` lists the first 20 invalid names, or values without a kind; it calls the names
    ``field``, and a value ``place(position, name)``.
    """
    kept = [at for at, name in enumerate(names) if name not in ignored]
    if not kept:
        raise Invalid.of(
            field, "has nothing to learn from: the first row determines the features", "at least one feature"
        )
    features = parse_features([names[at] for at in kept], field)
    if values is None:
        return features
    problems: list[Problem] = []
    found: list[Feature] = []
    for at, feature in zip(kept, features, strict=True):
        try:
            found.append(_proposed(feature.name, values[at], texts))
        except Unfit as unfit:
            problems.append(unfit.at(place(at, feature.name)))
    refuse(problems)
    return features if tuple(found) == features else parse_features([one.to_json() for one in found], field)


def _proposed(name: str, value: Any, texts: bool) -> Feature:
    """The feature of a name by its first value; raises ``Unfit`` if the value has no kind."""
    kinds = "a number, a string, true or false"
    if value is None or (texts and value in MISSING_TEXTS):
        example = f"declares all its features, this one for example as {declaration(name, 'numeric')}"
        way_out = f"send a row without gaps first, or create another model that {example}"
        raise Unfit(f"is missing in the first row, which fixes the features: {way_out}", kinds)
    if isinstance(value, str):
        numeric = texts and reads(number, value, True)
        return Feature(name) if numeric else Feature(name, "categorical", buckets=BUCKETS)
    if isinstance(value, bool):
        return Feature(name, "boolean")
    if type(value) not in NUMBERS:
        raise Unfit("is neither a number, a string nor a boolean", kinds)
    return Feature(name)
