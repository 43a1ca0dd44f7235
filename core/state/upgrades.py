"""What makes a state of one format a state of the next.

A step is a sequence of small pure functions, one for each part of the state that has changed, applied in turn:

    UPGRADERS[3] = in_turn(*FROM_3)

Until a format is released, whoever changes what a part saves adds a function to the newest step. Functions change
nothing that they are given, since arrays are views of the bytes, and build no parts: they know arrays and header only.
"""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from core.contract import Header
from core.state import (
    answers_of_3,
    drift_of_3,
    history_of_4,
    intervals_of_3,
    label_range_of_3,
    mappings_of_3,
    metrics_of_3,
    paired_of_5,
)

Arrays = dict[str, NDArray[Any]]
"""All arrays of a state by name, "part.array"."""
Upgrade = Callable[[Arrays, Header], tuple[Arrays, Header]]
"""Makes arrays and header of another form out of those it is given."""


def in_turn(*parts: Upgrade) -> Upgrade:
    """Several upgrades as one, the first one first."""

    def step(arrays: Arrays, header: Header) -> tuple[Arrays, Header]:
        for part in parts:
            arrays, header = part(arrays, header)
        return arrays, header

    return step


FROM_3: tuple[Upgrade, ...] = (
    label_range_of_3.upgraded,
    answers_of_3.in_declared_order,
    answers_of_3.calibrated,
    metrics_of_3.upgraded,
    drift_of_3.upgraded,
    intervals_of_3.upgraded,
    mappings_of_3.upgraded,
)
"""What makes a state of format 3 one of format 4, part by part."""
FROM_4: tuple[Upgrade, ...] = (history_of_4.upgraded,)
"""The same for format 4. Beside that, rows make another state of the same one: what is said of classes of few rows."""
FROM_5: tuple[Upgrade, ...] = (paired_of_5.upgraded,)
"""The same for format 5."""
UPGRADERS: dict[int, Upgrade] = {3: in_turn(*FROM_3), 4: in_turn(*FROM_4), 5: in_turn(*FROM_5)}
"""By format n, from the oldest that is read on: what makes a state of format n + 1 of one of format n."""
