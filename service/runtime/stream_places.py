"""How many streams may be open, of events, of documents and of rows together, and the end of all of them."""

from collections.abc import Callable

from service.errors import StreamsFull


class StreamPlaces:
    """The places of one process.

    Args:
        most: how many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: dict[object, Callable[[], None]] = {}
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
        self._ends[stream] = end

    def check(self) -> None:
        """Raise StreamsFull where there is no place."""
        if self._stopping or len(self._ends) >= self._most:
            raise StreamsFull("the service stops" if self._stopping else "as many streams are open as may be")

    def leave(self, stream: object) -> None:
        """Give the place back; may be repeated."""
        self._ends.pop(stream, None)

    def stop(self) -> None:
        """End all streams: a service that stops must not wait for connected clients."""
        self._stopping = True
        for end in [*self._ends.values()]:
            end()
