"""Looks after the private store: restarts it when it has died, with pauses that grow while it keeps dying.

A server that writes before every answer exits when it cannot: on a full disk it runs from each start to the next label.
The log names the cause of death once, however often the server dies; a counter tells how often.
"""

import asyncio
import logging

from service.embedded import CannotStart, EmbeddedStore
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine

logger = logging.getLogger(__name__)

WATCH_S = 0.2  # how often the server is checked
AGAIN_S, AGAIN_S_MAX = 0.2, 30.0  # bounds of the first and of the longest pause before it is restarted
STEADY_S = 10.0  # a server that has run for this long counts as well again


REMOVED = (
    "the data directory of the private store was removed or replaced: what is learned now is lost when the store "
    "stops. Do not restart yet: put the directory back, or export all models, restart and import them"
)


class StoreKeeper:
    """Keeps a started private store alive; tells the engine whether its files are in place."""

    def __init__(self, store: EmbeddedStore, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._said: set[str] = set()

    async def run(self) -> None:
        """Look after the store forever; while it is down, requests get 503."""
        backoff, started = Backoff(AGAIN_S, AGAIN_S_MAX), -STEADY_S
        clock = asyncio.get_running_loop().time
        while True:
            if self._store.alive():
                was, self._engine.in_place = self._engine.in_place, await asyncio.to_thread(self._store.in_place)
                if was and not self._engine.in_place:
                    logger.error(REMOVED)
                if self._engine.in_place:  # else it takes what it took before
                    short = await asyncio.to_thread(self._store.short_of_disk)
                    self._engine.store.connection.short_of_disk = short
                if self._said and clock() - started > STEADY_S:
                    logger.info("the private store works again")
                    self._said.clear()
                    backoff.reset()
                await asyncio.sleep(WATCH_S)
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
        """Log each kind of failure once until the store is well again: it may recur often, with long texts."""
        if what not in self._said:
            logger.error("%s; retrying, with pauses of up to %g s: %s", what, AGAIN_S_MAX, why)
            self._said.add(what)
