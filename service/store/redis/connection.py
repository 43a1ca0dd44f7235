"""The connection to the store, one server or many: bounded in time and in sockets, without blind retries.

A command whose reply got lost may have been carried out. The caller knows whether sending it again is safe (an append
is, by its sequence number); the client library does not. So it is told to retry nothing, and every failure surfaces at
once as StoreDown. Sent again here is only what a server reports as not done: a script it does not know, a slot that is
not its own (MOVED, ASK).

In a cluster commands are grouped by node and sent to all of them at once; a node that fails fails its own commands.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from service.errors import StoreDown, StoreFull
from service.store.redis.node import Command, Node, Subscription
from service.store.redis.redis_errors import translated, unavailable
from service.store.redis.refusal import refusal
from service.store.redis.topology import Cluster, Sentinels, Single, Topology
from service.store.redis.url import Server, parse

logger = logging.getLogger(__name__)

Durability = Literal["always", "everysec", "none", "unknown"]
_WEAKEST: tuple[Durability, ...] = ("none", "unknown", "everysec", "always")
FULL_SHOWN_S = 10.0
"""How long a store that has refused a write for lack of room is taken for full."""
HOPS_MAX = 4
"""How often a command follows a slot that moves."""
_ELSEWHERE = (exceptions.MovedError, exceptions.ReadOnlyError, exceptions.ClusterDownError)
"""Errors after which the topology is looked up again."""


class Script:
    """A server-side script; it is sent once and then called by its hash."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Call(NamedTuple):
    """One call of a script, or a plain command.

    Attributes:
        script: None for a plain command.
        keys: what the script changes; all share a hash tag, and the first one decides where the call goes.
        args: the script's arguments; all words of a plain command.
    """

    script: Script | None
    keys: Sequence[str]
    args: Sequence[bytes | str | int]


class Unreplicated(NamedTuple):
    """The result of a call that was carried out, but not in time on as many replicas as was asked for."""

    result: Any


class Safety(NamedTuple):
    """On how many replicas a write has to be before it counts, and how long to wait for them."""

    replicas: int
    wait_ms: int


class _Way(NamedTuple):
    """How calls travel; see ``Connection.run``."""

    quick: bool
    safety: Safety | None
    large_bytes: int


