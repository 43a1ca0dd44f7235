"""Publishes alarms that a process left unpublished when it died; it finds them by summaries that lag behind their logs.

The summary of a version is stored only after the alarms up to it are published (``SummaryWriter``). So a model whose
stored summary is behind its log, and which no process holds, may have unpublished alarms. A process looks at all models
when it starts and again every minute; it loads such models and publishes their alarms, one model after the other and
for at most half of the time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from service.errors import OnepassError, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine
from service.runtime.replicas.replica import Replica

logger = logging.getLogger(__name__)

LOOK_S, AGAIN_S = 60.0, 1.0  # pause between two looks at all models, and after the first failure
PAGE = 500  # models looked at between two turns of the event loop's other tasks


class OrphanedAlarms:
    """The search for alarms that were left unpublished; ``publish`` publishes what a replica's outbox holds."""

    def __init__(self, engine: Engine, publish: Callable[[Replica], Awaitable[None]]) -> None:
        self._engine, self._publish = engine, publish
        self._passed_over: dict[str, int] = {}  # models that could not be loaded, with their versions then

    async def run(self) -> None:
        """Look forever; the supervisor restarts it if it dies."""
        await Backoff(AGAIN_S, LOOK_S).repeat(self.look, LOOK_S)

    async def look(self) -> None:
        """Publish for all models that need it; ``Unavailable`` if the store does not or cannot answer."""
        after, passed_over = None, self._passed_over
        self._passed_over = {}
        while True:
            behind, after = await self._engine.store.catalog.behind(PAGE, after)
            held = await self._engine.notices.held([*behind])
            for name, version in behind.items():
                if passed_over.get(name) == version:
                    self._passed_over[name] = version
                elif name not in held:
                    await self._publish_for(name, version)
            if after is None:
                return
            await asyncio.sleep(0)

    async def _publish_for(self, name: str, version: int) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self._publish(await self._engine.models.get(name))
        except Unavailable as error:
            logger.info("model %s: will look for its alarms again: %s", name, error.detail)
        except OnepassError as error:
            self._passed_over[name] = version
            logger.info("model %s: skipped in the search for alarms: %s", name, error.detail)
        await asyncio.sleep(clock() - began)
