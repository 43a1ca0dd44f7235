"""One server: a bounded pool of connections, one more for what carries rows, and no blind retries.

A round trip is a task of its own. A request that is cancelled in the middle of one leaves it to finish: cut off, it
would cost the connection, and in an unlucky moment the place in the pool as well.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from service.store.redis.channel import Address, Channel, Command, Subscription


class Node:
    """A server.

    Args:
        where: the library's arguments of a connection: host and port, or path, credentials, certificates.
        timeout_s: the most a round trip may take, with waiting for a free connection and connecting.
        connections_max: size of the pool.

    Raises:
        ValueError: an argument is not known.
    """

    def __init__(self, where: Mapping[str, Any], timeout_s: float, connections_max: int) -> None:
        self._pool = BlockingConnectionPool(
            **{
                **where,
                "timeout": timeout_s,
                "max_connections": connections_max,
                "socket_timeout": timeout_s,
                "socket_connect_timeout": timeout_s,
                "retry": Retry(NoBackoff(), 0),
                "retry_on_timeout": False,
                "retry_on_error": [],
                "health_check_interval": 0,
                "decode_responses": False,
                "protocol": 2,  # 3 adds a handshake per connection and nothing that is used here
            }
        )
        self._timeout_s = timeout_s
        self._channel = _channel(where, timeout_s)
        self._under_way: set[asyncio.Task[list[Any]]] = set()
        self.client: Redis = Redis(connection_pool=self._pool)
        try:
            self._pool.make_connection()  # type: ignore[no-untyped-call]  # does not connect: it only takes the options, or not
        except TypeError:
            raise ValueError("the store's URL holds an option that is not known") from None

    async def send(self, commands: Sequence[Command], *, quick: bool = False) -> list[Any]:
        """Send commands in one round trip; errors that the server answers come as values.

        Args:
            commands: the commands.
            quick: over the connection kept for what carries rows (channel.py), where the server has one.

        Raises:
            RedisError, OSError: it is not known which of them were carried out.
        """
        if quick and self._channel is not None:
            return await self._channel.call(commands)
        task = asyncio.create_task(self._execute(commands))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=self._timeout_s)
        if not done:
            task.cancel()
            raise TimeoutError
        return task.result()

    async def subscriber(self) -> AbstractConnection | Subscription:
        """A connection of its own for what the server says unasked; the caller reads it and disconnects it.

        Raises:
            RedisError, OSError: it cannot be made.
        """
        if self._channel is not None:
            return await self._channel.subscription()
        made: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        await made.connect()  # type: ignore[no-untyped-call]
        return made

    async def close(self) -> None:
        """Give up what is under way and close every connection."""
        if self._channel is not None:
            self._channel.close()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self.client.aclose()
        await self._pool.aclose()

    async def _execute(self, commands: Sequence[Command]) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            results: list[Any] = await pipeline.execute(raise_on_error=False)
        return results

    def _ended(self, task: "asyncio.Task[list[Any]]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, since nobody may be waiting any more


def _channel(where: Mapping[str, Any], timeout_s: float) -> Channel | None:
    """The connection for what carries rows; None where TLS or options of the URL are the library's to handle."""
    known = {"path", "host", "port", "username", "password", "db", "connection_class"}
    if not where.keys() <= known or "SSL" in getattr(where.get("connection_class"), "__name__", ""):
        return None
    address = Address(
        path=where.get("path"),
        host=where.get("host", "localhost"),
        port=int(where.get("port", 6379)),
        username=where.get("username"),
        password=where.get("password"),
        db=int(where.get("db", 0)),
    )
    return Channel(address, timeout_s)
