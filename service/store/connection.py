"""The way to the store: bounded in time and in connections, without blind retries.

A command whose answer got lost may have been carried out. Whoever sent it knows whether asking again is safe (an append
is, by its sequence number); the client library does not. So it is told to retry nothing, and every failure surfaces
at once as StoreDown.

A round trip is a task of its own. A request that is cancelled in the middle of one leaves it to finish: cut off, it
would cost the connection, and in an unlucky moment the place in the pool as well.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from service.errors import StoreDown
from service.store.channel import Address, Channel

Durability = Literal["always", "everysec", "none", "unknown"]

_Command = tuple[bytes | str | int, ...]
_SCHEMES = ("redis", "rediss", "unix")
_CANNOT = {
    "OOM": "the store is out of memory",
    "READONLY": "the store is a read-only replica",
    "LOADING": "the store is loading its data",
    "MISCONF": "the store cannot write to disk",
    "NOREPLICAS": "the store has too few replicas to write",
    "BUSY": "the store is busy",
    "CLUSTERDOWN": "the store's cluster is down",
    "TRYAGAIN": "the store is moving its data",
    "MASTERDOWN": "the store has lost its primary",
    "MOVED": "the store is part of a cluster",
    "ASK": "the store is moving its data",
    "NOAUTH": "the store asks for credentials",
    "WRONGPASS": "the store refuses the credentials",
    "NOPERM": "the store's user lacks a permission",
    "NOSCRIPT": "the store does not keep its scripts",
}
# The client library turns some words into classes and cuts them from the message; the others it leaves in place.
_CLASSES: tuple[tuple[type[exceptions.RedisError], str], ...] = (
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.MasterDownError, "MASTERDOWN"),  # before its base
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
    (exceptions.AuthenticationError, "WRONGPASS"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.NoScriptError, "NOSCRIPT"),
)
# At the start, or behind "-" where Redis before 7 wraps what a script ran into.
_WORD = re.compile(rf"(?:^|[\s:]-)({'|'.join(_CANNOT)})\b")


class Script:
    """A server-side script; it is sent once and then called by its hash."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Call(NamedTuple):
    """One call of a script. All its keys share a hash tag."""

    script: Script
    keys: Sequence[str]
    args: Sequence[bytes | str | int]


def store_down(error: BaseException) -> StoreDown | None:
    """What ``error`` means to a client, or None where it does not say that the store is down or cannot.

    Never the library's own message: it names hosts and paths.
    """
    for kind, word in _CLASSES:
        # What goes wrong while connecting comes wrapped in a ConnectionError.
        if isinstance(error, kind) or isinstance(error.__cause__, kind):
            return StoreDown(_CANNOT[word])
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return StoreDown("the store did not answer in time")
    if isinstance(error, exceptions.ConnectionError | OSError):
        return StoreDown("the store cannot be reached")
    if isinstance(error, exceptions.ResponseError) and (found := _WORD.search(str(error))):
        return StoreDown(_CANNOT[found[1]])
    return None


