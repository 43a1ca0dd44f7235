"""Which server has a key: the only one, the primary that Sentinels name, or a node of a cluster.

A topology is looked up again, in a task of its own and at a bounded rate, when a server cannot be reached, is no
primary, or reports that a slot has moved. Until then callers that need that server get StoreDown.
"""

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

from redis import exceptions
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from service.errors import StoreDown
from service.store.redis.node import Node
from service.store.redis.url import Server, StoreUrl

logger = logging.getLogger(__name__)

LOOK_S = 0.1
"""Least time between two look-ups."""
UNKNOWN = "the store's servers are being looked for"

Make = Callable[[Server], Node]


class Topology(ABC):
    """Servers, and which of them is in charge of what."""

    @abstractmethod
    async def node(self, key: str | None) -> Node:
        """The server in charge of a key; None: any that is in charge of something.

        Raises:
            StoreDown: it is not known.
        """

    @abstractmethod
    async def nodes(self) -> list[Node]:
        """Every server in charge of something; raises StoreDown where none is known."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection."""

    def node_key(self, key: str) -> str:  # noqa: ARG002  there is one server
        """Equal for two keys if and only if one slow server would delay both."""
        return ""

    def failed(self, error: BaseException) -> None:  # noqa: B027  with one server there is nothing to look for
        """Note that a server could not be reached, or is not in charge any more."""

    async def moved(self, to: Server) -> Node | None:  # noqa: ARG002  there is no other server
        """The server that a slot is reported to have moved to; None where there is only one."""
        return None


class Single(Topology):
    """One server."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def node(self, key: str | None) -> Node:  # noqa: ARG002
        """The server, for every key."""
        return self._node

    async def nodes(self) -> list[Node]:
        """The server."""
        return [self._node]

    async def close(self) -> None:
        """Close the server's connections."""
        await self._node.close()


class _Found(Topology):
    """Servers that are looked up: at first, and again whenever the result turns out wrong."""

    def __init__(self, make: Make, timeout_s: float) -> None:
        self._make, self._timeout_s = make, timeout_s
        self._known: dict[Server, Node] = {}
        self._looking: asyncio.Task[None] | None = None
        self._stale = True
        self._looked = -math.inf
        self._closing: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _look(self) -> None:
        """Look up the servers in charge; raises RedisError or OSError where no server answers."""

    def failed(self, error: BaseException) -> None:
        """Start another look-up."""
        self._stale = True
        if not isinstance(error, exceptions.MovedError | exceptions.ReadOnlyError):
            logger.debug("a server of the store failed: %r", error)
        self._search()

    async def nodes(self) -> list[Node]:
        """The servers that were found last."""
        await self._sure()
        if not self._known:
            raise StoreDown(UNKNOWN)
        return [*self._known.values()]

    async def close(self) -> None:
        """Close every server's connections."""
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*(node.close() for node in self._known.values()), *self._closing, return_exceptions=True)

    def _search(self) -> "asyncio.Task[None]":
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._once(), context=Context())
        return self._looking

    async def _once(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._looked + LOOK_S - loop.time()))
        self._looked = loop.time()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._look()
            self._stale = False
        except (exceptions.RedisError, OSError) as error:
            logger.debug("the store's servers could not be found: %r", error)

    async def _sure(self) -> None:
        """Wait for the first look-up, not for later ones."""
        if not self._known:
            await asyncio.wait({self._search()}, timeout=self._timeout_s)
        elif self._stale:
            self._search()

    def _keep(self, servers: Sequence[Server]) -> None:
        """Connect to new servers in charge, and drop those that are not in charge of anything any more."""
        for server in [*self._known]:
            if server not in servers:
                task = asyncio.create_task(self._known.pop(server).close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        for server in servers:
            if server not in self._known:
                self._known[server] = self._make(server)


class Sentinels(_Found):
    """The primary of a service, as Sentinels name it.

    Args:
        place: where they are.
        make: makes a server.
        timeout_s: bound of a look-up.
    """

    def __init__(self, place: StoreUrl, make: Make, timeout_s: float) -> None:
        super().__init__(make, timeout_s)
        self._service = place.service
        kept = {name: value for name, value in (place.sentinel or {}).items() if name != "connection_class"}
        if "connection_class" in (place.sentinel or {}):
            kept["ssl"] = True
        half = timeout_s / 2
        limits = {"socket_timeout": half, "socket_connect_timeout": half, "retry": Retry(NoBackoff(), 0)}
        self._sentinel = Sentinel(place.seeds, sentinel_kwargs={**kept, **limits})  # type: ignore[no-untyped-call]

    async def _look(self) -> None:
        host, port = await self._sentinel.discover_master(self._service)
        if (host, port) not in self._known:
            logger.info("the store's primary is %s:%s", host, port)
        self._keep([(host, port)])

    async def node(self, key: str | None) -> Node:  # noqa: ARG002
        """The primary."""
        return (await self.nodes())[0]

    async def close(self) -> None:
        """Close the connections to Sentinels as well."""
        await super().close()
        await asyncio.gather(*(one.aclose() for one in self._sentinel.sentinels), return_exceptions=True)


class Cluster(_Found):
    """The nodes of a cluster, by slot.

    Args:
        seeds: nodes to ask first.
        make: makes a server.
        timeout_s: bound of a look-up.
    """

    def __init__(self, seeds: Sequence[Server], make: Make, timeout_s: float) -> None:
        super().__init__(make, timeout_s)
        self._seeds = seeds
        self._slots: list[Server | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._asked = 0

    async def _look(self) -> None:
        """Ask one node after the other, another one first each time: one that is cut off from the rest may be wrong."""
        others = [server for server in self._seeds if server not in self._known]
        asked = [*self._known, *others]
        self._asked += 1
        last: Exception | None = None
        for at in range(len(asked)):
            server = asked[(at + self._asked) % len(asked)]
            known = self._known.get(server)
            node = known or self._make(server)
            try:
                async with asyncio.timeout(self._timeout_s / len(asked)):
                    (ranges,) = await node.send([("CLUSTER", "SLOTS")])
                if isinstance(ranges, Exception):
                    raise ranges
            except (exceptions.RedisError, OSError) as error:
                last = error
                continue
            finally:
                if known is None:
                    await node.close()
            self._take(ranges, server)
            return
        raise last or exceptions.ConnectionError("no node")

    def _take(self, ranges: Sequence[Any], told_by: Server) -> None:
        slots: list[Server | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        for first, last, primary, *_ in ranges:
            server = ((primary[0] or b"").decode() or told_by[0], int(primary[1]))
            slots[first : last + 1] = [server] * (last - first + 1)
        self._slots = slots
        self._keep(sorted({server for server in slots if server is not None}))

    def _of(self, key: str) -> Server | None:
        return self._slots[key_slot(key.encode())]

    async def node(self, key: str | None) -> Node:
        """The node that has the key's slot."""
        await self._sure()
        if key is None:
            return (await self.nodes())[self._asked % len(self._known)]
        server = self._of(key)
        if server is None or server not in self._known:
            self._search()
            raise StoreDown(UNKNOWN)
        return self._known[server]

    def node_key(self, key: str) -> str:
        """The address of the node that has the slot."""
        return str(self._of(key))

    async def moved(self, to: Server) -> Node | None:
        """The node that another one names, connected to on demand."""
        if to not in self._known:
            self._known[to] = self._make(to)
        return self._known[to]
