"""Episodes: one drift is one event, however many of the tests fire, in however many classes.

The first alarm opens an episode, and is the event. Alarms up to ``episode_rows`` rows after it join it; the next one
opens another episode, so none lasts longer, also where a drift goes on. An episode that begins up to ``cooldown_rows``
rows after one that was acted upon is held back: nothing acts upon it, and no webhook is sent it.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from core.contract import Floats
from core.state.layout import ROWS_MAX, Counts, Holder, Layout


class EpisodeLengths(Protocol):
    """How long episodes and cool-downs are, in rows."""

    @property
    def episode_rows(self) -> int:
        """Rows after the first alarm in which others join it."""

    @property
    def cooldown_rows(self) -> int:
        """Rows after an episode that was acted upon in which others are held back."""


class Place(NamedTuple):
    """What an alarm is.

    Attributes:
        joins: whether it is a later alarm of the episode before it.
        held_back: whether it opens an episode that comes within the cool-down of another.
    """

    joins: bool
    held_back: bool


class Episodes(Holder):
    """The episodes of one model; rows are counted from 1, 0 is before every row.

    Args:
        watch: how long they are.

    State: the rows of the first alarms of two episodes.

    Attributes:
        opened: of the latest episode.
        acted: of the latest one that was not held back.
    """

    layout = Layout({})
    object_bytes = 200

    def __init__(self, watch: EpisodeLengths) -> None:
        self.opened = self.acted = 0
        self.configure(watch)

    def configure(self, watch: EpisodeLengths) -> None:
        """Go on with other lengths."""
        self._rows, self._cooldown = watch.episode_rows, watch.cooldown_rows

    def place(self, row: int) -> Place:
        """Take in an alarm of a row; rows never decrease."""
        if self.opened and row - self.opened <= self._rows:
            return Place(joins=True, held_back=False)
        self.opened = row
        if self.acted and row - self.acted <= self._cooldown:
            return Place(joins=False, held_back=True)
        self.acted = row
        return Place(joins=False, held_back=False)

    def _counts(self) -> Counts:
        return {"opened": ROWS_MAX, "acted": ROWS_MAX}

    def _check(self, _held: Mapping[str, Floats], found: Counts) -> None:
        if found["acted"] > found["opened"] or (found["opened"] > 0) != (found["acted"] > 0):
            raise ValueError("not the state of episodes")
