"""Watches that the store stays the one it was: a store that came back empty has lost its identity with its data."""

import logging
import time
from collections.abc import Callable

from service.errors import Unavailable
from service.runtime.stats import Stats
from service.store import identity
from service.store.redis.connection import Connection

logger = logging.getLogger(__name__)

CHANGE_SHOWN_S = 3600.0
"""How long readiness shows that the store has become another one."""


class StoreWatch:
    """Compares the store's id with the one that was read first.

    Args:
        connection: the store.
        stats: counters.
        changed: called when it is another one; the loaded models may be lost.
    """

    def __init__(self, connection: Connection, stats: Stats, changed: Callable[[], None]) -> None:
        self._connection, self._stats, self._changed = connection, stats, changed
        self._known: str | None = None
        self._changed_s = -CHANGE_SHOWN_S

    async def look(self) -> None:
        """Read the id once; of a store that takes no writes, or whose server of it is down, nothing is known."""
        try:
            found = await identity.read(self._connection) or await identity.make(self._connection)
        except Unavailable:
            return
        if self._known is not None and found != self._known:
            self._stats.store_changes += 1
            self._changed_s = time.monotonic()
            logger.error(
                "the store is not the one it was (%s, before %s): it has lost its data, or its address leads "
                "elsewhere; models that are gone are kept in memory, and POST /refill writes them back",
                found,
                self._known,
            )
            self._changed()
        self._known = found

    @property
    def steady(self) -> bool:
        """Whether the store has been the same for a while."""
        return time.monotonic() > self._changed_s + CHANGE_SHOWN_S
