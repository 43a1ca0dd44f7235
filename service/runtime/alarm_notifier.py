"""The bell between the runtime and whoever publishes alarms: a model whose outbox has grown rings it.

The runtime knows nobody who listens. Where somebody does, a snapshot follows the alarms up to its version, a model
whose alarms are not out stays in memory, and a reader can wait until they are out.
"""

import asyncio
from collections.abc import Awaitable, Callable

from service.runtime.replica import Replica

Publish = Callable[[Replica], Awaitable[None]]
"""Publishes every alarm of a replica; raises StoreDown where it cannot."""


class Alarms:
    """Which models have alarms that may not be out yet.

    Attributes:
        wake: set when a model has rung.
    """

    def __init__(self) -> None:
        self._publish: Publish | None = None
        self._rung: dict[Replica, None] = {}
        self.wake = asyncio.Event()

    def listen(self, publish: Publish) -> None:
        """Somebody publishes from now on; models that are loaded later ring."""
        self._publish = publish

    def attach(self, replica: Replica) -> None:
        """Let a replica that has been loaded ring; it does so at once where it has something to tell."""
        if self._publish is not None:
            replica.bell = self.ring
            replica.ring()

    def ring(self, replica: Replica) -> None:
        """Note a replica that may have alarms to publish."""
        self._rung[replica] = None
        self.wake.set()

    def take(self) -> list[Replica]:
        """The replicas that have rung since the last time."""
        rung, self._rung = self._rung, {}
        self.wake.clear()
        return [replica for replica in rung if replica.unpublished]

    async def out(self, replica: Replica) -> None:
        """Return when the alarms that the replica has now are published.

        Raises:
            StoreDown: they could not be.
            ModelDown: the model is out of service.
        """
        if self._publish is not None and replica.unpublished:
            await self._publish(replica)
