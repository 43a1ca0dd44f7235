"""Stores the answers to ids, separately from the appends: collected for a moment, many models in one round trip.

Clients already have these answers. Until the store has one, a retry is answered from memory.
"""

import asyncio
from collections.abc import Sequence

from service.errors import RequestConflict, Unavailable
from service.runtime.replicas.replica import Replica
from service.store.log.appends import ITEMS_MAX, Answers
from service.store.log.codec import Item
from service.store.log.log import Log

RECORD_S = 0.1  # how long answers are collected before they are sent
TAKEN_MAX = 10_000  # most answers of one model that are taken at once
AGAIN_S = 1.0  # pause after the store failed to take some


class AnswerWriter:
    """Stores the answers of all loaded models.

    Args:
        log: the store's logs.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[Replica, None] = {}
        self._due = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether no answers wait to be stored."""
        return not self._waiting

    def enqueue(self, replica: Replica) -> None:
        """Schedule the unstored answers of a model."""
        if replica.answers.fresh:
            self._waiting[replica] = None
            self._due.set()

    async def run(self) -> None:
        """Store answers forever; the supervisor restarts it if it dies."""
        while True:
            await self._due.wait()
            self._due.clear()
            await asyncio.sleep(RECORD_S)
            if not await self._write([*self._waiting]):
                await asyncio.sleep(AGAIN_S)

    async def _write(self, replicas: Sequence[Replica]) -> bool:
        """Store answers of some models; whether the store took them. The rest of a model goes with the next ones."""
        taken = [(one, answers) for one in replicas for answers in _sets(one, one.answers.take_fresh(TAKEN_MAX))]
        results = await self._log.record_answers([answers for _, answers in taken])
        for replica in replicas:
            del self._waiting[replica]
        for (replica, answers), known in zip(taken, results, strict=True):
            if known is True:
                replica.answers.stored(answers.items)
            if known is not False:  # else the replica does not join its log: reading on regenerates the answers
                self.enqueue(replica)
        return not any(isinstance(known, Unavailable) for known in results)

    async def record(self, replica: Replica, version: int) -> None:
        """Write to the store every answer up to a version (a snapshot may follow then).

        Raises:
            Unavailable: the store did not answer, or cannot.
            RequestConflict: the replica does not join its log.
        """
        sets = _sets(replica, replica.answers.up_to(version))
        for answers, known in zip(sets, await self._log.record_answers(sets), strict=True):
            if isinstance(known, Unavailable):
                raise known
            if not known:
                raise RequestConflict(f"version {version} is not on the log any more")
            replica.answers.stored(answers.items)


def _sets(replica: Replica, items: Sequence[Item]) -> list[Answers]:
    """Answers of a model in sets that are stored at once."""
    parts = [items[at : at + ITEMS_MAX] for at in range(0, len(items), ITEMS_MAX)]
    return [Answers(replica.name, replica.incarnation, replica.version, replica.uid, part) for part in parts]
