"""Alarms that a service has left unpublished when it died, found by the next service that starts.

They are in the tails of logs: each model whose log goes on after its newest snapshot is loaded, one after the other and
at most half of the time, and published for. Those created without drift tests are loaded as well: a change of settings,
or a challenger, may have brought some.

A model that some process holds is left to it: that one has applied the tail, and publishes. So a service that joins
others loads its own models only. A process whose machine was cut off seems to hold its models until the store has given
up its connection; therefore held models are looked at once more, later.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from service.errors import OnepassError, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.engine import Engine
from service.runtime.replica import Replica

T = TypeVar("T")
logger = logging.getLogger(__name__)

BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0
"""Pause after a failure; it doubles up to the second."""
PAGE = 100
"""Models looked at in one go."""
AGAIN_S = 900.0
"""When held models are looked at once more: a store with default settings gives up a silent connection after 600 s."""


class LeftAlarms:
    """The search for them.

    Args:
        engine: whose store.
        publish: publishes what a replica's outbox holds.
    """

    def __init__(self, engine: Engine, publish: Callable[[Replica], Awaitable[None]]) -> None:
        self._engine, self._publish = engine, publish

    async def run(self) -> None:
        """Look at all models, wait, look at those again that were held; then end."""
        held: list[str] = []
        after: str | None = None
        while True:
            page, after = await _told(partial(self._engine.store.catalog.names, PAGE, after))
            held += await _told(partial(self._look, [name for name, _ in page]))
            if after is None:
                break
        await asyncio.sleep(AGAIN_S)
        for at in range(0, len(held), PAGE):
            await _told(partial(self._look, held[at : at + PAGE]))

    async def _look(self, names: Sequence[str]) -> list[str]:
        """Publish for models that nobody holds; those of ``names`` that another process holds."""
        others = [name for name in names if self._engine.models.peek(name) is None]
        held = await self._engine.notices.held(others)
        for name in others:
            if name not in held:
                await self._publish_for(name)
        return sorted(held)

    async def _publish_for(self, name: str) -> None:
        if not await self._has_tail(name):
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self._publish(await self._loaded(name))
        except Unavailable:
            raise
        except OnepassError as error:
            logger.info("model %s was passed over in the search for alarms: %s", name, error.detail)
        await asyncio.sleep(clock() - began)

    async def _loaded(self, name: str) -> Replica:
        """A model with its tail: kept where there is plenty of room, else let go, not to crowd out others."""
        engine = self._engine
        plenty = 2 * engine.models.ledger.used < engine.bounds.budget_bytes
        return await (engine.models.get(name) if plenty else engine.loader.load(name))

    async def _has_tail(self, name: str) -> bool:
        meta = await self._engine.store.catalog.read(name)
        if meta is None or meta.version == 0:
            return False
        kept = await self._engine.store.snapshots.list(name, meta.incarnation)
        return not kept or kept[0].version < meta.version


async def _told(ask: Callable[[], Awaitable[T]]) -> T:
    """What the store says, once it does."""
    backoff = Backoff(BACKOFF_S, BACKOFF_S_MAX)
    while True:
        try:
            return await ask()
        except Unavailable:
            await backoff.wait()
