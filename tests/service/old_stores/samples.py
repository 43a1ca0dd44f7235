"""Samples as files: the keys of a store, and beside them what the code that wrote it answered.

NAME.msgpack.gz     a ``Sample``; NAME is the format of its states, and what is special about it
"""

import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from service.store.redis.connection import Connection

FOLDER = Path(__file__).parent
SUFFIX = ".msgpack.xz"
TIMEOUT_S = 10.0
SCAN = 1000
READ = {
    b"string": ("GET", "{}"),
    b"hash": ("HGETALL", "{}"),
    b"zset": ("ZRANGE", "{}", "0", "-1", "WITHSCORES"),
    b"stream": ("XRANGE", "{}", "-", "+"),
}
"""What shows all that is in a key, by its type."""


class Told(msgspec.Struct):
    """What the code of a sample said of one model, last of all.

    Attributes:
        model, features, pending, snapshots: its documents.
        drift: its events.
        predictions: of the story's probes.
        asked: some of the requests that it had learned with an id, as path and body, and their answers.
        tracked: predictions that wait for their label.
        state: what it exported.
    """

    model: dict[str, Any]
    features: dict[str, Any]
    pending: list[dict[str, Any]]
    snapshots: list[dict[str, Any]]
    drift: list[dict[str, Any]]
    predictions: list[dict[str, Any]]
    asked: list[tuple[str, dict[str, Any], dict[str, Any]]]
    tracked: list[dict[str, Any]]
    state: bytes


class Sample(msgspec.Struct):
    """A store.

    Attributes:
        format: of its states.
        commit: of the code that wrote it.
        models: what this said of each, by its name.
        backup: what it gave as a backup; None: it made none.
        keys: name, type, and what ``READ`` shows.
    """

    format: int
    commit: str
    models: dict[str, Told]
    backup: bytes | None
    keys: list[tuple[bytes, bytes, Any]]

    @classmethod
    def read(cls, name: str) -> Self:
        """One of the files."""
        return msgspec.msgpack.decode(lzma.decompress(path(name).read_bytes()), type=cls)

    def write(self, name: str) -> None:
        """Make the file; equal samples give equal bytes."""
        path(name).write_bytes(lzma.compress(msgspec.msgpack.encode(self), preset=lzma.PRESET_EXTREME | 9))

    async def fill(self, url: str) -> None:
        """Write the keys into an empty store."""
        connection = Connection(url, TIMEOUT_S)
        try:
            assert [0] == await connection.ask(("DBSIZE",))
            await connection.ask(*(command for key in self.keys for command in _written(*key)))
        finally:
            await connection.close()


def path(name: str) -> Path:
    """Where a sample is."""
    return FOLDER / f"{name}{SUFFIX}"


def names() -> list[str]:
    """The samples that there are, by format."""
    found = [file.name.removesuffix(SUFFIX) for file in FOLDER.glob(f"*{SUFFIX}")]
    return sorted(found, key=lambda name: (int(name.partition("-")[0]), name))


async def dump(url: str) -> list[tuple[bytes, bytes, Any]]:
    """The keys of a store but those that expire, which nobody would find a day later."""
    connection = Connection(url, TIMEOUT_S)
    try:
        (_, keys), *_ = await connection.ask(("SCAN", "0", "COUNT", str(SCAN)))
        assert len(keys) < SCAN / 2, "the sample is too large for one SCAN"
        found = []
        for key in sorted(keys):
            kind, lasts = await connection.ask(("TYPE", key), ("PTTL", key))
            kind = kind if isinstance(kind, bytes) else kind.encode()
            if lasts == -1:
                command = [key if part == "{}" else part for part in READ[kind]]
                found.append((key, kind, *await connection.ask(tuple(command))))
        return found
    finally:
        await connection.close()


def _written(key: bytes, kind: bytes, content: Any) -> list[tuple[Any, ...]]:
    """The commands that make a key."""
    if kind == b"string":
        return [("SET", key, content)]
    if kind == b"hash":
        return [("HSET", key, *_flat(content))]
    if kind == b"zset":
        pairs: Sequence[Any] = _flat(content)
        return [("ZADD", key, *(part for at in range(0, len(pairs), 2) for part in (pairs[at + 1], pairs[at])))]
    return [("XADD", key, entry, *_flat(fields)) for entry, fields in content]


def _flat(content: Any) -> list[Any]:
    """Fields and values in turn, however the client has read them."""
    if isinstance(content, dict):
        return [part for pair in content.items() for part in pair]
    return [part for each in content for part in (each if isinstance(each, list | tuple) else [each])]