@contextmanager
def translated() -> Iterator[None]:
    """Raise StoreDown for every error that says so; let all others through as they are."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        if (down := store_down(error)) is not None:
            raise down from error
        raise


class Connection:
    """One store, reached through a bounded pool.

    Args:
        url: redis://, rediss:// or unix://; options in it may choose a database or certificates, no behaviour.
        timeout_s: the most a round trip may take, with waiting for a free connection and connecting.
        connections_max: size of the pool.

    Raises:
        ValueError: the URL cannot be used; the message does not repeat it, since it may hold a password.
    """

    def __init__(self, url: str, timeout_s: float, connections_max: int = 16) -> None:
        self._pool = BlockingConnectionPool(
            **{
                **_address(url),
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
        self._channel = _channel(_address(url), timeout_s)
        self._under_way: set[asyncio.Task[list[Any]]] = set()
        self.client: Redis = Redis(connection_pool=self._pool)
        try:
            self._pool.make_connection()  # type: ignore[no-untyped-call]  # does not connect: it only takes the options, or not
        except TypeError:
            raise ValueError("the store's URL holds an option that is not known") from None

    async def run(self, calls: Sequence[Call], *, quick: bool = False) -> list[Any]:
        """Run all calls in one round trip, in order; one that fails does not stop the others.

        Args:
            calls: the calls.
            quick: over the connection kept for what carries rows (channel.py), where the store has one.

        Returns:
            Per call its answer, or a StoreDown, or the library's error where that is a bug of ours.
        """
        channel = self._channel if quick else None
        results = await self._send(calls, (), channel)
        # A restarted server has lost its scripts; a call that failed so has done nothing and may be sent again.
        lost = [i for i, result in enumerate(results) if isinstance(result, exceptions.NoScriptError)]
        if lost:
            again = [calls[i] for i in lost]
            for i, result in zip(lost, await self._send(again, {c.script for c in again}, channel), strict=True):
                results[i] = result
        return [(store_down(r) or r) if isinstance(r, Exception) else r for r in results]

    async def one(self, call: Call) -> Any:
        """Run one call and return its answer.

        Raises:
            StoreDown: the store did not answer, or answered that it cannot.
        """
        (result,) = await self.run([call])
        if isinstance(result, Exception):
            raise result
        return result

    async def ask(self, *commands: _Command) -> list[Any]:
        """Send plain commands in one round trip and return their answers.

        Raises:
            StoreDown: the store did not answer, or answered that it cannot.
        """
        with translated():
            return await self._round_trip(commands, raise_on_error=True)

    async def ping(self) -> None:
        """Raise StoreDown unless the store answers."""
        await self.ask(("PING",))

    async def durability(self) -> Durability:
        """What an acknowledged write survives, as far as the store tells."""
        settings = await self._settings("appendonly", "appendfsync")
        if settings is None:
            return "unknown"
        on, sync = settings
        if on == "yes" and sync == "always":
            return "always"
        return "everysec" if on == "yes" and sync == "everysec" else "none"

    async def eviction_ok(self) -> bool | None:
        """Whether the store keeps what it is given; None where it does not tell."""
        settings = await self._settings("maxmemory", "maxmemory-policy")
        return None if settings is None else settings[0] == "0" or settings[1] == "noeviction"

    async def subscriber(self) -> AbstractConnection:
        """A connection of its own for what the store says unasked; the caller reads it and disconnects it.

        Raises:
            RedisError, OSError: it cannot be made.
        """
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

    async def _send(self, calls: Sequence[Call], load: "set[Script] | tuple[()]", channel: Channel | None) -> list[Any]:
        commands: list[_Command] = [("SCRIPT", "LOAD", script.source) for script in load]
        commands += [("EVALSHA", script.sha, len(keys), *keys, *args) for script, keys, args in calls]
        try:
            if channel is not None:
                results = await channel.call(commands)
            else:
                results = await self._round_trip(commands, raise_on_error=False)
        except (exceptions.RedisError, OSError) as error:
            if store_down(error) is None:
                raise
            return [error] * len(calls)
        return results[len(load) :]

    async def _round_trip(self, commands: Sequence[_Command], *, raise_on_error: bool) -> list[Any]:
        task = asyncio.create_task(self._execute(commands, raise_on_error))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        done, _ = await asyncio.wait({task}, timeout=self._timeout_s)
        if not done:
            task.cancel()
            raise TimeoutError
        return task.result()

    async def _execute(self, commands: Sequence[_Command], raise_on_error: bool) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            results: list[Any] = await pipeline.execute(raise_on_error=raise_on_error)
        return results

    def _ended(self, task: "asyncio.Task[list[Any]]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, since nobody may be waiting any more

    async def _settings(self, *names: str) -> list[str] | None:
        """Values of server settings, or None where CONFIG is denied, renamed or unknown."""
        try:
            answers = await self.ask(*[("CONFIG", "GET", name) for name in names])
        except exceptions.ResponseError:
            return None
        except StoreDown as down:
            if isinstance(down.__cause__, exceptions.NoPermissionError):
                return None
            raise
        return [answer[1].decode() for answer in answers] if all(answers) else None


def _channel(address: dict[str, Any], timeout_s: float) -> Channel | None:
    """The connection for what carries rows; None where TLS or options of the URL are the library's to handle."""
    known = {"path", "host", "port", "username", "password", "db", "connection_class"}
    if not address.keys() <= known or "SSL" in getattr(address.get("connection_class"), "__name__", ""):
        return None
    where = Address(
        path=address.get("path"),
        host=address.get("host", "localhost"),
        port=int(address.get("port", 6379)),
        username=address.get("username"),
        password=address.get("password"),
        db=int(address.get("db", 0)),
    )
    return Channel(where, timeout_s)


def _address(url: str) -> dict[str, Any]:
    """Where the store is. What else the URL's query sets is overruled by the caller."""
    scheme = urlsplit(url).scheme
    if scheme not in _SCHEMES:
        known = ", ".join(f"{s}://" for s in _SCHEMES)
        raise ValueError(f"the store's URL has to begin with one of {known}; {scheme or 'no scheme'} is not supported")
    try:
        return dict(parse_url(url))
    except ValueError:
        raise ValueError(f"the store's {scheme}:// URL cannot be read") from None
