"""Challengers: learners beside the model's own, for the same rows in the same order.

Each is a ``Member`` of the model, as the model's own learner is one. It begins with the row after the entry that puts
it there: in the feature space in force, with the classes seen, and with nothing learned. From then on it takes every
step of the model: rows, changes of features, settings, resets.

Learners are known by the place of the entry that put them there (``ModelState.born``), whatever they are called later:
a promotion makes the challenger the model, and the former model the challenger "previous".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from core.challenger_config import Promote
from core.contract import Floats
from core.metrics.difference import NO_NUMBERS, Difference

if TYPE_CHECKING:
    from core.entry import ServedPrediction
    from core.model.member import Member
    from core.model.training import Scored

PREVIOUS = "previous"
"""What the former model is called after a promotion."""
TEST_EVERY = 100
"""Challengers are promoted by themselves after rows whose number is a multiple of it, and at no others."""
ASKED_ROWS_MIN = 200
"""Rows compared before a challenger is promoted on request without force."""


@dataclass(slots=True)
class Challenger:
    """A challenger.

    Attributes:
        member: its learner and all that belongs to it.
        promote: whether it is promoted by itself.
        difference: the paired losses, model minus challenger, since the challenger or the model began.
    """

    member: "Member"
    promote: Promote = "never"
    difference: Difference = field(default_factory=Difference)

    def compare(self, model: "Scored", own: "Scored", comparable: Floats | None, costs: Floats | None) -> None:
        """Compare rows that model and challenger have tested.

        Args:
            model: what it said.
            own: what the challenger said.
            comparable: (n,) 0 where both have said it at the same time, NaN elsewhere; None: 0 everywhere.
            costs: (K,) of missing each label, at most 1; None: all alike.
        """
        first, second = model.losses, own.losses if comparable is None else own.losses + comparable
        if costs is not None:
            first, second = first * costs[own.truth], second * costs[own.truth]
        self.difference.absorb(first, second, own.truth if self.member.regression else NO_NUMBERS)


def comparable(served: "Sequence[ServedPrediction | None]", learners: Sequence[str]) -> Floats:
    """Rows (n,) of which all of some learners said something at the same time: 0, else NaN.

    Args:
        served: what was said of each that was tracked; None of others, of which all say something now.
        learners: by the places of their entries.
    """
    both = [one is None or all(one.said_by(learner) is not None for learner in learners) for one in served]
    return np.where(both, 0.0, np.nan)


def promotable(challengers: Mapping[str, Challenger]) -> str | None:
    """The challenger to be promoted by itself, if there is one: of several the one that is surely better by most."""
    auto, k = {name: one.difference for name, one in challengers.items() if one.promote == "auto"}, len(challengers)
    found = [name for name, difference in auto.items() if difference.favours_second(k)]
    return max(found, key=lambda name: auto[name].low(k), default=None)


def parts_between_tests(rows: int, count: int, challengers: Mapping[str, Challenger]) -> Iterator[slice]:
    """Rows cut after each at which a challenger may be promoted.

    Args:
        rows: that the model has learned before them.
        count: how many there are.
        challengers: the model's.
    """
    start = 0
    while start < count or not start:
        automatic = any(one.promote == "auto" for one in challengers.values())
        stop = min(count, start + TEST_EVERY - (rows + start) % TEST_EVERY) if automatic else count
        yield slice(start, stop)
        if stop == count:
            return
        start = stop


def checked(raw: Any) -> tuple[str, Promote]:
    """Name and ``promote`` of a challenger in a saved state.

    Raises:
        ValueError: no challenger has them.
    """
    name, promote = raw["name"], raw["promote"]
    if not isinstance(name, str) or not name or promote not in ("never", "auto"):
        raise ValueError("no such challenger")
    return name, promote
