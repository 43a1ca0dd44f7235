"""Alarms that a process has left unpublished when it died: found by the index of models that may have some.

A process that starts looks at all models in the index that nobody holds: after a restart that is at once. Later it
looks now and then at those that have not been renewed for long. They are loaded, one after the other and at most half
of the time, and published for. What this process has entered itself leaves the index once it is settled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from service.errors import OnepassError, Unavailable
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica
from service.store.log.alarm_index import ABANDONED_S, RENEWED_S, Entered

logger = logging.getLogger(__name__)

LOOK_S, AGAIN_S = 30.0, 1.0
"""Pause between two looks at the index, and after a first one that failed."""


class OrphanedAlarms:
    """The search for them.

    Args:
        engine: whose store.
        publish: publishes what a replica's outbox holds.
    """

    def __init__(self, engine: Engine, publish: Callable[[Replica], Awaitable[None]]) -> None:
        self._engine, self._publish, self._index = engine, publish, engine.store.log.alarm_index

    async def run(self) -> None:
        """Look for ever; the supervisor restarts it should it die. In the end all that is settled leaves the index."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._search())
            tasks.create_task(self._tidy())

    async def _search(self) -> None:
        starting = True
        while True:
            try:
                await self._publish_for(await (self._not_held() if starting else self._index.left(ABANDONED_S)))
                starting = False
            except Unavailable as error:
                logger.info("unpublished alarms of other processes are not looked for: %s", error.detail)
            await asyncio.sleep(AGAIN_S if starting else LOOK_S)

    async def _tidy(self) -> None:
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                with suppress(Unavailable):  # a second more than it lasts: it was entered within the round trip
                    await self._index.remove(self._settled(RENEWED_S + 1), RENEWED_S)
        finally:
            with suppress(Unavailable):
                await self._index.remove(self._settled(0), 0)

    async def _not_held(self) -> list[Entered]:
        entered = await self._index.left(0)
        held = await self._engine.notices.held([each.name for each in entered])
        return [each for each in entered if each.name not in held]

    def _settled(self, least_s: int) -> list[Entered]:
        """The models that this process entered so long ago, with nothing on its way and everything published."""
        peek = self._engine.models.peek
        known = [(each, peek(each.name)) for each in self._index.covered(least_s)]
        return [
            each
            for each, replica in known
            if replica is None
            or replica.incarnation != each.incarnation
            or (replica.inbox.idle and not replica.unpublished)
        ]

    async def _publish_for(self, models: Sequence[Entered]) -> None:
        clock = asyncio.get_running_loop().time
        for entered in models:
            began = clock()
            try:
                await self._publish(await self._loaded(entered.name))
            except Unavailable as error:
                logger.info("alarms of model %s are looked for again: %s", entered.name, error.detail)
                continue
            except OnepassError as error:
                logger.info("model %s was passed over in the search for alarms: %s", entered.name, error.detail)
            await self._index.remove([entered], RENEWED_S)
            await asyncio.sleep(clock() - began)

    async def _loaded(self, name: str) -> Replica:
        """A model at its head: kept where there is plenty of room, else let go, not to crowd out others."""
        engine = self._engine
        held = engine.models.peek(name)
        if held is not None:
            await held.inbox.sync()
        plenty = 2 * engine.models.ledger.used < engine.bounds.budget_bytes
        return await (engine.models.get(name) if held is not None or plenty else engine.loader.load(name))
