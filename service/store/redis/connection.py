"""The connection to the store, one server or many: bounded in time and in sockets, without blind retries.

A command whose reply got lost may have been carried out. Only the caller knows whether it may be sent again (an append
may, by its sequence number), so every failure surfaces at once as StoreDown. Only commands that a server reports as not
done are sent again here: a script it does not know, a slot that is not its own (MOVED, ASK). In a cluster commands are
grouped by node and sent to all nodes at once; a node that fails affects only its own commands.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal, NamedTuple

from redis import exceptions

from service.errors import StoreDown, StoreFull, Unavailable
from service.store.keys import NOTHING
from service.store.redis.node import Command, Line, Node
from service.store.redis.redis_errors import translated, unavailable, word_of
from service.store.redis.topology import topology
from service.store.redis.url import parse

logger = logging.getLogger(__name__)

Durability = Literal["always", "everysec", "none", "unknown"]
_WEAKEST: tuple[Durability, ...] = ("none", "unknown", "everysec", "always")
_SYNCING = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite")
_DURABLE: dict[tuple[str, ...], Durability] = {
    ("yes", "everysec", "no"): "everysec",
    ("yes", "always", "no"): "always",
}
FULL_SHOWN_S = 10.0  # how long a store that has refused a write for lack of room counts as full
_DEMOTED = ("READONLY", "UNBLOCKED")
HOPS_MAX = 4  # how often a command follows a slot that moves
_ELSEWHERE = ("MOVED", "CLUSTERDOWN", *_DEMOTED)  # errors after which the topology is looked up again


class Script:
    """A server-side script; it is sent once and then called by its hash."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Call(NamedTuple):
    """One call of a script, or a plain command."""

    script: Script | None  # None for a plain command
    keys: Sequence[str]  # what the script changes; all share a hash tag, and the first one decides where the call goes
    args: Sequence[bytes | str | int]  # the script's arguments; all words of a plain command
    asking: bool = False  # it goes to a server that is taking over the key's slot


class UnreplicatedResult(NamedTuple):
    """The result of a call that was carried out, but did not reach the requested number of replicas in time."""

    result: Any


class Safety(NamedTuple):
    """How many replicas must have a write before it counts, and how long to wait for them."""

    replicas: int
    wait_ms: int


class _Way(NamedTuple):
    """How calls travel; see ``Connection.run``."""

    quick: bool
    safety: Safety | None
    large_bytes: int


