"""Log entries as the server returns them; codec.py decodes their segments."""

from dataclasses import dataclass
from typing import Any, Literal

Code = Literal["ok", "gone", "ahead", "fork", "trimmed", "fenced", "foreign"]


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An undecoded log entry; ``segments`` are (ordinal, blob, rows to skip), by ordinal."""

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
    """The reply of READ_AFTER to a replica at ``version``."""
    if answer[0] != b"ok":
        return ReadOn(answer[0].decode(), answer[1], answer[2].decode())
    try:
        found = entries(answer[4], version)
    except (KeyError, ValueError):
        return ReadOn("foreign", answer[1], answer[2].decode())
    return ReadOn("ok", answer[1], answer[2].decode(), found, bool(answer[3]) and len(found) == len(answer[4]))


def entries(found: list[Any], after: int) -> tuple[RawEntry, ...]:
    """The entries up to the first gap; reading on from there reports that the log is trimmed."""
    read: list[RawEntry] = []
    for item in found:
        each = raw_entry(item)
        if each.version != after + 1 + len(read):
            break
        read.append(each)
    return tuple(read)


def raw_entry(item: list[Any]) -> RawEntry:
    """One entry of a stream's reply."""
    entry_id, flat = item
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    version = int(entry_id.partition(b"-")[0])
    uid, previous = fields[b"u"].decode(), fields[b"p"].decode()
    ordinals = sorted(int(field) for field in fields if field.isdigit())
    segments = tuple((k, fields[b"%d" % k], _skipped(fields.get(b"%ds" % k, b""))) for k in ordinals)
    return RawEntry(version, uid, previous, int(fields[b"t"]), int(fields[b"n"]), segments)


def _skipped(skip: bytes) -> tuple[int, ...]:
    return tuple(map(int, skip.split(b","))) if skip else ()
