"""How the columns of a file were read, said before its first row is sent; and which look like ids."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from service.replay.kinds import is_missing
from service.replay.wording import counted, first

NAMES_SHOWN = 8
"""Columns of one kind."""
ID_SHARE, ID_ROWS = 0.9, 20
"""A column of strings looks like an id where so many of its cells differ, in so many rows or more."""
KINDS = {"number": "number", "categorical": "string", "boolean": "boolean", "time": "time"}
"""Types of features, and what a file has of them, in the order in which they are told."""


class Reading(NamedTuple):
    """How a file is read.

    Attributes:
        features: as the body of PUT declares them.
        apart: columns that are no features: their use by their name.
        dropped: columns that are left out.
    """

    features: Sequence[Any]
    apart: Mapping[str, str]
    dropped: Sequence[str]


def lines(reading: Reading) -> list[str]:
    """Each kind with its columns; then what is no feature."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for feature in reading.features:
        kind = "number" if isinstance(feature, str) else str(feature["type"])
        found[kind].append(_named(feature))
    told = [
        f"{counted(len(names), KINDS[kind])}: {', '.join(first(names, NAMES_SHOWN))}"
        for kind, names in found.items()
        if names
    ]
    apart = [f"{use}: {name}" for name, use in reading.apart.items()]
    left = [f"left out: {', '.join(first(reading.dropped, NAMES_SHOWN))}"] if reading.dropped else []
    return [f"columns read as {'; '.join([*told, *apart, *left])}"]


def _named(feature: Any) -> str:
    """A feature, with how many categories where they are listed."""
    if isinstance(feature, str):
        return feature
    listed = feature.get("categories")
    return str(feature["name"]) if listed is None else f"{feature['name']} ({counted(len(listed), 'category')})"


def ids_among(reading: Reading, cells: Mapping[str, Sequence[str]]) -> list[str]:
    """Features of strings that nearly always differ: they teach nothing of rows to come.

    Args:
        reading: how the file is read.
        cells: of the first rows, by column; of one that is not there nothing is said.
    """
    strings = [one["name"] for one in reading.features if not isinstance(one, str) and one["type"] == "categorical"]
    known = [name for name in strings if name in cells]
    return [name for name in known if _differ([cell for cell in cells[name] if not is_missing(cell)])]


def _differ(given: Sequence[str]) -> bool:
    return len(given) >= ID_ROWS and len(set(given)) >= ID_SHARE * len(given)
