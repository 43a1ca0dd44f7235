"""Pauses between attempts that fail one after the other."""

import asyncio


class Backoff:
    """Pauses that double.

    Args:
        first_s: the first pause, and the first one after ``reset``.
        most_s: the longest pause.

    Attributes:
        first: whether the next pause is the first one.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s, self._most_s = first_s, most_s
        self.reset()

    def reset(self) -> None:
        """An attempt succeeded."""
        self._next_s, self.first = self._first_s, True

    def next_s(self) -> float:
        """The next pause, in seconds."""
        pause_s, self._next_s, self.first = self._next_s, min(2 * self._next_s, self._most_s), False
        return pause_s

    async def wait(self) -> None:
        """Pause."""
        await asyncio.sleep(self.next_s())
