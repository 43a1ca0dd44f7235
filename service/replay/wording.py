"""Words that several commands print: counts of rows, long lists cut, refusals in terms of flags."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

IN_FLAGS = (
    (r'declare "missing": "mean" or "zero" to have missing values filled', "--missing mean or --missing zero fills it"),
    (r'declare it in "ignore" to have it passed over', "--drop leaves a column out"),
    (r'a label "" must be declared to be read from an empty cell', "every row needs a label"),
)
"""What the service says to clients that write JSON, and how a command's user does the same."""


IN_COMMANDS = (
    ("GET /models lists them", "onepass models lists them"),
    (
        'declare "missing": "mean" or "zero" to have missing values filled',
        "a model that is created with --missing mean fills it",
    ),
    ("GET .../pending", "they expire; a row that was not tracked is taught by its values"),
)
"""The same of what it says to the commands that are clients."""


def counted(number: int, what: str = "row") -> str:
    """So many rows, or other things."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def first(texts: Sequence[str], most: int, about: str = "") -> list[str]:
    """The first texts, and how many more there are; ``about``: words before that number."""
    return [*texts] if len(texts) <= most else [*texts[:most], f"and {about}{len(texts) - most} more"]


def in_flags(said: str, words: Iterable[tuple[str, str]] = IN_FLAGS) -> str:
    """A sentence of the service as the user of a command would be told it; ``words``: of which command."""
    for theirs, ours in words:
        said = said.replace(theirs, ours)
    return said


def suggested(given: str, known: Iterable[str]) -> str:
    """``; did you mean load?`` where one of the known names is like a given one, else nothing."""
    by_letters = {name.lower(): name for name in known}
    found = get_close_matches(given.lower(), by_letters, 1)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""
