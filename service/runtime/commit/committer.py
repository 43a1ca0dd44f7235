"""The committer: one task per process appends the waiting requests of all models, one pipeline per tick and server.

Appends that become ready while a pipeline is under way go with the next one: low latency at low load, large commits at
high load, no timers. It knows appends and pipelines, not learners: a model (actor.py) has at most one append in flight
and gets its result in a call that returns at once. In a cluster each server has its own pipelines, one at a time, so
that a slow server delays only its own models; a large append is sent separately.

If a pipeline fails, the fate of its appends is unknown. They are sent again unchanged (same writer, sequence and uid,
so that the script recognises them) until the store reports their fate or their time is up. Then the waiting requests
get 503; an append that did succeed is applied with the next one, like an entry of another process.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Protocol

from msgspec import Struct

from service.errors import StoreDown, Unavailable
from service.runtime.stats import Stats
from service.store.log.appends import LARGE_APPEND_BYTES, Append, Appended, LogWriter
from service.store.redis.connection import Safety
from service.store.redis.node import LARGE_BYTES_PER_S

logger = logging.getLogger(__name__)

DOWN = "the store does not answer; the request may or may not have been carried out: send it again with the same id"
REFUSED = "the store does not answer; this request has changed nothing: send it again"
PROBE_S = 0.2  # pause between pings of a store that is down
BACKOFF_S = 0.02  # pause after a pipeline that failed
IDS_AT_ONCE = 10_000
"""Most ids in the appends of one tick, which take the store some 30 ms; a single append may have more."""
FEW_IDS_BYTES = 2**16  # smaller appends have few ids, which are not counted


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """Limits of the committer and the inboxes; most are settings with the same names."""

    queue_max: int
    tick_segments_max: int
    id_ttl_ms: int
    ids_max: int
    read_bytes_max: int
    timeout_s: float
    replicas_min: int = 0

    @property
    def safety(self) -> Safety | None:
        """What an acknowledgement waits for."""
        return Safety(self.replicas_min, int(1000 * self.timeout_s / 2)) if self.replicas_min else None


class Source(Protocol):
    """A model, as the committer sees it; every method returns at once."""

    @property
    def name(self) -> str:
        """The model's name."""

    def next_append(self) -> "Ticket | None":
        """The next append, or None; there is no further one until ``landed`` or ``lost``."""

    def landed(self, appended: Appended) -> None:
        """Take the append's result."""

    def lost(self, error: Unavailable) -> None:
        """Fail the append, which was not carried out or whose fate is unknown, and everything that waits."""


class Ticket(Struct, eq=False):
    """An append in flight; it is sent again unchanged until the store reports its fate or its time is up."""

    source: Source
    append: Append
    deadline: float = 0.0  # when the committer gives up, by the loop's clock
    large_bytes: int = 0  # its bytes if it is so large that it is sent separately; else 0
    resent: bool = False  # whether it was sent more than once because its fate was unknown


_append = attrgetter("append")


