"""What a store holds, by kind of key: how many keys, how many entries in them, and the bytes they take."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import redis

COUNTS = {b"stream": "XLEN", b"hash": "HLEN", b"zset": "ZCARD"}
"""How the entries of a key are counted; any other key has one."""
SAMPLES = 20
"""Entries of a key by which MEMORY USAGE judges all of them."""
PAGE = 1000


class Held(NamedTuple):
    """Keys of one kind: how many, the entries in all and in the largest, the bytes (of large ones an estimate)."""

    keys: int = 0
    entries: int = 0
    most: int = 0
    bytes: int = 0


def kind(key: str) -> str:
    """The kind of a key, as service/store/keys.py draws it: of a model's key the part behind name and incarnation."""
    head, _, rest = key.partition("}:")
    if not rest or (head.startswith("onepass:{onepass:") and ":" not in rest):
        return key
    return rest if ":" not in rest else rest.split(":")[2 if head == "onepass:{onepass:drift" else 1]


def held(store: redis.Redis) -> Mapping[str, Held]:
    """All kinds that a store has."""
    found: defaultdict[str, Held] = defaultdict(Held)
    keys = [*store.scan_iter("onepass:*", count=PAGE)]
    for at in range(0, len(keys), PAGE):
        page = keys[at : at + PAGE]
        types = _each(store, [("TYPE", key) for key in page])
        counts = [(COUNTS[of], key) if of in COUNTS else ("EXISTS", key) for of, key in zip(types, page, strict=True)]
        sizes = _each(store, [("MEMORY", "USAGE", key, "SAMPLES", SAMPLES) for key in page])
        for key, count, size in zip(page, _each(store, counts), sizes, strict=True):
            name = kind(key.decode())
            keys_before, entries, most, taken = found[name]
            found[name] = Held(keys_before + 1, entries + count, max(most, count), taken + (size or 0))
    return found


def _each(store: redis.Redis, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The answers to commands in one round trip."""
    pipeline = store.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)
    return list(pipeline.execute())
