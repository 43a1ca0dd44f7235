"""Answers by the ids they were given to, until the store has them.

A replica holds the answers of entries of any process: whoever committed an entry may crash before it has stored them.
A snapshot is published only after the answers up to its version are stored, so all that one covers are dropped.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from service.store.log.codec import Item

ANSWER_BYTES = 250  # what an answer takes beside its own bytes: its place in the dict, its tuple and the text of its id


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
