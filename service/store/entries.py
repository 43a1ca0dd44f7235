"""Entries as they lie in a log, and what reading on answers; from the server's replies."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Code = Literal["ok", "gone", "ahead", "fork", "trimmed", "fenced", "foreign"]


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry as it lies in the log; ``segments`` are (ordinal, blob, rows to skip), by ordinal."""

    version: int
    uid: str
    previous: str
    time_ms: int
    count: int
    segments: tuple[tuple[int, bytes, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class ReadOn:
    """Entries after a version, and whether they reach the head."""

    code: Code
    head: int
    head_uid: str
    entries: tuple[RawEntry, ...] = ()
    complete: bool = True


def read_on(answer: list[Any], version: int) -> ReadOn:
    """The reply of READ_AFTER to who stands at ``version``."""
    if answer[0] != b"ok":
        return ReadOn(answer[0].decode(), answer[1], answer[2].decode())
    try:
        found = entries(answer[4], version)
    except (KeyError, ValueError):
        return ReadOn("foreign", answer[1], answer[2].decode())
    return ReadOn("ok", answer[1], answer[2].decode(), found, bool(answer[3]) and len(found) == len(answer[4]))


def entries(found: list[Any], after: int) -> tuple[RawEntry, ...]:
    """The entries up to the first gap: whoever reads on from there is told that the log is trimmed."""
    return tuple(_unbroken(map(entry, found), after + 1))


def _unbroken(entries: Iterator[RawEntry], version: int) -> Iterator[RawEntry]:
    for each in entries:
        if each.version != version:
            return
        yield each
        version += 1


def entry(item: list[Any]) -> RawEntry:
    """One entry of a stream's reply."""
    entry_id, flat = item
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    version = int(entry_id.partition(b"-")[0])
    uid, previous = fields[b"u"].decode(), fields[b"p"].decode()
    ordinals = sorted(int(field) for field in fields if field.isdigit())
    segments = tuple((k, fields[b"%d" % k], _rows(fields.get(b"%ds" % k, b""))) for k in ordinals)
    return RawEntry(version, uid, previous, int(fields[b"t"]), int(fields[b"n"]), segments)


def _rows(skip: bytes) -> tuple[int, ...]:
    return tuple(map(int, skip.split(b","))) if skip else ()
