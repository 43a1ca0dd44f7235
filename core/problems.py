"""What can be wrong with what a client sent, said field by field.

Invalid    the values themselves are wrong: unknown name, out of range, not a number
Conflict   the values are fine, but the model's state does not allow them now
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

PROBLEMS_MAX = 20
"""Problems told in one refusal."""
LISTED_MAX = 100
"""Names or categories listed in one refusal."""
NAMED_MAX = 10
"""Features named in its text."""
SUGGESTED_MAX = 3
"""Unknown names of one refusal for which a known one is suggested: each is compared with up to ``LISTED_MAX``."""
SUGGESTED_LENGTH_MAX = 60
"""Characters of a name that is compared."""


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        field: path of the field as the client wrote it, e.g. ``params.forgetting_rate`` or ``data[3][1]``.
        problem: what is wrong with it, without echoing the value.
        allowed: what would be right (a range, a list of names), or None where nothing short says it.
    """

    field: str
    problem: str
    allowed: object = None


def unknown_feature(field: str, names: Sequence[str], given: str = "") -> Problem:
    """A name in a row, or a column of a table, that none of the model's features has; ``allowed`` lists these.

    Args:
        field: where it stands.
        names: of the features.
        given: the name, where a similar one is to be suggested.
    """
    way_out = suggestion(given, names) or PASSED_OVER
    return Problem(field, f"is not a feature of this model{way_out}", list(names[:LISTED_MAX]))


def suggestion(given: object, names: Sequence[str]) -> str:
    """``; did you mean load?`` where one of the first names is like a given one but for a few letters, else nothing."""
    if not isinstance(given, str) or not 0 < len(given) <= SUGGESTED_LENGTH_MAX:
        return ""
    by_letters = {name.lower(): name for name in names[:LISTED_MAX] if len(name) <= SUGGESTED_LENGTH_MAX}
    found = get_close_matches(given.lower(), by_letters, 1)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""


PASSED_OVER = '; declare it in "ignore" to have it passed over'
"""The way out for a name that is like none of the features."""
FILLED = 'declare "missing": "mean" or "zero" to have missing values filled'
"""The way out for a value that is not there."""


def lacking(field: str, names: Sequence[str], way_out: str = "") -> Problem:
    """Features that a row or a table should have and does not: the first are named, more stand in ``allowed``."""
    shown, more = ", ".join(names[:NAMED_MAX]), len(names) - NAMED_MAX
    named = f"lacks features: {shown}{f' and {more} more' if more > 0 else ''}"
    return Problem(field, f"{named}; {way_out}" if way_out else named, list(names[:LISTED_MAX]))


class Invalid(ValueError):
    """The input is refused as it stands; nothing has changed.

    Args:
        problems: everything found wrong, first things first; at least one.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{p.field}: {p.problem}" for p in problems))
        self.problems: Sequence[Problem] = problems

    def __reduce__(self) -> tuple[type["Invalid"], tuple[Problem, ...]]:
        """A copy, also one in another process, is made of the problems."""
        return type(self), tuple(self.problems)

    @classmethod
    def of(cls, field: str, problem: str, allowed: object = None) -> "Invalid":
        """Build the common case of a single problem."""
        return cls(Problem(field, problem, allowed))


class Conflict(ValueError):
    """The input would be fine in another state of the model; nothing has changed."""


def refuse(problems: Sequence[Problem]) -> None:
    """Refuse the input if anything is wrong with it.

    Raises:
        Invalid: the first problems, if there are any.
    """
    if problems:
        raise Invalid(*problems[:PROBLEMS_MAX])
