"""Pauses between attempts that keep failing, and work that is repeated forever."""

import asyncio
from collections.abc import Awaitable, Callable
from random import random

from service.errors import Unavailable


class Backoff:
    """Pauses of a random length, whose bound doubles ("full jitter").

    Processes that lost the same server at the same moment do not come back together.

    ``first_s`` is the bound of the first pause, and of the first one after ``reset``; ``most_s`` is the largest bound.
    ``first`` says whether the next pause is the first one.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s, self._most_s = first_s, most_s
        self.reset()

    def reset(self) -> None:
        """Return to the first bound: an attempt succeeded."""
        self._bound_s, self.first = self._first_s, True

    def next_s(self) -> float:
        """The next pause, in seconds."""
        bound_s, self._bound_s, self.first = self._bound_s, min(2 * self._bound_s, self._most_s), False
        return bound_s * random()  # noqa: S311  jitter keeps no secret

    async def wait(self) -> None:
        """Pause."""
        await asyncio.sleep(self.next_s())

    async def repeat(self, step: Callable[[], Awaitable[None]], pause_s: float) -> None:
        """Repeat a step forever, pausing ``pause_s`` after each; while the store fails, the pauses grow instead."""
        while True:
            try:
                await step()
            except Unavailable:
                await self.wait()
            else:
                self.reset()
                await asyncio.sleep(pause_s)
