"""The level of the intervals that a client asks for beside the predictions of a regression."""

import math
from collections.abc import Mapping

from core.contract import LEVEL_MAX
from core.problems import Invalid

QUERY = "interval"
"""The query parameter of a batch, for bodies that have no place for a level."""
ALLOWED = f"a number > 0 and <= {LEVEL_MAX}"


def level_of(given: object, task: str) -> float | None:
    """The level asked for; None: no intervals are.

    Args:
        given: what the body holds.
        task: of the model.

    Raises:
        Invalid: naming the field.
    """
    if given is None:
        return None
    if task != "regression":
        raise Invalid.of(QUERY, "goes with regression only: a classification answers probabilities")
    if not (isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= LEVEL_MAX):
        raise Invalid.of(QUERY, "is not a level of coverage", ALLOWED)
    return float(given)


def level_of_batch(given: object, query: Mapping[str, str], task: str) -> float | None:
    """The same of a batch, whose level stands in the body or in the query.

    Raises:
        Invalid: as ``level_of``; or it stands in both.
    """
    text = query.get(QUERY)
    if text is None:
        return level_of(given, task)
    if given is not None:
        raise Invalid.of(QUERY, "stands both in the body and in the query", ALLOWED)
    return level_of(_number(text), task)


def _number(text: str) -> float:
    """The number that a text holds; NaN, which is no level, where it holds none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
