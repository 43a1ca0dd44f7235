"""Features as clients declare them, checked one by one, then together; or as the first row of a model proposes them.

Where none are declared, a number is numeric, true and false are boolean, a string is categorical with hashed values; of
CSV a cell that is no number is a string. What is missing, in CSV also one of ``MISSING_TEXTS``, has no kind: it has to
be declared.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, Field, ValidationError

from core.contract import Label
from core.features.columns import declaration
from core.features.feature import (
    BUCKETS,
    CATEGORIES_MAX,
    COLUMNS_MAX,
    NAME_MAX,
    Feature,
    Outside,
    Type,
    width_of,
)
from core.features.labels import LENGTH_MAX, distinct
from core.features.parsing import MISSING_TEXTS, NUMBERS, Unfit, reads, text_number
from core.problems import (
    PROBLEMS_MAX,
    SUGGESTED_MAX,
    Checked,
    Invalid,
    Problem,
    Says,
    by,
    problems_of,
    refuse,
    suggestion,
)

Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
_NAMES = f"1 to {NAME_MAX} printable characters"
GivenLabel = Annotated[str, Field(max_length=LENGTH_MAX)] | Annotated[int, Field(ge=-(2**63), lt=2**63)] | bool
"""A label or a category."""
_TYPE_OF: dict[str, Type] = {
    "categories": "categorical",
    "buckets": "categorical",
    "min": "numeric",
    "max": "numeric",
    "outside": "numeric",
}
"""The type of feature that a field is for."""


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
        description="Left out: categorical with `categories` or `buckets`, else numeric. `boolean`: true, false, 0 or "
        "1. `time`: RFC 3339 or seconds since 1970; the model sees hour, weekday and day of the year as sine and "
        "cosine, and the days since 2026.",
    )
    categories: Annotated[
        Annotated[list[GivenLabel], Field(min_length=2, max_length=CATEGORIES_MAX)] | None, by(_categories)
    ] = Field(
        None,
        description="The values of a categorical feature, a column each. Left out: values are hashed into `buckets`.",
    )
    buckets: Annotated[
        Annotated[int, Field(ge=2, le=CATEGORIES_MAX)] | None,
        Says("is not a number of buckets", f">= 2 and <= {CATEGORIES_MAX}"),
    ] = Field(None, description=f"Columns that values without a declaration share. Left out: {BUCKETS}.")
    minimum: Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, Says("is not a finite number")] = Field(
        None, alias="min", description="Where values usually begin."
    )
    maximum: Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, Says("is not a finite number")] = Field(
        None, alias="max", description="Where values usually end."
    )
    outside: Annotated[Outside | None, Says("is not one of the choices", [*get_args(Outside)])] = Field(
        None, description="What becomes of a number outside `min` and `max`. Left out: it is accepted as it is."
    )

    @property
    def feature(self) -> Feature:
        """What is declared; raises ``Invalid`` for fields that do not go together."""
        if self.minimum is not None and self.maximum is not None and self.minimum >= self.maximum:
            raise Invalid.of(".max", "is not above min")
        if self.outside in {"refuse", "clip"} and self.minimum is None and self.maximum is None:
            raise Invalid.of(".outside", "needs a range to be outside of", "min, max or both")
        if self.categories is not None and self.buckets is not None:
            raise Invalid.of(".buckets", "goes without categories: declared ones have a column each")
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
    """A feature; where it is wrong and fewer than ``PROBLEMS_MAX`` problems are known, why."""
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
        meant = suggestion(strange, known) if len(problems) < SUGGESTED_MAX else ""
        problems.append(Problem(f"{field}.{strange}", FeatureEntry.strange + meant, known))
    try:
        found = FeatureEntry.model_validate({own: whole[own] for own in known if own in whole.keys() - foreign}).feature
    except (ValidationError, Invalid) as refused:
        own = refused.problems if isinstance(refused, Invalid) else problems_of(refused, len(problems) < SUGGESTED_MAX)
        problems.extend(one._replace(field=f"{field}{one.field}") for one in own)
        found = Feature(item["name"] if isinstance(item.get("name"), str) else "")
    problems.extend(Problem(f"{field}.{own}", f"is only for {_TYPE_OF[own]} features") for own in foreign)
    return found


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


def propose(
    names: Sequence[str],
    values: Sequence[Any] | None,
    texts: bool,
    ignored: Collection[str],
    field: str,
    place: Callable[[int, str], str],
) -> tuple[Feature, ...]:
    """Features of some names, of the kinds of the values of one row.

    Args:
        names: in order.
        values: one per name, JSON values or CSV texts; None for a row that cannot be read: numbers, until it is.
        texts: whether they are texts.
        ignored: names of no features.
        field: how errors name the names.
        place: how errors name a value, by its position and its name.

    Raises:
        Invalid: names that are none, or a value of no kind; the first 20 of them.
    """
    kept = [at for at, name in enumerate(names) if name not in ignored]
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
    """The feature of a name by its first value; raises ``Unfit`` where that has no kind."""
    kinds = "a number, a string, true or false"
    if value is None or (texts and value in MISSING_TEXTS):
        way_out = f'declare "features", of which this may be {declaration(name, "numeric")}'
        raise Unfit(f"is missing in the first row, which fixes the features; {way_out}", kinds)
    if isinstance(value, str):
        numeric = texts and reads(text_number, value)
        return Feature(name) if numeric else Feature(name, "categorical", buckets=BUCKETS)
    if isinstance(value, bool):
        return Feature(name, "boolean")
    if type(value) not in NUMBERS:
        raise Unfit("is neither a number, a string nor a boolean", kinds)
    return Feature(name)
