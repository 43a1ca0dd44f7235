"""Stores answers with their ids, for retries: gathered for a moment, then sent along with an append.

The clients have been answered by then; until the store has an answer, a retry is answered from memory. Whatever is
sent is sent in pieces, so that the store never works on one of them for long.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.errors import RequestConflict, StoreFull, Unavailable
from service.runtime.replica import Replica
from service.store.codec import Item
from service.store.log import Answers, Log

RECORD_S = 0.1
"""How long answers are gathered before they are sent, with the next append or by themselves."""
FULL_S = 1.0
"""Pause after a store that has no room has refused them."""
ITEMS_MAX = 10_000
"""Most answers of one model that are taken at once; the log sends them in smaller pieces."""


class Answered(NamedTuple):
    """A model, and some of what it has answered."""

    replica: Replica
    answers: Answers


class AnswerWriter:
    """The answers of all loaded models that are not stored yet.

    Args:
        log: the store's logs.
        wake: called when answers are due.

    Attributes:
        due: whether some have waited long enough.
    """

    def __init__(self, log: Log, wake: Callable[[], None]) -> None:
        self._log, self._wake = log, wake
        self._waiting: dict[Replica, None] = {}
        self.due = False

    @property
    def waiting(self) -> bool:
        """Whether answers are waiting to be stored."""
        return bool(self._waiting)

    def note(self, replica: Replica) -> None:
        """Schedule the unstored answers of a model."""
        if not replica.answers.fresh:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_later(RECORD_S, self._gathered)
        self._waiting[replica] = None

    def take(self) -> list[Answered]:
        """The answers that are due, all of a model at once, but for very many."""
        if not self.due:
            return []
        self.due = False
        waiting, self._waiting = self._waiting, {}
        return [Answered(replica, _answers(replica, replica.answers.take_fresh(ITEMS_MAX))) for replica in waiting]

    def settle(self, answered: Answered, known: Unavailable | bool) -> None:
        """What became of answers that were taken; those that are not stored, or have not been taken, go later."""
        replica, answers = answered
        if known is True:
            replica.answers.stored(answers.items)
        if isinstance(known, StoreFull):
            asyncio.get_running_loop().call_later(FULL_S, self.note, replica)
        elif known is not False:  # else the replica does not join its log: reading on regenerates the answers
            self.note(replica)

    async def record(self, replica: Replica, version: int) -> None:
        """Write to the store every answer up to a version (a snapshot may follow then).

        Raises:
            Unavailable: the store did not answer, or cannot.
            RequestConflict: the replica does not join its log.
        """
        held = replica.answers.up_to(version)
        for at in range(0, len(held), ITEMS_MAX):
            items = held[at : at + ITEMS_MAX]
            (known,) = await self._log.record_answers([_answers(replica, items)])
            if isinstance(known, Unavailable):
                raise known
            if not known:
                raise RequestConflict(f"version {version} is not on the log any more")
            replica.answers.stored(items)

    def _gathered(self) -> None:
        if self._waiting:
            self.due = True
            self._wake()


def _answers(replica: Replica, items: Sequence[Item]) -> Answers:
    return Answers(replica.name, replica.incarnation, replica.version, replica.uid, items)
