"""The running service without its transport: connects, starts, supervises and stops the parts."""

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from service.errors import NotReached, Recreated, RequestConflict, StoreDown, Unavailable
from service.runtime.commit.actor import Actor
from service.runtime.commit.answerer import Answerer, AnswerWriter
from service.runtime.commit.committer import CommitLimits, Committer
from service.runtime.commit.shared import Shared
from service.runtime.lists import Listing
from service.runtime.replicas.follower import Follower
from service.runtime.replicas.loader import Loader, Store
from service.runtime.replicas.log_reader import LogReader
from service.runtime.replicas.model_cache import ModelCache
from service.runtime.replicas.named_states import StateBudget
from service.runtime.replicas.replica import Ledger, Replica
from service.runtime.replicas.row_meter import RowMeter
from service.runtime.snapshots import Snapshotter
from service.runtime.stats import Stats
from service.store.log.append_notices import AppendNotices
from service.store.pending import Pending
from service.store.permissions import refused_commands

logger = logging.getLogger(__name__)

DECISIVE = ("store", "tasks", "lag", "stays", "store_data")
"""The checks of ``Engine.ready`` that decide; the others are only reported."""
RESTART_S = 0.1  # pause before a task that died is started again
LAG_S_MAX = 10.0  # a replica that is behind its log for longer is late
LOST_SHOWN_S = 3600.0  # how long readiness shows that a log has lost its tail
POLL_S = 0.5  # how often the store is polled


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the engine; see the settings of the same names."""

    committer: CommitLimits
    budget_bytes: int
    model_bytes_max: int
    body_bytes_max: int
    bodies_bytes_max: int
    batch_rows_max: int
    prediction_ttl_ms: int
    pending_max: int
    wait_timeout_s: float
    grace_s: float
    snapshots_kept: int
    challengers_max: int
    snapshot_min_bytes: int


@dataclass(frozen=True, slots=True)
class Freshness:
    """How fresh a read has to be."""

    min_version: int = 0  # the least version to serve
    strong: bool = False  # read the log's head first
    incarnation: str | None = None  # the incarnation that ``min_version`` belongs to, if the client says


class Engine:
    """Everything below the API.

    ``in_place``: whether the files of a private store are still in place (store_keeper.py).

    ``companions`` are further background tasks, started, supervised and ended with the engine's own. ``leaving``: a
    stop was requested: the service still answers for a while, but balancers should send no more.
    """

    def __init__(self, store: Store, bounds: Bounds, failpoint: Callable[[str], None] | None = None) -> None:
        self.store, self.bounds, self.stats = store, bounds, Stats()
        writer = secrets.token_hex(8)
        self.pending = Pending(store.connection)
        self.state_budget = StateBudget(2 * bounds.model_bytes_max)
        self.loader = Loader(store, self.stats)
        self.notices = AppendNotices(store.connection, writer)
        self.models = ModelCache(
            self.loader, self.notices, budget_bytes=bounds.budget_bytes, model_bytes_max=bounds.model_bytes_max
        )
        self.committer = Committer(
            store.log, self.stats, bounds.committer, ping=self._ping_and_try, failpoint=failpoint
        )
        self.answer_writer = AnswerWriter(store.log)
        self.snapshotter = Snapshotter(
            self.models,
            self.committer,
            self.answer_writer,
            store.snapshots,
            self.stats,
            keep=bounds.snapshots_kept,
            least_bytes=bounds.snapshot_min_bytes,
        )
        self.reader = LogReader(self.loader, self.models)
        self.answerer = Answerer(store.log, self.loader.load, self.stats, failpoint, bounds.committer.safety)
        shared = Shared(
            committer=self.committer,
            reader=self.reader,
            answerer=self.answerer,
            answer_writer=self.answer_writer,
            limits=bounds.committer,
            writer=writer,
            numbers=itertools.count(1),
            states=store.states,
            waiting=Ledger(),
            subscribed=self.notices.subscribed,
            current=self.models.current,
            grown=self.snapshotter.grown,
        )
        self.models.attach = lambda replica: Actor(replica, shared)
        self.listing = Listing(store.catalog, self.models)
        self.follower = Follower(self.models, self.notices, store)
        self._meter = RowMeter()
        self.durability = "unknown"
        self.eviction_ok: bool | None = None
        self.store_ok: bool | None = None
        self.in_place = True
        self._full = self.leaving = False
        self._refused: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._dead: set[str] = set()
        self.companions: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}

    # ---------------------------------------------------------------- life

    async def start(self) -> None:
        """Start the background tasks; while the store is down, requests get 503."""
        await self._look_at_store()
        runs = {
            "committer": self.committer.run,
            "answers": self.answer_writer.run,
            "follower": self.follower.run,
            "snapshots": self.snapshotter.run,
            "summaries": self.models.summaries.run,
            "store poll": self._poll_store,
            **self.companions,
        }
        for name, run in runs.items():
            self._tasks[name] = asyncio.get_running_loop().create_task(self._supervise(name, run), name=name)

    async def stop(self, grace_s: float | None = None) -> None:
        """Answer queued requests, write snapshots and end the tasks within ``grace_s`` (None: that of the bounds)."""
        try:
            async with asyncio.timeout(self.bounds.grace_s if grace_s is None else grace_s):
                if not self.committer.store_down:
                    await self._drain()
                    await self.models.summaries.flush()
                    await self.snapshotter.flush()
        except TimeoutError:
            logger.warning("the grace period ended before every snapshot was written; the log has the rest")
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self.store.connection.close()

    async def _drain(self) -> None:
        """Wait until everything queued is answered."""
        parts = (self.committer, self.answerer, self.answer_writer)
        while not all(part.idle for part in parts) or any(not r.inbox.idle for r in self.models.loaded):  # noqa: ASYNC110 - only on stop
            await asyncio.sleep(0.005)

    async def _supervise(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await asyncio.create_task(run())  # if awaited as a coroutine, each of its steps would pass through here
            except asyncio.CancelledError:
                raise
            except Exception:
                logger.exception("the task %s died; restarting it", name)
            self._dead.add(name)
            await asyncio.sleep(RESTART_S)
            self._dead.discard(name)

    async def _poll_store(self) -> None:
        while True:
            await self._look_at_store()
            self._meter.record(asyncio.get_running_loop().time(), self.stats.rows)
            await asyncio.sleep(POLL_S)

    async def _look_at_store(self) -> None:
        try:
            await self._look()
        except StoreDown as error:
            if self.store_ok is not False:
                logger.warning("the store cannot be used; feedback gets 503 until it can: %s", error.detail)
            self.store_ok = False

    async def _look(self) -> None:
        connection = self.store.connection
        ping = connection.ping() if self.store_ok else self._ping_and_try()
        # All at once: where a server hangs, each of them takes the store's timeout.
        _, durability, eviction_ok = await asyncio.gather(ping, connection.durability(), connection.eviction_ok())
        if durability == "none" and self.durability != "none":
            logger.warning(
                "a crash of the store may lose acknowledged rows, or all models: it needs 'appendonly yes', "
                "'appendfsync everysec' or 'always', and 'no-appendfsync-on-rewrite no'"
            )
        if eviction_ok is False and self.eviction_ok is not False:
            logger.warning("the store may evict models when it runs out of memory: set 'maxmemory-policy noeviction'")
        if connection.full and not self._full:
            logger.warning("the store is full and refuses writes; feedback gets 503, predictions still work")
        self._full = connection.full
        if self.store_ok is False:
            logger.info("the store answers; durability is %s", durability)
        self.durability, self.eviction_ok, self.store_ok = durability, eviction_ok, True

    async def _ping_and_try(self) -> None:
        """Return if the store answers and its user may run all commands; until then nothing is appended."""
        await self.store.connection.ping()
        refused = await refused_commands(self.store.connection)
        names = ", ".join(refused)
        why = f"the store's user may not run {names} on onepass:*, they are renamed, or the store predates Redis 6.2"
        if refused and refused != self._refused:
            logger.error("%s; feedback gets 503", why)
        self._refused = refused
        if refused:
            self.committer.hold()
            raise StoreDown(why)

    @property
    def lags(self) -> list[tuple[int, str]]:
        """For each loaded model that is behind: how many entries it still has to apply, and its name; most first."""
        found = [(replica.lag, replica.name) for replica in self.models.loaded if replica.lag and replica.down is None]
        return sorted(found, reverse=True)

    @property
    def rows_per_s(self) -> float | None:
        """Rows per second that all models together learn here; None while that is unknown."""
        return self._meter.rate(asyncio.get_running_loop().time(), self.stats.rows)

    def _keeping_up(self) -> bool:
        """Whether at least half of the loaded models have applied what their logs had ``LAG_S_MAX`` seconds ago.

        A few models may lag for reasons of their own, and their readers can send ``min_version``; many mean that this
        process does not keep up.
        """
        loaded = [replica for replica in self.models.loaded if replica.down is None]
        late = asyncio.get_running_loop().time() - LAG_S_MAX
        return 2 * sum(0 < replica.progress.since < late for replica in loaded) <= len(loaded)

    def _at_work(self) -> bool:
        """Whether the tasks that requests need are running; a companion may be waiting to be restarted."""
        ended = any(task.done() for task in self._tasks.values())
        return bool(self._tasks) and not ended and self._dead <= self.companions.keys()

    def ready(self) -> tuple[bool, dict[str, bool | None]]:
        """Whether the service takes traffic, and the checks behind it (None: unknown)."""
        checks: dict[str, bool | None] = {
            "store": self.store_ok is True and not self.committer.store_down,
            "tasks": self._at_work(),
            "lag": self._keeping_up(),
            "hints": self.notices.hearing,
            "stays": not self.leaving,
            "eviction": self.eviction_ok,
            "room": not self.store.connection.full,
            "store_data": self.in_place and not self.models.lost,
            "log": self.reader.tail_lost_at < time.time() - LOST_SHOWN_S,
        }
        return all(checks[name] for name in DECISIVE), checks

    # ---------------------------------------------------------------- reads

    async def replica(self, name: str, fresh: Freshness | None = None) -> Replica:
        """A loaded model, as fresh as asked.

        Raises:
            NotFound, ModelDown, StoreDown: it is not available.
            RequestConflict: ``min_version`` belongs to another incarnation.
            NotReached: ``min_version``, or the log's head, was not reached in time.
        """
        replica = await self.models.get(name)
        if fresh is None:
            return replica
        if fresh.strong or fresh.incarnation not in (None, replica.incarnation):
            replica = await self._at_head(replica)
        if fresh.incarnation is not None and fresh.incarnation != replica.incarnation:
            raise RequestConflict(f"model {name} was created again: its incarnation is {replica.incarnation}")
        if fresh.min_version > replica.version:
            await self._reach(replica, fresh.min_version)
        return replica

    async def caught_up(self, replica: Replica) -> bool:
        """Read on to the log's head before a request is refused; returns whether the replica was behind it.

        Another replica may have committed an entry that makes the request valid: a change of features, say.
        ``Unavailable`` if that takes too long: it is then unknown whether the request is valid.
        """
        before = replica.version
        try:
            await self._in_time(replica, replica.inbox.sync())
        except StoreDown:
            return False
        except NotReached as error:
            raise Unavailable(error.detail) from None
        return replica.version != before

    async def _at_head(self, replica: Replica) -> Replica:
        try:
            await self._in_time(replica, replica.inbox.sync())
        except Recreated:
            replica = await self._at_head(await self.models.get(replica.name))
        return replica

    async def _reach(self, replica: Replica, version: int) -> None:
        """Read on until the version is there, and wait for the follower if it is not on the log yet."""
        replica = replica if replica.ledger is not None else self.models.current(replica)
        await self._in_time(replica, replica.wait_for_version(version, replica.inbox.sync))

    async def _in_time(self, replica: Replica, arrival: Awaitable[None]) -> None:
        """Wait for a replica to arrive; ``NotReached`` if that takes too long. The replica goes on for others."""
        try:
            async with asyncio.timeout(self.bounds.wait_timeout_s):
                await arrival
        except TimeoutError:
            raise NotReached(f"model {replica.name} is at version {replica.version}", replica.version) from None
