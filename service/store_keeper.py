"""Looks after the private store: starts it again when it has died, with pauses that grow while it keeps dying.

A server that writes before every answer ends itself when it cannot: on a full disk each start of it lasts until the
next label. What it died of is said once, however often it dies; the counter tells how often.
"""

import asyncio
import logging

from service.embedded import CannotStart, EmbeddedStore
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine

logger = logging.getLogger(__name__)

WATCH_S = 0.2  # how often it is looked after
AGAIN_S, AGAIN_S_MAX = 0.2, 30.0  # bounds of the first and of the longest pause before it is started again
STEADY_S = 10.0  # a server that has lived for so long is held for well again


REMOVED = (
    "the data directory of the private store was removed or replaced: what is learned now is lost when the store "
    "stops. Do not restart yet: put the directory back, or export all models, restart and import them"
)


class StoreKeeper:
    """Keeps one private store alive, which is started already; tells the engine whether its files are in place."""

    def __init__(self, store: EmbeddedStore, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._said: set[str] = set()

    async def run(self) -> None:
        """Look after it for ever; until it is back requests get 503."""
        backoff, started = Backoff(AGAIN_S, AGAIN_S_MAX), -STEADY_S
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(WATCH_S)
            if self._store.alive():
                was, self._engine.in_place = self._engine.in_place, await asyncio.to_thread(self._store.in_place)
                if was and not self._engine.in_place:
                    logger.error(REMOVED)
                if self._said and clock() - started > STEADY_S:
                    logger.info("the private store works again")
                    self._said.clear()
                    backoff.reset()
                continue
            self._say("the private store has died", await asyncio.to_thread(self._store.why))
            await backoff.wait()
            try:
                await asyncio.to_thread(self._store.restart)
            except CannotStart as error:
                self._say("the private store cannot be restarted", str(error))
                continue
            started = clock()
            self._engine.stats.store_restarts += 1

    def _say(self, what: str, why: str) -> None:
        """Once for each of what happens, until the store is well: it may happen often, and in many words."""
        if what not in self._said:
            logger.error("%s; retrying, with pauses of up to %g s: %s", what, AGAIN_S_MAX, why)
            self._said.add(what)
