"""Which server has a key: the only one, the primary that Sentinels name, or a node of a cluster.

The client library finds the servers. They are looked up again, in a separate task and at a bounded rate, when one
cannot be reached, is not a primary, or reports that a slot has moved. Until then callers that need that server get
StoreDown. Sentinels are also asked regularly: for seconds after they have promoted a replica, the former primary keeps
accepting rows, which are lost.
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any

from redis import exceptions
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.cluster import ClusterNode, NodesManager
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from service.errors import StoreDown
from service.store.redis.node import Node
from service.store.redis.url import ServerAddress, StoreUrl

logger = logging.getLogger(__name__)

LOOK_S = 0.1  # least time between two look-ups
TRIES = 4  # sentinels, or nodes of a cluster, that one look-up has time to ask even if most do not answer
UNKNOWN = "looking up the store's servers"
_FAILED = (exceptions.RedisError, exceptions.RedisClusterException, OSError, IndexError)
"""What the client library raises if no server can be found; IndexError: a cluster's nodes have no slots yet."""

_ASKED = re.compile(r"<redis.*?\)>\)>\)> - ")  # a client as the library shows it, before what a Sentinel answered

Slots = list[ServerAddress | None]
"""The server of each slot; a list of one if one server has all keys."""
Find = Callable[[Iterable[ServerAddress]], Awaitable[Slots]]
"""Looks servers up, given those that are known; raises an error of the library, or OSError, if none answers."""
ONLY = ("", 0)


class Topology:
    """The servers in charge and their keys; ``sole`` is the one with all keys, None if unknown or there are several.

    ``silent``: whether a server may stop being in charge without reporting it.
    """

    def __init__(
        self, find: Find, make: Callable[[ServerAddress], Node], slots: Slots, timeout_s: float, *, silent: bool = False
    ) -> None:
        self._find, self._make, self._slots, self._timeout_s, self._silent = find, make, slots, timeout_s, silent
        self._known = {server: make(server) for server in {*slots} if server is not None}
        self.sole = self._known.get(slots[0] or ONLY) if len(slots) == 1 else None
        self._looking: asyncio.Task[None] | None = None
        self._looked, self._turn, self._told, self._closed = -math.inf, 0, False, False

    async def node(self, key: str | None) -> Node:
        """The server in charge of a key; None: any that is in charge of something. ``StoreDown`` if it is not known."""
        nodes = await self.nodes()
        if key is None:
            self._turn += 1
            return nodes[self._turn % len(nodes)]
        server = self._of(key)
        if server is None or server not in self._known:
            self._search()
            raise StoreDown(UNKNOWN)
        return self._known[server]

    async def nodes(self) -> list[Node]:
        """Every server in charge of something; ``StoreDown`` if the first look-up, which it waits for, finds none."""
        if not self._known:
            await asyncio.wait({self._search()}, timeout=self._timeout_s)
        if not self._known:
            raise StoreDown(UNKNOWN)
        return [*self._known.values()]

    def node_key(self, key: str) -> str:
        """Equal for two keys if and only if one slow server would delay both."""
        return str(self._of(key)) if len(self._slots) > 1 else ""

    def failed(self, error: BaseException) -> None:
        """Look again, because a server could not be reached or is no longer in charge."""
        logger.debug("a server of the store failed: %r", error)
        self._search()

    def confirm(self) -> None:
        """Look again, once, if a server may have stopped being in charge without reporting it."""
        if self._silent and self._known:
            self._search(tries=1)

    def moved(self, to: ServerAddress) -> Node:
        """The server that a slot is reported to have moved to."""
        if to not in self._known:
            self._known[to] = self._make(to)
        return self._known[to]

    async def close(self) -> None:
        """Close every server's connections."""
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        for node in self._known.values():
            node.close()

    def _of(self, key: str) -> ServerAddress | None:
        return self._slots[key_slot(key.encode(), len(self._slots))]

    def _search(self, tries: float = math.inf) -> "asyncio.Task[None]":
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(tries), context=Context())
        return self._looking

    async def _look(self, tries: float) -> None:
        clock, slots = asyncio.get_running_loop().time, None
        while slots is None:
            if tries <= 0 or self._closed:  # the client library may have taken the cancellation for an error
                return
            tries -= 1
            await asyncio.sleep(max(0.0, self._looked + LOOK_S - clock()))
            self._looked = clock()
            try:
                async with asyncio.timeout(self._timeout_s):
                    slots = await self._find([*self._known])
            except _FAILED as error:
                why = _ASKED.sub("", str(error)) or type(error).__name__
                logger.log(
                    logging.DEBUG if self._told else logging.WARNING, "the store's servers are not found: %s", why
                )
                self._told = True
        self._slots, self._told = slots, False
        servers = {server for server in slots if server is not None}
        for server in {*self._known} - servers:
            self._known.pop(server).close()
        for server in sorted(servers - {*self._known}):
            self._known[server] = self._make(server)
        self.sole = self._known[slots[0]] if len(slots) == 1 and slots[0] is not None else None