class Committer:
    """Sends the appends of all loaded models.

    ``ping`` raises StoreDown while the store does not answer or may not be used; ``failpoint`` is called with the name
    of a point where fault tests crash.
    """

    def __init__(
        self,
        log: LogWriter,
        stats: Stats,
        limits: CommitLimits,
        *,
        ping: Callable[[], Awaitable[None]],
        failpoint: Callable[[str], None] | None = None,
    ) -> None:
        self._log, self._stats, self._timeout_s = log, stats, limits.timeout_s
        self._ping, self._failpoint = ping, failpoint
        self._safety = limits.safety
        self._ready: dict[Source, None] = {}
        self._again: list[Ticket] = []
        self._in_flight: dict[str, list[Ticket]] = {}
        self._parked: dict[str, list[Source | Ticket]] = {}
        self._failed: BaseException | None = None
        self._asleep: asyncio.Future[None] | None = None  # an Event would ask for the loop: a system call for each row
        self._now = monotonic  # the loop's own clock, once it runs
        self._tasks: set[asyncio.Task[None]] = set()
        self.store_down = False  # whether the store is known to be down; requests are then refused at once

    def ready(self, source: Source) -> None:
        """Register a model that has something to append and nothing in flight."""
        self._ready[source] = None
        self._wake()

    def _wake(self) -> None:
        if self._asleep is not None and not self._asleep.done():
            self._asleep.set_result(None)

    def hold(self) -> None:
        """Refuse requests until a ping succeeds."""
        self.store_down = True
        self._wake()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not (self._ready or self._again or self._in_flight or self._parked or self._tasks)

    # ---------------------------------------------------------------- the loop

    async def run(self) -> None:
        """Tick forever; the supervisor restarts it if it dies."""
        loop = asyncio.get_running_loop()
        self._now = loop.time
        try:
            while True:
                if self.store_down:
                    await self._probe()
                elif not ((self._ready or self._again) and await self._tick()):
                    if self._failed is not None:
                        raise self._failed
                    if not (self._ready or self._again):
                        self._asleep = loop.create_future()
                        await self._asleep
        finally:
            self._asleep = None
            self._abandon()

    def _abandon(self) -> None:
        """Fail everything that waits for an append."""
        for task in self._tasks:
            task.cancel()
        parked = [*itertools.chain(*self._parked.values())]
        tickets = [*itertools.chain(*self._in_flight.values()), *self._again]
        tickets += [each for each in parked if isinstance(each, Ticket)]
        self._in_flight, self._parked, self._failed, self._again, self._tasks = {}, {}, None, [], set()
        for ticket in tickets:
            ticket.source.lost(StoreDown(DOWN))
        self._refuse_all([*(each for each in parked if not isinstance(each, Ticket)), *self._ready])

    def _refuse_all(self, sources: Iterable[Source]) -> None:
        for source in [*sources]:
            self._ready.pop(source, None)
            source.lost(StoreDown(DOWN))

    async def _probe(self) -> None:
        again, self._again = self._again, []
        for ticket in again:
            ticket.source.lost(StoreDown(DOWN))
        self._refuse_all(self._ready)
        await asyncio.sleep(PROBE_S)
        try:
            await self._ping()
        except StoreDown:
            return
        self.store_down = False
        logger.info("the store is back")

    async def _tick(self) -> bool:
        """Send one pipeline to every server that has none under way; False if there was nothing to send."""
        tickets: dict[str, list[Ticket]] = {}
        for ticket in self._take():
            key = f"large {ticket.source.name}" if ticket.large_bytes else self._log.node_key(ticket.source.name)
            tickets.setdefault(key, []).append(ticket)
        for key in sorted(tickets, reverse=True):  # a single server's pipeline, key "", comes last and is awaited
            self._in_flight[key] = tickets[key]
            if key == "":
                await self._send(key)
                del self._in_flight[key]
            else:
                task = asyncio.get_running_loop().create_task(self._send(key))
                self._tasks.add(task)
                task.add_done_callback(partial(self._landed, key))
        return bool(tickets)

    def _landed(self, key: str, task: "asyncio.Task[None]") -> None:
        """A pipeline has ended or failed: everything parked behind it goes with the next one."""
        if task not in self._tasks:
            return  # abandoned
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed = task.exception()
        for ticket in self._in_flight.pop(key):
            ticket.source.lost(StoreDown(DOWN))
        for each in self._parked.pop(key, ()):
            if isinstance(each, Ticket):
                self._again.append(each)
            else:
                self._ready[each] = None
        self._wake()

    def _take(self) -> list[Ticket]:
        """The next append of every ready model whose server is free, and the appends to be sent again."""
        tickets, self._again = self._again, []
        ready, self._ready = self._ready, {}
        if self._in_flight:
            tickets = [ticket for ticket in tickets if not self._parks(ticket, ticket.source.name)]
            ready = {source: None for source in ready if not self._parks(source, source.name)}
        for source in ready:
            ticket = source.next_append()
            if ticket is None:
                continue
            if ticket.append.size > LARGE_APPEND_BYTES and (large := ticket.append.nbytes) > LARGE_APPEND_BYTES:
                ticket.large_bytes = large
            ticket.deadline = self._now() + self._timeout_s + ticket.large_bytes / LARGE_BYTES_PER_S
            tickets.append(ticket)
        return self._those_that_go(tickets) if len(tickets) > 1 else tickets

    def _those_that_go(self, tickets: list[Ticket]) -> list[Ticket]:
        """The tickets of this tick; appends wait for a later one if their ids together would hold up the store."""
        going, ids = list[Ticket](), 0
        for ticket in tickets:
            if ticket.append.size > FEW_IDS_BYTES:
                more = sum(len(segment.ids) for segment in ticket.append.segments)
                if ids and ids + more > IDS_AT_ONCE:
                    self._again.append(ticket)
                    continue
                ids += more
            going.append(ticket)
        return going

    def _parks(self, each: Source | Ticket, name: str) -> bool:
        """Whether the model's server has a pipeline under way; if so, park ``each`` until that ends."""
        node_key = self._log.node_key(name)
        if node_key in self._in_flight:
            self._parked.setdefault(node_key, []).append(each)
        return node_key in self._in_flight

    # ---------------------------------------------------------------- pipelines

    async def _send(self, key: str) -> None:
        """Send one pipeline to one server and hand out the results."""
        tickets = self._in_flight[key]
        results = await self._log.append([*map(_append, tickets)], self._safety, large_bytes=tickets[0].large_bytes)
        self._stats.ticks += 1
        if self._failpoint is not None:
            self._failpoint("appended")
        unreachable = False
        for result in results:
            ticket = tickets[0]
            if isinstance(result, Appended):
                ticket.source.landed(result)
            elif isinstance(result, StoreDown):
                unreachable = unreachable or result.__cause__ is None
                self._send_again(ticket, result)
            else:  # it was not carried out, if this was the first attempt
                ticket.source.lost(StoreDown(DOWN) if ticket.resent else result)
            del tickets[0]  # if this raises, _abandon fails it and those behind it
        if unreachable:
            await asyncio.sleep(BACKOFF_S)

    def _send_again(self, ticket: Ticket, error: StoreDown) -> None:
        """Send an append of unknown fate again with the next tick, or give up if its time is up."""
        self._stats.store_errors += 1
        unexpected = error.__cause__ is not None  # a problem of this model, not of the store
        if not unexpected and self._now() < ticket.deadline:
            ticket.resent = True
            self._again.append(ticket)
            self._wake()
            return
        # If one large append fails, or one of several servers, the rest of the store may be fine.
        if not (unexpected or ticket.large_bytes or self._log.node_key(ticket.source.name)):
            if not self.store_down:
                logger.warning("the store is down: %s", error.detail)
            self.store_down = True
        ticket.source.lost(StoreDown(DOWN))
