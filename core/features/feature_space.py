"""Feature spaces around a switch: the new one, checked, and the union of both, which overlap rows are sent in."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from core.contract import Ints
from core.features.feature import Feature, parse_features
from core.features.schema import Schema
from core.problems import Invalid, Problem


def parse_next(raw: object, current: Schema, field: str = "features") -> tuple[Feature, ...]:
    """The features of a space that is to follow the current one.

    Raises:
        Invalid: as ``parse_features``; the same names as now; a kept name whose type or categories are declared
            otherwise; both spaces together give too many columns, or two of one name.
    """
    features = parse_features(raw, field)
    if {feature.name for feature in features} == set(current.names):
        raise Invalid.of(field, "holds the names of the features in force, and no others")
    problems = [
        Problem(
            f"{field}[{i}]",
            "is declared otherwise in the space in force; a kept name keeps its type and categories",
            current.features[current.index[feature.name]].to_json(),
        )
        for i, feature in enumerate(features)
        if feature.name in current.index and not _alike(feature, current.features[current.index[feature.name]])
    ]
    if problems:
        raise Invalid(*problems[:20])
    try:
        parse_features([feature.to_json() for feature in _joined(current, features)], field)
    except Invalid as refused:
        raise Invalid.of(field, "cannot be sent together with the features in force: " + str(refused)) from None
    return features


def with_declarations(raw: object, current: Schema) -> object:
    """Features as a client declares them, in which a bare name that is kept stands for its declaration."""
    if not isinstance(raw, list | tuple):
        return raw
    kept = dict(zip(current.names, current.features, strict=True))
    return [kept[item].to_json() if isinstance(item, str) and item in kept else item for item in raw]


def fits(features: Sequence[Feature], current: Schema) -> bool:
    """Whether features checked against some space can follow the current one."""
    try:
        parse_next([feature.to_json() for feature in features], current)
    except Invalid:
        return False
    return True


def union(old: Schema, features: Sequence[Feature]) -> Schema:
    """The old features, then those of the new ones that are not among them."""
    return Schema(_joined(old, features))


def places(space: Schema, whole: Schema) -> Ints:
    """The position of each raw column of a space in a row of a larger one."""
    return np.array([whole.index[name] for name in space.names], dtype=np.int64)


def _joined(old: Schema, features: Sequence[Feature]) -> list[Feature]:
    return [*old.features, *(feature for feature in features if feature.name not in old.index)]


def _alike(feature: Feature, other: Feature) -> bool:
    """Whether two features are read alike: the same but for the range that is expected of them."""
    alike = {"minimum": None, "maximum": None, "outside": "accept"}
    return replace(feature, **alike) == replace(other, **alike)  # type: ignore[arg-type]