def topology(url: StoreUrl, timeout_s: float, connections_max: int) -> Topology:
    """The topology of the store at a URL; ``ValueError`` if it holds an option that is not known."""
    first = Node(url.where, timeout_s, connections_max)  # does not connect: it checks the options
    first.check_tls()

    def make(server: ServerAddress) -> Node:
        where = {**url.where, "host": server[0], "port": server[1]}
        return first if server == ONLY else Node(where, timeout_s, connections_max)

    if url.kind == "single":
        return Topology(_only, make, [ONLY], timeout_s)
    if url.kind == "sentinel":
        return Topology(_sentinels(url, timeout_s), make, [None], timeout_s, silent=True)
    return Topology(_cluster(url, timeout_s), make, [None] * REDIS_CLUSTER_HASH_SLOTS, timeout_s)


async def _only(_: Iterable[ServerAddress]) -> Slots:
    return [ONLY]


def _sentinels(url: StoreUrl, timeout_s: float) -> Find:
    """Ask Sentinels for the primary of a service."""
    own = _limited(url.sentinel, timeout_s)

    async def find(known: Iterable[ServerAddress]) -> Slots:
        asked = Sentinel(())  # type: ignore[no-untyped-call]
        for host, port in url.seeds:
            asked.sentinels.append(Redis.from_pool(ConnectionPool(host=host, port=port, **own)))
        try:
            primary: ServerAddress = await asked.discover_master(url.service)
        finally:
            await asyncio.gather(*(one.aclose() for one in asked.sentinels), return_exceptions=True)
        if primary not in known:
            logger.info("the store's primary is %s:%s", *primary)
        return [primary]

    return find


def _cluster(url: StoreUrl, timeout_s: float) -> Find:
    """Ask the nodes of a cluster in random order: a node that is cut off from the rest may be wrong."""
    own = _limited(url.where, timeout_s)

    async def find(known: Iterable[ServerAddress]) -> Slots:
        asked = [ClusterNode(*server, **own) for server in {*known, *url.seeds}]
        manager = NodesManager(asked, False, own, dynamic_startup_nodes=False)
        try:
            await manager.initialize()
        finally:
            with suppress(*_FAILED):
                await manager.aclose("startup_nodes")
        found: Slots = [None] * REDIS_CLUSTER_HASH_SLOTS
        for slot, (primary, *_) in manager.slots_cache.items():
            found[slot] = primary.host, int(primary.port)
        return found

    return find


def _limited(where: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Arguments of the library's own connections, bounded in time; nothing is tried twice."""
    wait_s = timeout_s / TRIES
    return {**where, "socket_timeout": wait_s, "socket_connect_timeout": wait_s, "retry": Retry(NoBackoff(), 0)}
