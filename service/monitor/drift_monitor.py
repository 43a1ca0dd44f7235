"""Assembles the drift monitor; its parts publish alarms, read the events back, and post them."""

import secrets
from collections.abc import Callable, Sequence

from service.monitor.orphaned_alarms import OrphanedAlarms
from service.monitor.publisher import Publisher
from service.monitor.unlabelled import Unlabelled
from service.monitor.webhooks import Webhook, name_of
from service.runtime.broadcast import Broadcast
from service.runtime.engine import Engine
from service.store.drift.deliveries import Deliveries
from service.store.drift.drift import DriftStream


class DriftMonitor:
    """The monitor of one process; its tasks are companions of the engine, which starts, supervises and ends them.

    ``key`` signs the posts to the webhooks at ``urls``.
    """

    def __init__(
        self,
        engine: Engine,
        stream: DriftStream,
        *,
        urls: Sequence[str] = (),
        key: bytes = b"",
        failpoint: Callable[[str], None] | None = None,
    ) -> None:
        self.stream, self.broadcast, self.unlabelled = stream, Broadcast(stream), Unlabelled(stream)
        self.publisher = Publisher(engine, stream, failpoint)
        self.broadcast.on_return = self.publisher.publish_again
        consumer = secrets.token_hex(8)
        self.hooks = list[Webhook]()
        for number, url in enumerate(urls, 1):
            deliveries = Deliveries(engine.store.connection, name_of(url), consumer)
            self.hooks.append(Webhook(number, url, key, deliveries, self.broadcast.follow()))
        engine.companions |= {"drift events": self.publisher.run, "drift news": self.broadcast.run}
        engine.companions["orphaned alarms"] = OrphanedAlarms(engine, self.publisher.publish).run
        engine.companions["unlabelled drift"] = self.unlabelled.run
        engine.companions |= {f"webhook {hook.number}": hook.run for hook in self.hooks}
