"""The features that the first row of a model proposes, where none are declared.

A number is numeric, true and false are boolean, a string is categorical with hashed values; of CSV a cell that is no
number is a string. What is missing, in CSV also one of ``MISSING_TEXTS``, has no kind: it has to be declared.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from core.features.columns import declaration
from core.features.declaration import parse_features
from core.features.feature import Feature, hashed
from core.features.parsing import MISSING_TEXTS, NUMBERS, Unfit, reads, text_number
from core.problems import Problem, refuse


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
            problems.append(Problem(place(at, feature.name), unfit.problem, "a number, a string, true or false"))
    refuse(problems)
    return features if tuple(found) == features else parse_features([one.to_json() for one in found], field)


def _proposed(name: str, value: Any, texts: bool) -> Feature:
    """The feature of a name by its first value.

    Raises:
        Unfit: the value has no kind.
    """
    if value is None or (texts and value in MISSING_TEXTS):
        way_out = f'declare "features", of which this may be {declaration(name, "numeric")}'
        raise Unfit(f"is missing in the first row, which fixes the features; {way_out}")
    if isinstance(value, str):
        return Feature(name) if texts and reads(text_number, value) else hashed(name)
    if isinstance(value, bool):
        return Feature(name, "boolean")
    if type(value) not in NUMBERS:
        raise Unfit("is neither a number, a string nor a boolean")
    return Feature(name)
