"""Keeps the loaded models current: by a notice of each append of any process, and by a slow sweep.

A notice waits a few milliseconds before the follower acts on it: if the model is learning here as well, its next append
returns what others have added, and nothing is left to read. The sweep compares the heads of all loaded models, a
bounded number at a time. It finds what a lost notice, a broken connection or a failover has left: unread entries, a
name that was deleted or given to another model, a log whose tail is gone, and a model that an index of the store lacks.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from service.errors import ModelDown, OnepassError, StoreDown, Unavailable
from service.runtime.backoff import Backoff
from service.runtime.replicas.loader import Store
from service.runtime.replicas.model_cache import ModelCache
from service.runtime.replicas.replica import Replica
from service.store.due_labels import DueLabels
from service.store.log.append_notices import AppendNotice, AppendNotices
from service.store.log.log import Head

logger = logging.getLogger(__name__)

GATHER_S = 0.005  # how long a notice waits for the replica's own next append, which may make it superfluous
READS_MAX = 16  # models that read on in their logs at the same time
SWEEP_S = 1.0  # pause between two steps of the sweep
SWEEP_MODELS = 500  # models compared in one step; all loaded ones in turn
AGAIN_S = 0.2  # pause before the connection for notices is made again; doubled each time it did not last
AGAIN_S_MAX = 5.0


class Follower:
    """Keeps the replicas of one process current."""

    def __init__(self, models: ModelCache, notices: AppendNotices, store: Store) -> None:
        self._models, self._notices, self._store = models, notices, store
        self._gathered: dict[Replica, int] = {}
        self._behind: dict[Replica, None] = {}
        self._begun: dict[str, None] = {}
        self._reading: dict[Replica, bool] = {}  # and whether there has been more to read since it began
        self._swept = 0
        self._new = asyncio.Event()

    async def run(self) -> None:
        """Follow forever; the supervisor restarts it if it dies."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._sweep())
            tasks.create_task(self._look_at_new())

    # ---------------------------------------------------------------- notices

    async def _listen(self) -> None:
        backoff, clock = Backoff(AGAIN_S, AGAIN_S_MAX), asyncio.get_running_loop().time
        while True:
            heard_before, began = self._notices.heard, clock()
            try:
                await self._notices.listen(self.on_notice, self._on_subscribed)
            except Unavailable as error:
                if self._notices.heard > heard_before and clock() > began + AGAIN_S_MAX:
                    backoff.reset()
                if backoff.first:
                    logger.warning(
                        "append notices do not arrive: until they do, only the slow sweep keeps models current: %s",
                        error.detail,
                    )
            await backoff.wait()

    def on_notice(self, notice: AppendNotice) -> None:
        """Note that a log has grown, or that a model is gone."""
        replica = self._models.peek(notice.name)
        if replica is None:
            return
        if replica.incarnation != notice.incarnation:
            self._on_subscribed(notice.name)  # it comes from another database, or is for the next model of that name
        elif notice.version is None:
            logger.info("model %s was deleted", notice.name)
            self._models.forget(replica)
        elif replica.lost:
            self._on_subscribed(notice.name)  # the store was restored; the head tells at which version
        elif notice.version > replica.version:
            self._note(replica, notice.version)

    def _note(self, replica: Replica, version: int) -> None:
        replica.progress.note_head(version)
        if not self._gathered:
            asyncio.get_running_loop().call_later(GATHER_S, self._flush)
        self._gathered.setdefault(replica, replica.version)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for replica, version in gathered.items():
            own_append = replica.inbox.in_flight or replica.version > version
            if replica.behind and not replica.progress.suspect and own_append:
                self._note(replica, replica.version)  # its own appends return the entries sooner than reading would
            elif replica in self._reading:
                self._reading[replica] = True
            elif replica.behind:
                self._behind[replica] = None
        self._pull()

    def _pull(self) -> None:
        """Let replicas that are behind read on, a bounded number at a time."""
        while self._behind and len(self._reading) < READS_MAX:
            replica = next(iter(self._behind))
            del self._behind[replica]
            if not replica.behind or replica.gone or replica.down is not None or replica.ledger is None:
                continue
            try:
                synced = replica.inbox.sync()
            except StoreDown:
                self._behind.clear()  # the sweep finds them again
                return
            self._reading[replica] = False
            synced.add_done_callback(partial(self._read, replica))

    def _read(self, replica: Replica, synced: "asyncio.Future[None]") -> None:
        if self._reading.pop(replica):
            self._behind[replica] = None
        error = synced.exception()
        if error is not None and not isinstance(error, OnepassError):
            logger.error("a model could not be followed", exc_info=error)
        self._pull()

    # ---------------------------------------------------------------- heads

    def _on_subscribed(self, name: str) -> None:
        self._begun[name] = None
        self._new.set()

    async def _look_at_new(self) -> None:
        """Find appends made between loading a model and subscribing to it, or while the connection was lost."""
        while True:
            await self._new.wait()
            self._new.clear()
            begun, self._begun = [*self._begun], {}
            for at in range(0, len(begun), SWEEP_MODELS):
                await self._look(begun[at : at + SWEEP_MODELS])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            names = self._models.names_loaded
            if self._swept >= len(names):
                self._swept = 0
            part = names[self._swept : self._swept + SWEEP_MODELS]
            self._swept += SWEEP_MODELS
            await self._look(part)
            await self._complete([found for name in part if (found := self._models.peek(name)) is not None])

    async def _complete(self, replicas: Sequence[Replica]) -> None:
        """Put models back into the store's indexes: a cluster server with an index may have lost what others kept."""
        with suppress(Unavailable):
            await self._store.catalog.relist([(one.name, one.incarnation) for one in replicas])
        with suppress(Unavailable):
            due = [(one.name, one.incarnation) for one in replicas if one.model.config.labels_due is not None]
            await DueLabels(self._store.connection).mark_lost(due)

    async def _look(self, names: Sequence[str]) -> None:
        """Compare replicas with the heads of their logs."""
        replicas = [found for name in names if (found := self._models.peek(name)) is not None]
        before = [(replica.version, replica.uid, replica.progress.head) for replica in replicas]
        try:
            heads = await self._store.log.heads([replica.name for replica in replicas])
            known = [
                (replica, then, head)
                for replica, then, head in zip(replicas, before, heads, strict=True)
                if not isinstance(head, ModelDown)
            ]
            vanished = [
                (replica, head is not None)
                for replica, _, head in known
                if head is None or head.incarnation != replica.incarnation
            ]
            await self._models.vanished(vanished)
        except StoreDown:
            return
        for replica, then, head in known:
            if head is not None and head.incarnation == replica.incarnation:
                self._compare(replica, then, head)
        for replica, _, head in known:
            if head is not None and head.incarnation == replica.incarnation and head.snapshot is not None:
                await replica.drop_answers(head.snapshot)

    def _compare(self, replica: Replica, then: tuple[int, str, int], head: Head) -> None:
        """``then`` was read before the head was asked for: the head cannot be behind it."""
        version, uid, known = then
        self._models.found(replica)
        if head.version > version:
            self._note(replica, head.version)
        elif (head.version, head.uid) != (version, uid):
            replica.progress.suspect = True  # reading on detects what became of the log's tail
            self._note(replica, head.version)
        elif (replica.version, replica.progress.head) == (version, known):
            replica.progress.at_head(version)  # a notice may have announced entries that are lost by now
