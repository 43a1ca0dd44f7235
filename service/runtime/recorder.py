"""Answers on their way to the store, where retries of the same id find them: gathered, then sent with an append.

They have been given to their clients by then, and until the store has them a retry is answered from memory.
"""

import asyncio
from collections.abc import Callable, Sequence

from service.runtime.replica import Replica
from service.store.log import Log

RECORD_S = 0.02
"""How long answers are gathered before they are sent, with the next append or by themselves."""

Answered = tuple[Replica, list[tuple[str, int, bytes]]]
"""A model, and (id, version, answer) of what it has answered."""


class Recorder:
    """The answers of all loaded models that the store does not have yet.

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
        """Whether there are any."""
        return bool(self._waiting)

    def note(self, replica: Replica) -> None:
        """The answers of this model that are not in the store yet go there soon."""
        if not replica.fresh:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_later(RECORD_S, self._gathered)
        self._waiting[replica] = None

    def take(self) -> list[Answered]:
        """What is due, some milliseconds' worth at once."""
        if not self.due:
            return []
        self.due = False
        waiting, self._waiting = self._waiting, {}
        return [(replica, self._fresh(replica)) for replica in waiting]

    def recorded(self, replica: Replica, identities: Sequence[str]) -> None:
        """The store has them."""
        known = set(identities)
        replica.fresh = [identity for identity in replica.fresh if identity not in known]
        for identity in known:
            replica.answers.pop(identity, None)

    async def record(self, replica: Replica, version: int) -> None:
        """Write to the store every answer up to a version (a snapshot may follow then).

        Raises:
            StoreDown: the store did not answer.
        """
        held = [(identity, *found) for identity, found in replica.answers.items() if found[0] <= version]
        if not held:
            return
        for error in await self._log.record_answers([(replica.name, replica.incarnation, held)]):
            if error is not None:
                raise error
        self.recorded(replica, [identity for identity, _, _ in held])

    def _fresh(self, replica: Replica) -> list[tuple[str, int, bytes]]:
        return [(identity, *replica.answers[identity]) for identity in replica.fresh if identity in replica.answers]

    def _gathered(self) -> None:
        if self._waiting:
            self.due = True
            self._wake()