class Connection:
    """One store.

    Args:
        url: see url.py.
        timeout_s: the most a round trip to a server may take, with waiting for a free connection and connecting.
        connections_max: size of the pool of each server.

    Raises:
        ValueError: the URL cannot be used; the message does not repeat it, since it may hold a password.
    """

    def __init__(self, url: str, timeout_s: float, connections_max: int = 16) -> None:
        found = parse(url)
        first = Node(found.where, timeout_s, connections_max)  # does not connect: it checks the options
        self._single = first if found.kind == "single" else None
        self._where = found.where if found.kind == "single" else {}

        def make(server: Server) -> Node:
            return Node({**found.where, "host": server[0], "port": server[1]}, timeout_s, connections_max)

        self._full_until = float("-inf")
        self.topology: Topology
        if found.kind == "cluster":
            self.topology = Cluster(found.seeds, make, timeout_s)
        elif found.kind == "sentinel":
            self.topology = Sentinels(found, make, timeout_s)
        else:
            self.topology = Single(first)

    def node_key(self, key: str) -> str:
        """Equal for keys that wait for the same server."""
        return "" if self._single is not None else self.topology.node_key(key)

    async def refusal(self) -> str | None:
        """Why a single server lets nobody in, as far as it says so to whoever connects; see refusal.py."""
        return await refusal(self._where)

    async def run(
        self, calls: Sequence[Call], *, quick: bool = False, safety: Safety | None = None, large_bytes: int = 0
    ) -> list[Any]:
        """Run all calls in one round trip per server, in order; one that fails does not stop the others.

        Args:
            calls: the calls.
            quick: over the lean connection for what carries rows (node.py), where the server has one.
            safety: wait until the replicas have what was written.
            large_bytes: what they carry or ask for, where that is much: over connections for large calls, with more
                time than the timeout, in proportion.

        Returns:
            Per call its answer or ``Unreplicated``, or StoreDown, or StoreFull, or the library's error where that is a
            bug of ours.
        """
        results = await self._deliver(calls, quick, safety, large_bytes)
        for at, result in enumerate(results):
            if isinstance(result, Exception):
                results[at] = meant = unavailable(result) or result
                self._note(meant)
        return results

    async def one(self, call: Call) -> Any:
        """Run one call and return its answer.

        Raises:
            StoreDown, StoreFull: the store did not answer, or answered that it cannot.
        """
        (result,) = await self.run([call])
        if isinstance(result, Exception):
            raise result
        return result

    async def ask(self, *commands: Command) -> list[Any]:
        """Send plain commands, each of one key at most, and return their answers.

        Raises:
            StoreDown, StoreFull: the store did not answer, or answered that it cannot.
        """
        results = await self._deliver([Call(None, _keys(command), command) for command in commands])
        for result in results:
            if isinstance(result, Exception):
                self._note(meant := unavailable(result) or result)
                raise meant from (None if meant is result else result)
        return results

    @property
    def full(self) -> bool:
        """Whether the store has refused a write for lack of room in the last FULL_SHOWN_S."""
        return asyncio.get_running_loop().time() < self._full_until

    def _note(self, error: Exception) -> None:
        if isinstance(error, StoreFull):
            self._full_until = asyncio.get_running_loop().time() + FULL_SHOWN_S

    async def ping(self) -> None:
        """Raise StoreDown unless the store answers; of a cluster, any node that is in charge of something."""
        try:
            await self._all([("PING",)])
        except StoreFull as error:  # it answers so while it cannot write to its disk
            self._note(error)

    async def durability(self) -> Durability:
        """What an acknowledged write survives, as far as the store tells: on the weakest of its servers."""
        found = await self._settings("appendonly", "appendfsync")
        return min(map(_durability, found), key=_WEAKEST.index)

    async def eviction_ok(self) -> bool | None:
        """Whether the store keeps what it is given; None where it does not tell."""
        found = await self._settings("maxmemory", "maxmemory-policy")
        kept = [None if values is None else values[0] == "0" or values[1] == "noeviction" for values in found]
        return False if False in kept else None if None in kept else True

    async def subscriber(self, ignored: bytes) -> AbstractConnection | Subscription:
        """A connection of its own for published messages; the caller reads it and disconnects it.

        Args:
            ignored: messages that contain these bytes may be left out.

        Raises:
            RedisError, OSError, StoreDown: it cannot be made.
        """
        node = await self.topology.node(None)
        try:
            return await node.subscriber(ignored)
        except (exceptions.RedisError, OSError) as error:
            self.topology.failed(error)
            raise

    async def listeners(self, channels: Sequence[str]) -> list[int]:
        """How many connections have subscribed to each channel, at all servers; zeros where the store does not tell.

        Raises:
            StoreDown, StoreFull: it did not answer.
        """
        answers = await self._if_allowed([("PUBSUB", "NUMSUB", *channels)]) if channels else None
        if answers is None:
            return [0] * len(channels)
        return [sum(counts) for counts in zip(*(answer[0][1::2] for answer in answers), strict=True)]

    async def close(self) -> None:
        """Give up what is under way and close every connection."""
        await self.topology.close()

    # ---------------------------------------------------------------- to the servers and back

    def _deliver(
        self, calls: Sequence[Call], quick: bool = False, safety: Safety | None = None, large_bytes: int = 0
    ) -> Awaitable[list[Any]]:
        """The results in the order of the calls, errors among them as values."""
        way = _Way(quick, safety, large_bytes)
        return self._spread(calls, way) if self._single is None else self._send(self._single, calls, way)

    async def _spread(self, calls: Sequence[Call], way: "_Way") -> list[Any]:
        """Each call to the server that has its key, and on to where that server says it has moved."""
        results: list[Any] = [None] * len(calls)
        waiting: dict[int, Node | None] = dict.fromkeys(range(len(calls)))  # None: the topology knows the node
        asking: set[int] = set()
        for _ in range(HOPS_MAX):
            groups: dict[Node, list[int]] = {}
            for at, named in waiting.items():
                try:
                    keys = calls[at].keys
                    node = named or await self.topology.node(keys[0] if keys else None)
                except StoreDown as error:
                    results[at] = error
                else:
                    groups.setdefault(node, []).append(at)
            sent = [
                self._send(node, [calls[at] for at in part], way, [n for n, at in enumerate(part) if at in asking])
                for node, part in groups.items()
            ]
            answers = [await sent[0]] if len(sent) == 1 else await asyncio.gather(*sent)
            waiting, asking = {}, set()
            for part, answered in zip(groups.values(), answers, strict=True):
                for at, result in zip(part, answered, strict=True):
                    results[at] = result
                    if isinstance(result, exceptions.MovedError | exceptions.AskError):
                        to = await self.topology.moved((result.host, result.port))
                        if to is not None:
                            waiting[at] = to
                            if not isinstance(result, exceptions.MovedError):
                                asking.add(at)
            if not waiting:
                break
        return results

    async def _send(self, node: Node, calls: Sequence[Call], way: "_Way", asking: Collection[int] = ()) -> list[Any]:
        """One server's share; calls of scripts that it does not know are sent once more, with the scripts."""
        results = await self._round_trip(node, calls, way, asking)
        lost: list[int] = []
        for at, result in enumerate(results):
            if isinstance(result, exceptions.NoScriptError):
                lost.append(at)
        if lost:
            again = [calls[at] for at in lost]
            load = {call.script for call in again if call.script is not None}
            asked = [n for n, at in enumerate(lost) if at in asking]
            found = await self._round_trip(node, again, way, asked, load)
            for at, result in zip(lost, found, strict=True):
                results[at] = result
        for result in results:
            if isinstance(result, _ELSEWHERE) or (isinstance(result, Exception) and "-READONLY" in str(result)):
                self.topology.failed(result)
        return results

    async def _round_trip(
        self,
        node: Node,
        calls: Sequence[Call],
        way: "_Way",
        asking: Collection[int],
        load: Iterable[Script] = (),
    ) -> list[Any]:
        commands: list[Command] = [("SCRIPT", "LOAD", script.source) for script in load] if load else []
        places: list[int] = []
        for at, (script, keys, args) in enumerate(calls):
            if at in asking:
                commands.append(("ASKING",))
            places.append(len(commands))
            commands.append((*args,) if script is None else ("EVALSHA", script.sha, len(keys), *keys, *args))
        safety = way.safety
        if safety is not None:  # covers everything before it on this server, from any client
            commands.append(("WAIT", safety.replicas, safety.wait_ms))
        try:
            if way.large_bytes:
                answers = await node.send_large(commands, way.large_bytes)
            else:
                answers = await (node.send_quick if way.quick else node.send)(commands)
        except (exceptions.RedisError, OSError) as error:
            if unavailable(error) is None:
                raise
            self.topology.failed(error)
            return [error] * len(calls)
        if len(answers) == len(calls):
            return answers
        results = [answers[at] for at in places]
        if safety is None or (isinstance(answers[-1], int) and answers[-1] >= safety.replicas):
            return results
        return [result if isinstance(result, Exception) else Unreplicated(result) for result in results]

    async def _all(self, commands: Sequence[Command]) -> list[list[Any]]:
        """The answers of each server in charge, of those that can be reached, to the same commands.

        Raises:
            StoreDown: none can.
        """
        nodes = await self.topology.nodes()
        found = await asyncio.gather(*(node.send(commands) for node in nodes), return_exceptions=True)
        answers = [answer for answer in found if not isinstance(answer, BaseException)]
        with translated():
            for failure in found:
                if isinstance(failure, BaseException):
                    self.topology.failed(failure)
                    if not answers:
                        raise failure
            for answer in answers:
                for part in answer:
                    if isinstance(part, Exception):
                        raise part
        return answers

    async def _if_allowed(self, commands: Sequence[Command]) -> list[list[Any]] | None:
        """The same, or None where the commands are denied, renamed or unknown."""
        try:
            return await self._all(commands)
        except exceptions.ResponseError:
            return None
        except StoreDown as down:
            if isinstance(down.__cause__, exceptions.NoPermissionError):
                return None
            raise

    async def _settings(self, *names: str) -> list[list[str] | None]:
        """Values of settings per server; None where the store does not tell."""
        answers = await self._if_allowed([("CONFIG", "GET", name) for name in names])
        if answers is None:
            return [None]
        return [[part[1].decode() for part in answer] if all(answer) else None for answer in answers]


def _keys(command: Command) -> Sequence[str]:
    """The key that decides where a plain command goes, if it has one."""
    if command[0] == "XREAD":
        return (str(command[command.index("STREAMS") + 1]),)
    return (str(command[1]),) if len(command) > 1 and command[0] not in ("CONFIG", "SCRIPT", "KEYS", "ACL") else ()


def _durability(settings: Sequence[str] | None) -> Durability:
    if settings is None:
        return "unknown"
    on, sync = settings
    if on == "yes" and sync == "always":
        return "always"
    return "everysec" if on == "yes" and sync == "everysec" else "none"


__all__ = ["Call", "Connection", "Safety", "Script", "Unreplicated", "translated", "unavailable"]
