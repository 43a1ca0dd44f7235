"""Answers by the ids they were given to, until the store has them.

A replica holds the answers of entries of any process: whoever committed an entry may crash before it has stored them.
A snapshot is published only after the answers up to its version are stored, so whatever one covers is dropped.

Answers are gathered for a moment, then sent along with an append. The clients have been answered by then; until the
store has an answer, a retry is answered from memory. Whatever is sent is sent in pieces, so that the store never works
on one of them for long.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from service.errors import RequestConflict, StoreFull, Unavailable
from service.store.log.appends import Answers
from service.store.log.codec import Item
from service.store.log.log import Log

if TYPE_CHECKING:
    from service.runtime.replicas.replica import Replica

ANSWER_BYTES = 250
"""What an answer takes beside its own bytes: its place in the dict, its tuple and the text of its id."""


class UnstoredAnswers:
    """The answers of one model that the store may not have yet.

    Attributes:
        fresh: ids of requests of this process.
        nbytes: memory they take, estimated.
    """

    __slots__ = ("_held", "fresh", "nbytes")

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, bytes]] = {}
        self.fresh: dict[str, None] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def put(self, items: Iterable[Item], own: bool) -> None:
        """Keep answers; those to requests of this process are to be stored soon."""
        for identity, version, record in items:
            before = self._held.get(identity)
            self.nbytes += len(record) + ANSWER_BYTES if before is None else len(record) - len(before[1])
            self._held[identity] = version, record
            if own:
                self.fresh[identity] = None

    def get(self, identity: str) -> bytes | None:
        """The answer given to an id, if it is here."""
        found = self._held.get(identity)
        return None if found is None else found[1]

    def take_fresh(self, most: int) -> list[Item]:
        """Up to ``most`` answers to requests of this process."""
        return [(identity, *self._held[identity]) for identity in islice(self.fresh, most)]

    def up_to(self, version: int) -> list[Item]:
        """All answers of entries up to a version."""
        return [(identity, *found) for identity, found in self._held.items() if found[0] <= version]

    def stored(self, items: Sequence[Item]) -> None:
        """Forget answers that the store has now, unless a reload has replaced them meanwhile."""
        for identity, *answer in items:
            if self._held.get(identity) == tuple(answer):
                self._drop(identity)

    def covered(self, version: int) -> None:
        """Forget the answers of entries that a published snapshot covers."""
        for identity in [identity for identity, found in self._held.items() if found[0] <= version]:
            self._drop(identity)

    def _drop(self, identity: str) -> None:
        self.nbytes -= len(self._held.pop(identity)[1]) + ANSWER_BYTES
        self.fresh.pop(identity, None)


RECORD_S = 0.1
"""How long answers are gathered before they are sent, with the next append or by themselves."""
FULL_S = 1.0
"""Pause after a store that has no room has refused them."""
ITEMS_MAX = 10_000
"""Most answers of one model that are taken at once; the log sends them in smaller pieces."""


class Answered(NamedTuple):
    """A model, and some of what it has answered."""

    replica: "Replica"
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

    def enqueue(self, replica: "Replica") -> None:
        """Schedule the unstored answers of a model."""
        if not replica.answers.fresh:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_later(RECORD_S, self._gathered)
        self._waiting[replica] = None

    def take(self) -> list[Answered]:
        """The answers that are due, all of a model at once, but for very many."""
        self.due = False
        waiting, self._waiting = self._waiting, {}
        return [Answered(replica, _answers(replica, replica.answers.take_fresh(ITEMS_MAX))) for replica in waiting]

    def settle(self, answered: Answered, known: Unavailable | bool) -> None:
        """What became of answers that were taken; those that are not stored, or have not been taken, go later."""
        replica, answers = answered
        if known is True:
            replica.answers.stored(answers.items)
        if isinstance(known, StoreFull):
            asyncio.get_running_loop().call_later(FULL_S, self.enqueue, replica)
        elif known is not False:  # else the replica does not join its log: reading on regenerates the answers
            self.enqueue(replica)

    async def record(self, replica: "Replica", version: int) -> None:
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


def _answers(replica: "Replica", items: Sequence[Item]) -> Answers:
    return Answers(replica.name, replica.incarnation, replica.version, replica.uid, items)