class Connection:
    """One store. Unless they say otherwise, methods raise StoreDown or StoreFull if it did not answer, or cannot.

    A round trip to a server takes ``timeout_s`` at most, including the wait for one of the ``connections_max``
    connections of its pool. Raises what ``url.parse`` raises. ``short_of_disk``: the service lets its private store
    refuse data for lack of room on the disk (disk_reserve.py), though the store itself speaks of memory.
    """

    def __init__(self, url: str, timeout_s: float, connections_max: int = 16) -> None:
        self.topology = topology(parse(url), timeout_s, connections_max)
        self._full_until = float("-inf")
        self.short_of_disk = False
        self._reasons: list[str] = []  # why some servers failed while others answered

    def node_key(self, key: str) -> str:
        """Equal for keys that wait for the same server; empty if one server has all keys."""
        return self.topology.node_key(key)

    async def run(
        self, calls: Sequence[Call], *, quick: bool = False, safety: Safety | None = None, large_bytes: int = 0
    ) -> list[Any]:
        """Run all calls in one round trip per server, in order; one that fails does not stop the others.

        Args:
            calls: the calls; without any, nothing is sent.
            quick: use the connection for calls that carry rows (node.py).
            safety: wait until the replicas have what was written, on this connection: a script whose answer
                acknowledges what others have written must write as well (``rewrite`` in look.lua).
            large_bytes: how much the calls carry or ask for, if that is much: they use connections for large calls,
                with more time than the timeout, in proportion.

        Returns:
            Per call its answer or ``UnreplicatedResult``, or StoreDown, or StoreFull; see ``redis_errors.translated``.
        """
        if not calls:  # the connection would wait for an answer that never comes
            return []
        way, sole = _Way(quick, safety, large_bytes), self.topology.sole
        results = await (self._spread(calls, way) if sole is None else self._send(sole, calls, way))
        for at, result in enumerate(results):
            if isinstance(result, Exception):
                results[at] = self._noted(translated(result, calls[at].keys))
        return results

    async def one(self, call: Call) -> Any:
        """Run one call and return its answer."""
        return (await self.every([call]))[0]

    async def ask(self, *commands: Command) -> list[Any]:
        """Send plain commands, each of one key at most, and return their answers."""
        return await self.every([Call(None, _keys(command), command) for command in commands])

    async def every(self, calls: Sequence[Call]) -> list[Any]:
        """Run calls and return their answers, or raise the first error."""
        results = await self.run(calls)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    @property
    def full(self) -> bool:
        """Whether the store has no room, or has refused a write for lack of it in the last FULL_SHOWN_S."""
        return self.short_of_disk or asyncio.get_running_loop().time() < self._full_until

    def _noted(self, error: Unavailable) -> Unavailable:
        if not isinstance(error, StoreFull):
            return error
        self._full_until = asyncio.get_running_loop().time() + FULL_SHOWN_S
        return translated(exceptions.ResponseError("MISCONF")) if self.short_of_disk else error

    async def ping(self) -> None:
        """Return if the store answers and is not a read-only replica; for a cluster, if any node finds it in order.

        Meanwhile Sentinels are asked whether it is still the primary.
        """
        self.topology.confirm()
        with suppress(StoreFull):  # the answer while it cannot write to its disk
            if self.topology.sole is None:
                told = await self._told(("PING",), ("CLUSTER", "INFO"))
                if told is not None and all(b"cluster_state:fail" in state for _, state in told):
                    raise translated(exceptions.ResponseError("CLUSTERDOWN"))
            else:  # a replica that is read-only answers a ping, but deletes nothing, not even what is not there
                await self.ask(("DEL", NOTHING))

    async def durability(self) -> Durability:
        """What an acknowledged write survives, as far as the store tells: on the weakest of its servers."""
        found = await self._settings(*_SYNCING)
        known = ["unknown" if values is None else _DURABLE.get((*values,), "none") for values in found]
        return min(known, key=_WEAKEST.index)

    async def eviction_ok(self) -> bool | None:
        """Whether the store keeps what it is given; None if it does not tell."""
        found = await self._settings("maxmemory", "maxmemory-policy")
        kept = [None if values is None else values[0] == "0" or values[1] == "noeviction" for values in found]
        return False if False in kept else None if None in kept else True

    async def subscriber(self, hear: Callable[[Any], None]) -> Line:
        """A separate connection for published messages; the caller ends it.

        ``hear`` is called with every message and reply, and with the error that ends the connection.
        """
        node = await self.topology.node(None)
        try:
            return await node.subscriber(hear)
        except (exceptions.RedisError, OSError) as error:
            self.topology.failed(error)
            raise translated(error) from error

    async def listeners(self, channels: Sequence[str]) -> list[int]:
        """How many connections have subscribed to each channel, at all servers; zeros if the store does not tell."""
        answers = await self._told(("PUBSUB", "NUMSUB", *channels)) if channels else None
        if answers is None:
            return [0] * len(channels)
        return [sum(counts) for counts in zip(*(answer[0][1::2] for answer in answers), strict=True)]

    async def everywhere(self, script: Script, *args: str) -> list[Any]:
        """The answers of all reachable servers in charge to a script without keys."""
        answers = await self._told(("SCRIPT", "LOAD", script.source), ("EVALSHA", script.sha, 0, *args))
        if answers is None:
            raise translated(exceptions.ResponseError("NOPERM"))
        return [answer for _, answer in answers]

    async def close(self) -> None:
        """Abandon the calls in flight and close every connection."""
        await self.topology.close()

    # ---------------------------------------------------------------- to the servers and back

    async def _spread(self, calls: Sequence[Call], way: "_Way") -> list[Any]:
        """Send each call to the server that has its key, and again to where that server says the key has moved."""
        results: list[Any] = [None] * len(calls)
        waiting: dict[int, tuple[Call, Node | None]] = {at: (call, None) for at, call in enumerate(calls)}
        for _ in range(HOPS_MAX):
            groups: dict[Node, dict[int, Call]] = {}
            for at, (call, moved_to) in waiting.items():
                try:
                    node = moved_to or await self.topology.node(call.keys[0] if call.keys else None)
                except StoreDown as error:
                    results[at] = error
                else:
                    groups.setdefault(node, {})[at] = call
            sent = [self._send(node, [*part.values()], way) for node, part in groups.items()]
            answers = [await sent[0]] if len(sent) == 1 else await asyncio.gather(*sent)
            waiting = {}
            for part, answered in zip(groups.values(), answers, strict=True):
                for (at, call), result in zip(part.items(), answered, strict=True):
                    results[at] = result
                    if isinstance(result, exceptions.AskError):  # or MovedError, which is one
                        asking = not isinstance(result, exceptions.MovedError)
                        waiting[at] = call._replace(asking=asking), self.topology.moved((result.host, result.port))
            if not waiting:
                break
        return results

    async def _send(self, node: Node, calls: Sequence[Call], way: "_Way", load: Iterable[Script] = ()) -> list[Any]:
        """Send one server's share; calls of scripts that it does not know are sent again with the scripts, ``load``."""
        commands: list[Command] = [("SCRIPT", "LOAD", script.source) for script in load] if load else []
        places: list[int] = []
        for script, keys, args, asking in calls:
            if asking:
                commands.append(("ASKING",))
            places.append(len(commands))
            commands.append((*args,) if script is None else ("EVALSHA", script.sha, len(keys), *keys, *args))
        safety = way.safety
        if safety is not None:
            commands.append(("WAIT", safety.replicas, safety.wait_ms))
        try:
            if way.large_bytes:
                results = await node.send_large(commands, way.large_bytes)
            else:
                results = await (node.send_quick if way.quick else node.send)(commands)
        except (exceptions.RedisError, OSError) as error:
            self.topology.failed(error)
            return [error] * len(calls)
        if len(commands) > len(calls):
            reached = safety is None or (isinstance(results[-1], int) and results[-1] >= safety.replicas)
            found = [results[at] for at in places]
            results = [one if reached or isinstance(one, Exception) else UnreplicatedResult(one) for one in found]
        lost: list[int] = []
        for at, result in enumerate(results):
            if isinstance(result, exceptions.NoScriptError):
                lost.append(at)
            elif isinstance(result, Exception) and (word := word_of(result)) in _ELSEWHERE:
                self.topology.failed(result)
                if word in _DEMOTED:
                    node.renew()
        if lost and not load:
            again = [calls[at] for at in lost]
            scripts = {call.script for call in again if call.script is not None}
            for at, result in zip(lost, await self._send(node, again, way, scripts), strict=True):
                results[at] = result
        return results

    async def _told(self, *commands: Command) -> list[list[Any]] | None:
        """The answers of each reachable server in charge to the same commands; None if they are denied, renamed or
        unknown.
        """
        nodes = await self.topology.nodes()
        found = await asyncio.gather(*(node.send(commands) for node in nodes), return_exceptions=True)
        answers = [answer for answer in found if not isinstance(answer, BaseException)]
        failures = [failure for failure in found if isinstance(failure, BaseException)]
        for failure in failures:
            self.topology.failed(failure)
        if not answers:
            raise translated(failures[0])
        reasons = sorted({str(unavailable(failure) or failure) for failure in failures})
        if reasons and reasons != self._reasons:
            logger.warning(
                "%d of %d servers of the store cannot be used: %s", len(failures), len(nodes), "; ".join(reasons)
            )
        self._reasons = reasons
        for part in chain.from_iterable(answers):
            if isinstance(part, Exception):
                meant = unavailable(part)
                if meant is None or word_of(part) == "NOPERM":
                    return None
                raise self._noted(meant)
        return answers

    async def _settings(self, *names: str) -> list[list[str] | None]:
        """Values of settings per server; None if the store does not tell."""
        answers = await self._told(*[("CONFIG", "GET", name) for name in names])
        if answers is None:
            return [None]
        return [[part[1].decode() for part in answer] if all(answer) else None for answer in answers]


def _keys(command: Command) -> Sequence[str]:
    """The key that decides where a plain command goes, if it has one."""
    at = command.index("STREAMS") + 1 if command[0] == "XREAD" else 1
    return [str(word) for word in command[at : at + 1]]
