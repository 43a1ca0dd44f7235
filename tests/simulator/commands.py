"""The few plain commands that the store uses, on the data of the Python twin; a string is a hash of one field."""

from collections.abc import Sequence
from typing import Any

from tests.simulator.script_parts import Args, Data, as_bytes, is_above

_SETTINGS = {b"appendonly": b"yes", b"appendfsync": b"always", b"maxmemory": b"0"}


def plain(data: Data, words: Sequence[Any]) -> Any:
    """What the client library would return for a command."""
    name, *rest = words
    args = [as_bytes(word) for word in rest[1:]]
    if name == "PING":
        return b"PONG"
    if name == "CONFIG":
        return [args[0], _SETTINGS.get(args[0], b"x")]
    if name in {"ZADD", "ZREM", "ZRANGEBYLEX"}:
        return _of_scores(data.scores.setdefault(rest[0], {}), name, args)
    if name == "UNLINK":
        found = int(rest[0] in data.hashes)
        data.unlink(rest[0])
        return found
    if name in {"SET", "HSET"}:
        return _written(data, name, rest[0], args)
    return _read(data.hashes.get(rest[0]), name, args)


def _of_scores(scores: dict[bytes, float], name: str, args: Args) -> Any:
    if name == "ZRANGEBYLEX":
        return [member for member in sorted(scores) if is_above(member, args[0])][: int(args[-1])]
    if name == "ZADD":
        scores[args[1]] = float(args[0])
    else:
        scores.pop(args[0], None)
    return 1


def _written(data: Data, name: str, key: str, args: Args) -> Any:
    held = data.hashes.get(key)
    if name == "HSET":
        fresh = int(args[0] not in (held or {}))
        data.hashes.setdefault(key, {})[args[0]] = args[1]
        return fresh
    if b"NX" in args and held is not None:
        return None
    data.hashes[key] = {b"": args[0]}
    return True


def _read(held: dict[bytes, bytes] | None, name: str, args: Args) -> Any:
    found = held or {}
    if name in {"EXISTS", "PEXPIRE"}:
        return int(held is not None)
    if name == "GET":
        return found.get(b"")
    if name == "HMGET":
        return [found.get(arg) for arg in args]
    if name == "HVALS":
        return [*found.values()]
    if name == "HGET":
        return found.get(args[0])
    if name == "HSTRLEN":
        return len(found.get(args[0], b""))
    raise NotImplementedError(name)
