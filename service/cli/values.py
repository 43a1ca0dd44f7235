"""Values typed in a shell, as the model's features and labels understand them.

A shell has only text. What a feature is declared as says what its text stands for; where nothing is declared yet, or
the text does not fit, it is taken as JSON would be, else as it is: then the service says what would fit.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

WORDS = {"true": True, "false": False, "null": None}


def guessed(given: str) -> Any:
    """True, false, null and numbers as such, all else as text."""
    return WORDS[given] if given in WORDS else number(given)


def number(given: str) -> Any:
    """A number where it is a finite one, else the text."""
    with suppress(ValueError):
        return int(given) if given.isascii() and given.lstrip("+-").isdigit() else _finite(given)
    return given


def _finite(given: str) -> float:
    found = float(given)
    if not math.isfinite(found):
        raise ValueError(given)
    return found


def row(declared: Iterable[Any], given: Mapping[str, str]) -> dict[str, Any]:
    """The features of a row.

    Args:
        declared: features as GET /models/{name}/features lists them; none where the first row declares them.
        given: texts by name.
    """
    known = {one if isinstance(one, str) else one["name"]: {} if isinstance(one, str) else one for one in declared}
    return {name: _value(known[name], text) if name in known else guessed(text) for name, text in given.items()}


def _value(feature: Mapping[str, Any], given: str) -> Any:
    kind = feature.get("type", "number")
    if kind == "categorical":
        return next((one for one in feature.get("categories", ()) if spelt(one) == given), given)
    if given == "":
        return None  # missing, as an empty cell of CSV is
    if kind == "boolean":
        return guessed(given.lower())
    return number(given)


def label(task: str, labels: Iterable[Any], given: str) -> Any:
    """A label: a number, one of the known labels by its text, or what it looks like.

    Args:
        task: of the model.
        labels: declared or seen.
        given: its text.
    """
    if task == "regression":
        return number(given)
    looks = guessed(given)
    fallback = given if looks is None or isinstance(looks, float) else looks
    return next((one for one in labels if spelt(one) == given), fallback)


def labels_of(model: Mapping[str, Any]) -> list[Any]:
    """The labels of a model as GET shows it: the declared ones, else those seen."""
    return list(model["config"].get("labels") or model["info"].get("labels") or ())


def spelt(value: Any) -> str:
    """A label or category as text: true and false as JSON has them."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
