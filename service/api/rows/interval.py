"""The level of the intervals that a client requests with the predictions of a regression."""

from contextlib import suppress

from core.contract import LEVEL_MAX
from core.problems import Invalid

QUERY = "interval"  # the query parameter of a batch, for bodies that cannot hold a level
ALLOWED = f"a number > 0 and <= {LEVEL_MAX}"


def level_of(given: object, task: str, text: str | None = None) -> float | None:
    """The level that the body or, as ``text``, the query of a batch asks for; None: no intervals.

    ``Invalid`` if it is not a level, or if both have one.
    """
    if text is not None:
        if given is not None:
            raise Invalid.of(QUERY, "is given both in the body and in the query", ALLOWED)
        given = text
        with suppress(ValueError):
            given = float(text)
    if given is None:
        return None
    if task != "regression":
        raise Invalid.of(QUERY, "is for regression only: a classification returns probabilities")
    if not (isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= LEVEL_MAX):
        raise Invalid.of(QUERY, "is not a coverage level", ALLOWED)
    return float(given)
