"""Feature spaces that follow others: the new one of a switch, the union of both, in which overlap rows are sent, and a
space with further categories.

A name that both spaces of a change have is sent once. If they declare it differently, a row of the union holds it in a
form that both can read, and each space reads it in its own way (``RowPart``):

    categories   numbered as in the old space, then those that only the new one has; each space uses its own numbers,
                 ``OTHER`` for a category that it does not have
    numbers      as they were sent; clipped to the space's range if it does not accept others; outside both ranges
                 refused if both spaces refuse them
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from core.contract import Floats, Ints, Label
from core.features.columns import OTHER, Limits
from core.features.feature import Feature, digest, parse_features
from core.features.labels import LabelSet, distinct
from core.features.schema import Schema
from core.problems import LISTED_MAX, Invalid, Problem, refuse

_OTHER_TYPE = (
    "has another type or number of buckets in the space in force, and overlap rows hold one value for both; use "
    "another name"
)


def parse_next(raw: object, current: Schema) -> tuple[Feature, ...]:
    """Read the features of the space that follows the current one.

    ``Invalid`` as for ``parse_features``; also if the features are exactly those in force, if a kept name has another
    type, or if both spaces together have too many columns, or two with one name.
    """
    features, own = parse_features(raw), dict(zip(current.names, current.features, strict=True))
    if {feature.name for feature in features} == {*own} and _same(features, current.features):
        raise Invalid.of("features", "has exactly the features in use: nothing changes")
    problems = [
        Problem(f"features[{i}]", _OTHER_TYPE, own[feature.name].to_json())
        for i, feature in enumerate(features)
        if feature.name in own and not one_value(feature, own[feature.name])
    ]
    refuse(problems)
    try:
        parse_features([feature.to_json() for feature in _joined(current, features)])
    except Invalid as refused:
        raise Invalid.of("features", "cannot be sent together with the features in use: " + str(refused)) from None
    return features


def with_categories(features: Sequence[Feature], added: object, field: str) -> tuple[Feature, ...]:
    """Append categories to those that the features have.

    ``added`` has them by feature name, as the client sent them; categories that exist already are ignored. ``Invalid``
    names a feature that is not in the space or has no declared categories, or says what is wrong with the new ones.
    """
    if not isinstance(added, Mapping):
        raise Invalid.of(field, "is not an object of lists of categories by feature")
    own = {feature.name: feature for feature in features if feature.categories}
    for name in added:
        if name not in own:
            raise Invalid.of(f"{field}.{name}", "is not a feature with declared categories", list(own)[:LISTED_MAX])
    for name, more in added.items():
        own[name] = _extended(own[name], distinct(more, f"{field}.{name}", "categories"))
    found = tuple(own.get(feature.name, feature) for feature in features)
    try:
        parse_features([feature.to_json() for feature in found])
    except Invalid as refused:
        raise Invalid.of(field, f"cannot be added: {refused}") from None
    return found


def _extended(feature: Feature, categories: Sequence[Label]) -> Feature:
    """A feature with the categories appended that it lacks."""
    known = LabelSet(feature.categories)
    new = [category for category in categories if known.index(category) < 0]
    return replace(feature, categories=(*feature.categories, *new)) if new else feature


def column_places(space: Schema, larger: Schema) -> Ints:
    """The position of each encoded column of a space in a larger space."""
    found = {name: at for at, name in enumerate(larger.columns)}
    return np.array([found[name] for name in space.columns], dtype=np.int64)


def union(old: Schema, features: Sequence[Feature]) -> Schema:
    """The old features, then the new ones that are not among them.

    A name that they declare differently gets a form that both can read.
    """
    return Schema(_joined(old, features))


class RowPart:
    """How a space reads its part of the rows of a larger one, ``whole``, which has all its names."""

    def __init__(self, space: Schema, whole: Schema) -> None:
        self._places = np.array([whole.index[name] for name in space.names], dtype=np.int64)
        pairs = [(own, whole.features[whole.index[own.name]]) for own in space.features]
        self._codes = {
            at: _codes(own, other) for at, (own, other) in enumerate(pairs) if own.categories and own != other
        }
        self._limited = [at for at, (own, other) in enumerate(pairs) if own.outside != "accept" and own != other]
        self._limits = Limits.of(space.features)

    def of(self, raw: Floats) -> Floats:
        """The part (n, F) of rows of the larger space, which stay unchanged."""
        part = np.ascontiguousarray(raw[:, self._places])
        for at, codes in self._codes.items():
            known = ~np.isnan(part[:, at])
            part[known, at] = codes[part[known, at].astype(np.int64)]
        for at in self._limited:
            assert self._limits is not None  # a feature that accepts any number reads it as the larger space does
            part[:, at] = np.clip(part[:, at], self._limits.low[at], self._limits.high[at])
        return part


def _codes(own: Feature, other: Feature) -> Floats:
    """A feature's code of each category of the larger declaration; last, that of an unknown category."""
    known = LabelSet(own.categories)
    found = [known.index(category) for category in other.categories]
    return np.array([*(float(at) if at >= 0 else OTHER for at in found), OTHER])


def _joined(old: Schema, features: Sequence[Feature]) -> list[Feature]:
    new = {feature.name: feature for feature in features}
    kept = [_for_both(feature, new[feature.name]) if feature.name in new else feature for feature in old.features]
    return [*kept, *(feature for feature in features if feature.name not in old.index)]


def _for_both(one: Feature, other: Feature) -> Feature:
    """The declaration that reads a value for both declarations of its feature."""
    if one.categories:
        return _extended(one, other.categories)
    if (one.minimum, one.maximum, one.outside) == (other.minimum, other.maximum, other.outside):
        return one
    if (limits := Limits.of((one, other))) is None:
        return one
    outer = limits.low.min().item(), limits.high.max().item()
    low, high = (end if math.isfinite(end) and limits.refused.all() else None for end in outer)
    return replace(one, minimum=low, maximum=high, outside="accept" if low is high is None else "refuse")


def one_value(feature: Feature, other: Feature) -> bool:
    """Whether both declarations can read one value: they differ at most in categories or in the range."""
    kind = feature.type, feature.buckets, bool(feature.categories)
    return kind == (other.type, other.buckets, bool(other.categories))


def has_all(whole: Schema, space: Schema) -> bool:
    """Whether rows of one space hold every feature of another, in a form that it can read."""
    held = dict(zip(whole.names, whole.features, strict=True))
    return all(own.name in held and one_value(own, held[own.name]) for own in space.features)


def _same(features: Sequence[Feature], others: Sequence[Feature]) -> bool:
    """Whether two lists hold the same declarations, in any order; 0 is not False."""
    return {digest(feature.to_json()) for feature in features} == {digest(feature.to_json()) for feature in others}
