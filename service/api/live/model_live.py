"""The documents of one model, live.

model, metrics, features, challengers    of the model in memory, all of one version
drift                                    the newest events; looked for in every turn in which there may be one
pending, snapshots, log                  of the store
"""

import asyncio

from service.api import documents
from service.api.context import Context, Page
from service.api.documents import json_bytes, of_model
from service.api.drift import model_drift
from service.api.live.producer import Live, Producer
from service.api.model_log import NEWEST, written
from service.api.pending import pending_page
from service.api.state import snapshot_list
from service.errors import ModelDown, Recreated, Unavailable, no_model
from service.runtime.replica import Replica
from service.store.log_page import LoggedEntry, read_back

DRIFT_SHOWN, PENDING_SHOWN, LOG_SHOWN = 100, 20, 50
"""Items of lists in their documents: as the GET of the same name shows them with this ``limit``."""

STORED_S = 1e-3
"""What the documents of the store are taken to cost this process; they take longer, waiting for the store."""


class ModelProducer(Producer):
    """The documents of one incarnation of a model.

    Args:
        live: all producers.
        ctx: the collaborators.
        replica: the model.
    """

    def __init__(self, live: Live, ctx: Context, replica: Replica) -> None:
        super().__init__(live)
        self._ctx, self._name, self._incarnation = ctx, replica.name, replica.incarnation
        self._shown = self._logged = self._read = -1
        self._reach: object = None
        self._entries: list[LoggedEntry] = []
        self._snapshots = b""
        self._news = asyncio.Event()
        self._news.set()
        ctx.broadcast.waiters.add(self._news)

    def stop(self) -> None:
        """End, and listen to events no more."""
        self._ctx.broadcast.waiters.discard(self._news)
        super().stop()

    async def turn(self, due: bool) -> None:
        """Publish what has changed."""
        replica = await self._replica()
        if replica is None:
            return
        if due and replica.version != self._shown:
            await self._show_model(replica)
        await self._show_drift(replica)
        if due:
            await self._show_stored(replica)
        self._read = self._shown

    async def _replica(self) -> Replica | None:
        """The model; None where nothing has changed and it has left memory: nobody loads it to look at it.

        Raises:
            NotFound, Recreated, ModelDown: it is gone, or out of service.
            Unavailable: it cannot be had now.
        """
        models, name = self._ctx.engine.models, self._name
        replica = models.peek(name)
        if replica is None:
            (head,) = await self._ctx.engine.store.log.heads([name])
            if head is None:
                raise no_model(name)
            if (head.incarnation, head.version) == (self._incarnation, self._read):
                return None
            replica = await models.get(name)
        if replica.incarnation != self._incarnation:
            raise Recreated(f"model {name} was created again")
        replica.note_asked()
        if replica.gone:
            raise no_model(name)
        if replica.down is not None:
            raise ModelDown(replica.down)
        return replica

    async def _show_model(self, replica: Replica) -> None:
        for event, (version, document, compared) in (await of_model(replica, self._documents)).items():
            self.publish(event, version, document, compared)
            self._shown = version

    def _documents(self, replica: Replica) -> dict[str, tuple[int, bytes, bytes | None]]:
        """The documents of the model as it stands; features are told apart by all but the version."""
        version = replica.version
        with self.measured():
            report = documents.report(replica)
            features = documents.features(replica)
            return {
                "model": (version, documents.model(replica, report), None),
                "metrics": (version, documents.metrics(replica, report), None),
                "features": (version, features, features.rpartition(b',"version":')[0]),
                "challengers": (version, documents.challenger_list(replica), None),
            }

    async def _show_drift(self, replica: Replica) -> None:
        """The newest events, where the model or somebody else has told of some."""
        reach = replica.machine.outbox.last
        if reach != self._reach or self._news.is_set():
            self._news.clear()
            version = replica.version
            try:
                answer = await model_drift(self._ctx, replica, Page(DRIFT_SHOWN, None), "newest")
            except Unavailable:
                self._news.set()
                raise
            document = bytes(answer.body)
            self.publish("drift", version, document, document.rpartition(b',"next":')[0])
            self._reach = reach

    async def _show_stored(self, replica: Replica) -> None:
        self.cost(STORED_S)
        version = replica.version
        self.publish("pending", version, json_bytes(await pending_page(self._ctx, replica, Page(PENDING_SHOWN, None))))
        snapshots = json_bytes(await snapshot_list(self._ctx, replica))
        self.publish("snapshots", version, snapshots)
        if version == self._logged and snapshots == self._snapshots:
            return
        if version < self._logged or snapshots != self._snapshots:  # another log, or it was trimmed
            self._entries = []
        oldest = self._entries[0].version + 1 if self._entries else 1
        store = self._ctx.engine.store.connection
        found = await read_back(store, self._name, self._incarnation, NEWEST, oldest, LOG_SHOWN + 1)
        self._entries = (found + self._entries)[: LOG_SHOWN + 1]
        self.publish("log", version, json_bytes(written(self._entries, LOG_SHOWN, self._incarnation)))
        self._logged, self._snapshots = version, snapshots
