"""A store in memory that runs the service's own Lua: Redis's data as dicts, and the commands that the service uses.

Keys never expire. Replies are what the service's connection returns.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lupa.lua51 import LuaRuntime, lua_type

from service.store.redis.connection import Call, Script

EntryId = tuple[int, int]
SETTINGS = {b"appendonly": b"yes", b"appendfsync": b"always", b"maxmemory": b"0"}
ENDS = {b"-": (0, 0), b"+": (2**64, 0)}


@dataclass
class Data:
    """Keys by kind; a string is a hash with one field, and an entry's fields alternate between names and values.

    ``history``: every entry of a log by its version, even if trimmed, unless the store has lost it.
    """

    hashes: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    scores: dict[str, dict[bytes, float]] = field(default_factory=dict)
    logs: dict[str, dict[EntryId, list[bytes]]] = field(default_factory=dict)
    history: dict[str, dict[int, list[bytes]]] = field(default_factory=dict)
    expiring: set[str] = field(default_factory=set)

    def copy(self) -> "Data":
        """A copy of the current data; entries never change after they are written."""
        parts = (self.hashes, self.scores, self.logs, self.history)
        return Data(*({key: dict(held) for key, held in part.items()} for part in parts), {*self.expiring})


class LuaStore:
    """One server; ``publish`` receives each message, ``listening`` tells the number of subscribers of a channel."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        publish: Callable[[str, bytes], None] = lambda *_: None,
        listening: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.data = Data()
        self._now_ms, self._send, self._listening = now_ms, publish, listening

    def call(self, call: Call) -> Any:
        """Run a script or a plain command."""
        if call.script is None:
            return self.command(call.args)
        _current.append(self)
        try:
            keys, args = (_table([*map(_as_bytes, part)]) for part in (call.keys, call.args))
            return _reply(_compiled(call.script)(keys, args))
        finally:
            _current.pop()

    def command(self, words: Sequence[Any]) -> Any:
        """Run a command; ``AttributeError``: one that the service does not use."""
        name, *rest = (_as_bytes(word) for word in words)
        key = rest[0].decode() if rest else ""
        reply = getattr(self, f"_{name.decode().lower()}")(key, *rest[1:])
        for part in (self.data.hashes, self.data.scores):  # an empty stream stays
            if key in part and not part[key]:
                del part[key]
        if key in self.data.expiring and not self._exists(key):
            self.data.expiring.discard(key)
        return reply

    # ---------------------------------------------------------------- the server and its keys

    def _ping(self, _: str) -> bytes:
        return b"PONG"

    def _config(self, _: str, name: bytes) -> list[bytes]:
        return [name, SETTINGS.get(name, b"x")]

    def _time(self, _: str) -> list[bytes]:
        now = self._now_ms()
        return [b"%d" % (now // 1000), b"%d" % (now % 1000 * 1000)]

    def _publish(self, channel: str, text: bytes) -> int:
        self._send(channel, text)
        return 0

    def _pubsub(self, _: str, channel: bytes) -> list[Any]:
        return [channel, self._listening(channel.decode())]

    def _exists(self, key: str) -> int:
        return int(any(key in part for part in (self.data.hashes, self.data.scores, self.data.logs)))

    def _unlink(self, *keys: Any) -> int:
        names = [key if isinstance(key, str) else key.decode() for key in keys]
        found = sum(map(self._exists, names))
        for name in names:
            for part in (self.data.hashes, self.data.scores, self.data.logs):
                part.pop(name, None)
            self.data.expiring.discard(name)
        return found

    _del = _unlink

    def _pexpire(self, key: str, _: bytes) -> int:
        if self._exists(key):
            self.data.expiring.add(key)
        return self._exists(key)

    def _persist(self, key: str) -> int:
        found = key in self.data.expiring
        self.data.expiring.discard(key)
        return int(found)

    def _pttl(self, key: str) -> int:
        return (1000 if key in self.data.expiring else -1) if self._exists(key) else -2

    def _set(self, key: str, value: bytes, *options: bytes) -> bytes | None:
        if b"NX" in options and self._exists(key):
            return None
        self.data.hashes[key] = {b"": value}
        return b"OK"

    def _get(self, key: str) -> bytes | None:
        return self._hget(key, b"")

    # ---------------------------------------------------------------- hashes

    def _hash(self, key: str) -> dict[bytes, bytes]:
        return self.data.hashes.get(key, {})

    def _hset(self, key: str, *flat: bytes) -> int:
        held = self.data.hashes.setdefault(key, {})
        before = len(held)
        held.update(zip(flat[::2], flat[1::2], strict=True))
        return len(held) - before

    def _hincrby(self, key: str, name: bytes, by: bytes) -> int:
        found = int(self._hash(key).get(name, b"0")) + int(by)
        self._hset(key, name, b"%d" % found)
        return found

    def _hdel(self, key: str, *names: bytes) -> int:
        return sum(self._hash(key).pop(name, None) is not None for name in names)

    def _hget(self, key: str, name: bytes) -> bytes | None:
        return self._hash(key).get(name)

    def _hmget(self, key: str, *names: bytes) -> list[bytes | None]:
        return [*map(self._hash(key).get, names)]

    def _hgetall(self, key: str) -> list[bytes]:
        return [part for pair in self._hash(key).items() for part in pair]

    def _hkeys(self, key: str) -> list[bytes]:
        return [*self._hash(key)]

    def _hvals(self, key: str) -> list[bytes]:
        return [*self._hash(key).values()]

    def _hlen(self, key: str) -> int:
        return len(self._hash(key))

    def _hexists(self, key: str, name: bytes) -> int:
        return int(name in self._hash(key))

    def _hstrlen(self, key: str, name: bytes) -> int:
        return len(self._hash(key).get(name, b""))

    # ---------------------------------------------------------------- sorted sets

    def _ranked(self, key: str, low: bytes = b"-inf", high: bytes = b"+inf") -> list[tuple[float, bytes]]:
        within = [
            (score, member)
            for member, score in self.data.scores.get(key, {}).items()
            if _above(score, low) and _above(-score, _negated(high))
        ]
        return sorted(within)

    def _zadd(self, key: str, *flat: bytes) -> int:
        if flat[0] == b"XX":  # only what is there, which the scripts ask of nothing
            return 0
        held = self.data.scores.setdefault(key, {})
        before = len(held)
        held.update({member: float(score) for score, member in zip(flat[::2], flat[1::2], strict=True)})
        return len(held) - before

    def _zrem(self, key: str, *members: bytes) -> int:
        held = self.data.scores.get(key, {})
        return sum(held.pop(member, None) is not None for member in members)

    def _zscore(self, key: str, member: bytes) -> bytes | None:
        score = self.data.scores.get(key, {}).get(member)
        return None if score is None else b"%d" % score

    def _zmscore(self, key: str, *members: bytes) -> list[bytes | None]:
        return [self._zscore(key, member) for member in members]

    def _zcard(self, key: str) -> int:
        return len(self.data.scores.get(key, {}))

    def _zcount(self, key: str, low: bytes, high: bytes) -> int:
        return len(self._ranked(key, low, high))

    def _zrangebyscore(self, key: str, low: bytes, high: bytes, *options: bytes) -> list[bytes]:
        found = self._ranked(key, low, high)
        if b"LIMIT" in options:
            offset, count = map(int, options[options.index(b"LIMIT") + 1 :][:2])
            found = found[offset : offset + count]
        with_scores = b"WITHSCORES" in options
        return [part for score, member in found for part in ((member, b"%d" % score) if with_scores else (member,))]

    def _zremrangebyscore(self, key: str, low: bytes, high: bytes) -> int:
        return self._zrem(key, *(member for _, member in self._ranked(key, low, high)))

    def _zpopmin(self, key: str, count: bytes) -> list[bytes]:
        found = self._ranked(key)[: int(count)]
        self._zrem(key, *(member for _, member in found))
        return [part for score, member in found for part in (member, b"%d" % score)]

    def _zrangebylex(self, key: str, low: bytes, _: bytes, *limit: bytes) -> list[bytes]:
        members = sorted(self.data.scores.get(key, {}))
        above = [one for one in members if low == b"-" or one > low[1:] or (low[:1] == b"[" and one == low[1:])]
        return above[: int(limit[-1])]

    # ---------------------------------------------------------------- streams

    def _xadd(self, key: str, *words: bytes) -> bytes:
        capped = words[0] == b"MAXLEN"
        identity, *fields = words[3:] if capped else words
        log, at = self.data.logs.setdefault(key, {}), _entry_id(identity)
        assert at > max(log, default=(0, 0)), "the id is not larger than the last one"
        log[at] = fields
        if not at[1]:
            self.data.history.setdefault(key, {})[at[0]] = fields
        for oldest in sorted(log)[: max(0, len(log) - int(words[2]))] if capped else ():
            del log[oldest]
        return identity

    def _xrange(self, key: str, low: bytes, high: bytes, *count: bytes) -> list[Any]:
        log = self.data.logs.get(key, {})
        begin, end = _entry_id(low), _entry_id(high)
        alone = begin == end  # the most frequent query, on the longest logs
        found = [begin] * (begin in log) if alone else sorted(at for at in log if begin <= at <= end)
        return [[b"%d-%d" % at, log[at]] for at in (found[: int(count[1])] if count else found)]

    def _xrevrange(self, key: str, high: bytes, low: bytes, *count: bytes) -> list[Any]:
        found = self._xrange(key, low, high)[::-1]
        return found[: int(count[1])] if count else found

    def _xlen(self, key: str) -> int:
        return len(self.data.logs.get(key, {}))

    def _xtrim(self, key: str, _: bytes, least: bytes) -> int:
        log = self.data.logs.get(key, {})
        old = [at for at in log if at < _entry_id(least)]
        for at in old:
            del log[at]
        return len(old)


def _entry_id(text: bytes) -> EntryId:
    if text in ENDS:
        return ENDS[text]
    left, _, right = text.partition(b"-")
    return int(left), int(right or b"0")


def _above(score: float, low: bytes) -> bool:
    return score > float(low[1:]) if low[:1] == b"(" else score >= float(low)


def _negated(bound: bytes) -> bytes:
    exclusive, number = (b"(", bound[1:]) if bound[:1] == b"(" else (b"", bound)
    return exclusive + str(-float(number)).encode()


def _as_bytes(word: Any) -> bytes:
    if isinstance(word, bytes):
        return word
    whole = isinstance(word, float) and word.is_integer()
    return str(int(word) if whole else word).encode()


# ---------------------------------------------------------------- Lua

_lua = LuaRuntime(encoding=None)
_current: list[LuaStore] = []


def _run(*words: Any) -> Any:
    """The function behind redis.call."""
    return _value(_current[-1].command(words))


def _table(values: Sequence[Any]) -> Any:
    return _lua.table_from([_value(value) for value in values])


def _value(reply: Any) -> Any:
    """Convert a reply for a script."""
    if reply is None:
        return False
    return _table(reply) if isinstance(reply, list) else reply


def _reply(value: Any) -> Any:
    """Convert a script's result for the client: a table ends at its first nil, numbers lose their fraction."""
    if lua_type(value) == "table":
        parts = iter(value[at] for at in itertools.count(1))
        return [*map(_reply, itertools.takewhile(lambda part: part is not None, parts))]
    if isinstance(value, bool):
        return 1 if value else None
    return int(value) if isinstance(value, float) else value


@functools.cache
def _compiled(script: Script) -> Any:
    return _lua.eval(b"function(KEYS, ARGV) " + script.source.encode() + b"\nend")


_lua.globals()[b"redis"] = _lua.table_from({b"call": _run, b"pcall": _run})
