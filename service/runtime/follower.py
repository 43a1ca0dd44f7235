"""Keeping the loaded models current: a hint per append by anybody, and a slow sweep behind it.

Hints wait a few milliseconds before they are acted upon: a model that is learning here as well is told by its own next
append what others have added, and then nothing is left to read. The sweep looks at the heads of all loaded models, so
many at a time and so often that its cost is bounded whatever their number. It finds what a lost hint, a connection that
broke, or a failover has left: entries not read, a name that has been deleted or given to another model, and a log whose
tail is gone.
"""

import asyncio
import logging
from collections.abc import Sequence

from service.errors import OnepassError, StoreDown
from service.runtime.committer import Pump
from service.runtime.model_cache import Hub
from service.runtime.replica import Replica
from service.store.append_notices import Hint, Hints
from service.store.log import Head, Log

logger = logging.getLogger(__name__)

GATHER_S = 0.005
"""How long a hint waits for the replica's own next append to make it superfluous."""
READS_MAX = 16
"""Models that read on at the same time."""
SWEEP_S = 1.0
"""Pause between two looks of the sweep."""
SWEEP_MODELS = 500
"""Models it looks at each time; all of them in turn."""
AGAIN_S = 0.2
"""Pause before the connection for hints is made anew; doubled each time that nothing was heard over it."""
AGAIN_S_MAX = 5.0


class Follower:
    """Reads on for the replicas of one process.

    Args:
        hub: the loaded models.
        pump: brings a replica to its head.
        hints: hears of appends.
        log: asked for heads.
    """

    def __init__(self, hub: Hub, pump: Pump, hints: Hints, log: Log) -> None:
        self._hub, self._pump, self._hints, self._log = hub, pump, hints, log
        self._gathered: dict[Replica, int] = {}
        self._behind: dict[Replica, None] = {}
        self._begun: dict[str, None] = {}
        self._reading = 0
        self._swept = 0
        self._new = asyncio.Event()
        hub.watch(hints.want, hints.drop)

    async def run(self) -> None:
        """Follow for ever; the supervisor restarts it should it die."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._sweep())
            tasks.create_task(self._look_at_new())

    # ---------------------------------------------------------------- hints

    async def _listen(self) -> None:
        pause = AGAIN_S
        while True:
            heard_before = self._hints.heard
            try:
                await self._hints.listen(self.heard, self._heard_from_now_on)
            except StoreDown as error:
                if self._hints.heard > heard_before or pause == AGAIN_S:
                    logger.warning("hints are not heard, until they are the sweep alone follows: %s", error.detail)
            pause = AGAIN_S if self._hints.heard > heard_before else min(AGAIN_S_MAX, 2 * pause)
            await asyncio.sleep(pause)

    def heard(self, hint: Hint) -> None:
        """Note that a log has grown, or that a model is gone."""
        replica = self._hub.held(hint.name)
        if replica is None:
            return
        if replica.incarnation != hint.incarnation:
            self._heard_from_now_on(hint.name)  # of another database, or of the name's next model
        elif hint.version is None:
            logger.info("model %s was deleted elsewhere", hint.name)
            self._hub.forget(replica)
        elif hint.version > replica.version and not hint.uid.startswith(self._pump.writer):
            self._note(replica, hint.version)

    def _note(self, replica: Replica, version: int) -> None:
        replica.hinted(version)
        if not self._gathered:
            asyncio.get_running_loop().call_later(GATHER_S, self._flush)
        self._gathered.setdefault(replica, replica.version)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for replica, version in gathered.items():
            if replica.behind and not replica.suspect and (replica.flying or replica.version > version):
                self._note(replica, replica.version)  # its own appends bring the entries, faster than reading would
            elif replica.behind:
                self._behind[replica] = None
        self._pull()

    def _pull(self) -> None:
        """Let those that are behind read on, so many at a time."""
        while self._behind and self._reading < READS_MAX:
            replica = next(iter(self._behind))
            del self._behind[replica]
            if not replica.behind or replica.gone or replica.down is not None:
                continue
            try:
                synced = self._pump.sync(replica)
            except StoreDown:
                self._behind.clear()  # the sweep finds them again
                return
            self._reading += 1
            synced.add_done_callback(self._read)

    def _read(self, synced: "asyncio.Future[None]") -> None:
        self._reading -= 1
        error = synced.exception()
        if error is not None and not isinstance(error, OnepassError):
            logger.error("a model could not be followed", exc_info=error)
        self._pull()

    # ---------------------------------------------------------------- heads

    def _heard_from_now_on(self, name: str) -> None:
        self._begun[name] = None
        self._new.set()

    async def _look_at_new(self) -> None:
        """What came between loading a model and hearing of it, or while the connection was away, is found here."""
        while True:
            await self._new.wait()
            self._new.clear()
            begun, self._begun = [*self._begun], {}
            for at in range(0, len(begun), SWEEP_MODELS):
                await self._look(begun[at : at + SWEEP_MODELS])

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            names = self._hub.names_loaded
            if self._swept >= len(names):
                self._swept = 0
            part = names[self._swept : self._swept + SWEEP_MODELS]
            self._swept += SWEEP_MODELS
            await self._look(part)

    async def _look(self, names: Sequence[str]) -> None:
        """Compare replicas with the heads of their logs."""
        replicas = [found for name in names if (found := self._hub.held(name)) is not None]
        before = [(replica.version, replica.uid, replica.head) for replica in replicas]
        try:
            heads = await self._log.heads([replica.name for replica in replicas])
        except StoreDown:
            return
        for replica, then, head in zip(replicas, before, heads, strict=True):
            self._compare(replica, then, head)

    def _compare(self, replica: Replica, then: tuple[int, str, int], head: Head | None) -> None:
        """``then`` is from before the head was asked for: the head cannot be behind it."""
        version, uid, known = then
        if head is None or head.incarnation != replica.incarnation:
            logger.info("model %s was deleted elsewhere", replica.name)
            self._hub.forget(replica)
        elif head.version > version:
            self._note(replica, head.version)
        elif (head.version, head.uid) != (version, uid):
            replica.suspect = True  # reading on finds out what became of the log's tail
            self._note(replica, head.version)
        elif (replica.version, replica.head) == (version, known):
            replica.at_head()  # a hint may have told of entries that are lost by now
