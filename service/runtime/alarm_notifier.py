"""Tells the publisher of alarms which models have new ones in their outboxes.

Once a publisher listens, a snapshot is written only after the alarms up to its version are published, a model with
unpublished alarms stays in memory, and a reader can wait until they are published.
"""

import asyncio
from collections.abc import Awaitable, Callable

from service.runtime.replica import Replica

Publish = Callable[[Replica], Awaitable[None]]
"""Publishes every alarm of a replica; raises StoreDown where it cannot."""


class AlarmNotifier:
    """The loaded models that may have unpublished alarms.

    Attributes:
        wake: set when a model has notified it.
    """

    def __init__(self) -> None:
        self._publish: Publish | None = None
        self._notified: dict[Replica, None] = {}
        self.wake = asyncio.Event()

    def listen(self, publish: Publish) -> None:
        """Register the publisher; models loaded from now on notify it."""
        self._publish = publish

    def attach(self, replica: Replica) -> None:
        """Connect a loaded replica, and notify at once if it has unpublished alarms."""
        if self._publish is not None:
            replica.on_alarm = self.notify
            replica.notify()

    def notify(self, replica: Replica) -> None:
        """Note a replica that may have alarms to publish."""
        self._notified[replica] = None
        self.wake.set()

    def take(self) -> list[Replica]:
        """The replicas that have notified since the last time."""
        notified, self._notified = self._notified, {}
        self.wake.clear()
        return [replica for replica in notified if replica.unpublished]

    async def until_published(self, replica: Replica) -> None:
        """Return when the alarms that the replica has now are published.

        Raises:
            StoreDown: they could not be.
            ModelDown: the model is out of service.
        """
        if self._publish is not None and replica.unpublished:
            await self._publish(replica)
