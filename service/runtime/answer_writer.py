"""Stores answers with their ids, for retries: gathered for some milliseconds, then sent along with an append.

The clients have been answered by then; until the store has an answer, a retry is answered from memory.
"""

import asyncio
from collections.abc import Callable, Sequence

from service.errors import RequestConflict, Unavailable
from service.runtime.replica import Replica
from service.store.log import Answers, Log

RECORD_S = 0.02
"""How long answers are gathered before they are sent, with the next append or by themselves."""

Answered = tuple[Replica, Answers]
"""A model, and what it has answered."""


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
        if not replica.fresh:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_later(RECORD_S, self._gathered)
        self._waiting[replica] = None

    def take(self) -> list[Answered]:
        """The answers that are due, some milliseconds' worth at once."""
        if not self.due:
            return []
        self.due = False
        waiting, self._waiting = self._waiting, {}
        return [(replica, _answers(replica, self._fresh(replica))) for replica in waiting]

    def recorded(self, replica: Replica, items: Sequence[tuple[str, int, bytes]]) -> None:
        """Forget answers that the store has now, unless a reload has replaced them meanwhile."""
        known = {identity for identity, *answer in items if replica.answers.get(identity) == tuple(answer)}
        replica.fresh = [identity for identity in replica.fresh if identity not in known]
        for identity in known:
            del replica.answers[identity]

    async def record(self, replica: Replica, version: int) -> None:
        """Write to the store every answer up to a version (a snapshot may follow then).

        Raises:
            Unavailable: the store did not answer, or cannot.
            RequestConflict: the replica does not join its log.
        """
        held = [(identity, *found) for identity, found in replica.answers.items() if found[0] <= version]
        if not held:
            return
        (known,) = await self._log.record_answers([_answers(replica, held)])
        if isinstance(known, Unavailable):
            raise known
        if not known:
            raise RequestConflict(f"version {version} is not on the log any more")
        self.recorded(replica, held)

    def _fresh(self, replica: Replica) -> list[tuple[str, int, bytes]]:
        return [(identity, *replica.answers[identity]) for identity in replica.fresh if identity in replica.answers]

    def _gathered(self) -> None:
        if self._waiting:
            self.due = True
            self._wake()


def _answers(replica: Replica, items: Sequence[tuple[str, int, bytes]]) -> Answers:
    return Answers(replica.name, replica.incarnation, replica.version, replica.uid, items)
