"""How many streams of events may be open, and the end of all of them.

One owner, a key of the API, has at most half of them: the others are left to everybody else.
"""

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar

from service.errors import StreamsFull

OWNER: ContextVar[str | None] = ContextVar("onepass_owner", default=None)
"""Whose request is answered; None: nobody's in particular."""
STREAMS_MAX = 100
"""Most open streams of a service."""
SHARES = 2
"""One owner has at most so small a part of all places, and at least one."""


class StreamPlaces:
    """The places of one process.

    Args:
        most: how many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: dict[object, Callable[[], None]] = {}
        self._owners: dict[object, str | None] = {}
        self._taken: Counter[str | None] = Counter()
        self._stopping = False

    def __len__(self) -> int:
        """How many are taken."""
        return len(self._ends)

    def take(self, stream: object, end: Callable[[], None]) -> None:
        """Take a place.

        Args:
            stream: who takes it.
            end: called where the service stops.

        Raises:
            StreamsFull: there is none, or the service stops.
        """
        self.check()
        self._ends[stream], self._owners[stream] = end, OWNER.get()
        self._taken[OWNER.get()] += 1

    def check(self) -> None:
        """Raise StreamsFull where there is no place."""
        if self._stopping or len(self._ends) >= self._most:
            raise StreamsFull("the service stops" if self._stopping else "as many streams are open as may be")
        owner = OWNER.get()
        if owner is not None and self._taken[owner] >= max(1, self._most // SHARES):
            raise StreamsFull(f"as many streams of key {owner} are open as one key may have")

    def leave(self, stream: object) -> None:
        """Give the place back; may be repeated."""
        if self._ends.pop(stream, None) is not None:
            owner = self._owners.pop(stream)
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]

    def stop(self) -> None:
        """End all streams: a service that stops must not wait for connected clients."""
        self._stopping = True
        for end in [*self._ends.values()]:
            end()
