"""Log entries as the server returns them; codec.py decodes their segments.

A large segment is not part of its entry. It is written in pieces first (states.py), and the entry holds its name,

    ["named", 1, digest, size]

so that no command of the store is large or slow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from core.contract import Buffer
from core.model import STATE_VERSION

Code = Literal["ok", "gone", "ahead", "fork", "damaged", "trimmed", "fenced", "evicted", "other", "foreign"]
OTHER = (
    f"its log was written by a version of Onepass with a different state format; this one reads {STATE_VERSION} only"
)
"""Why a model is out of service on a replica that meets the code "other"."""


_encoder = msgspec.msgpack.Encoder()
_names = msgspec.msgpack.Decoder(tuple[Literal["named"], Literal[1], str, int])
_NAMED = _encoder.encode(("named", 1, "", 0))[:8]  # what every name begins with: array, text, the record's version
_HEAD = [b"u", b"p", b"t", b"n", b"s"]
_OURS = b"%d" % STATE_VERSION
_FIELDS = 10  # fields and values before those of the segments
_BARE = 4  # uid, time, state version and segment of an entry that comes without field names


def name(digest: str, size: int) -> bytes:
    """The name of a segment of ``size`` bytes that is kept in pieces."""
    return _encoder.encode(("named", 1, digest, size))


def name_of(blob: Buffer) -> tuple[str, int] | None:
    """Digest and size of the segment that ``blob`` names, None if ``blob`` is one; ``ValueError`` if it is corrupt."""
    if blob[:8] != _NAMED:
        return None
    try:
        return _names.decode(blob)[2:]
    except msgspec.MsgspecError as error:
        raise ValueError(f"the name of a segment is corrupt: {error}") from error


class RawEntry(msgspec.Struct, frozen=True, gc=False):
    """An undecoded log entry."""

    version: int
    uid: str
    time_ms: int
    segments: tuple[tuple[int, Buffer, tuple[int, ...]], ...]  # ordinal, blob, rows to skip; by ordinal

    @property
    def size(self) -> int:
        """Bytes of its segments, including those that the entry only names."""
        return sum([len(blob) if (named := name_of(blob)) is None else named[1] for _, blob, _ in self.segments])


@dataclass(frozen=True, slots=True)
class ReadOn:
    """Entries after a version, and whether they reach the head."""

    code: Code  # "other": the next entry was written by code of another state version, which this one does not apply
    head: int  # version of the log's last entry
    entries: tuple[RawEntry, ...] = ()  # those after the version, up to the first of another state version
    complete: bool = True  # whether these reach the head
    left_bytes: int = 0  # size of the next entry if it alone exceeds the requested bytes, and was not returned


def read_on(answer: list[Any], version: int) -> ReadOn:
    """The reply of READ_AFTER to a replica at ``version``."""
    if answer[0] != b"ok":
        return ReadOn(answer[0].decode(), answer[1])
    head, _, complete, items, left = answer[1:]
    if items and _state(items[0]) not in {0, STATE_VERSION}:
        return ReadOn("other", head)
    try:
        found = entries(items, version)
    except (IndexError, ValueError):
        return ReadOn("foreign", head)
    return ReadOn("ok", head, found, bool(complete) and len(found) == len(items), left)


def entries(found: list[Any], after: int) -> tuple[RawEntry, ...]:
    """The entries up to the first gap or other state version; reading on from there reports which of the two it is.

    Entries with one segment and nothing to skip come without field names (join.lua).
    """
    read: list[RawEntry] = []
    for version, item in enumerate(found, after + 1):
        if len(item) == _BARE and item[2] == _OURS:
            read.append(RawEntry(version, item[0].decode(), int(item[1]), ((0, item[3], ()),)))
            continue
        if _state(item) not in {0, STATE_VERSION}:
            break
        each = raw_entry(item)
        if each.version != version:
            break
        read.append(each)
    return tuple(read)


def _state(item: list[Any]) -> int:
    """The state version of an entry, which can be read even if nothing else of it can; 0: it is not ours."""
    field = [b"s", item[2]] if len(item) == _BARE else item[1][8:_FIELDS]
    return int(field[1]) if len(field) == 2 and field[0] == b"s" and field[1].isdigit() else 0


def raw_entry(item: list[Any]) -> RawEntry:
    """One entry of a stream's reply, with fields in the order in which they are written (log.py); ``ValueError`` if it
    is not ours.
    """
    if len(item) == _BARE or item[1][:_FIELDS:2] != _HEAD:
        raise ValueError("an entry has unexpected fields")
    entry_id, fields = item
    return RawEntry(int(entry_id[:-2]), fields[1].decode(), int(fields[5]), tuple(_segments(fields[_FIELDS:])))


def _segments(fields: list[bytes]) -> Iterator[tuple[int, Buffer, tuple[int, ...]]]:
    """The segments of an entry; each may be followed by the rows in it to skip."""
    at = 0
    while at < len(fields):
        ordinal = int(fields[at])
        skips = fields[at + 2 : at + 3] == [b"%ds" % ordinal]
        skipped = fields[at + 3] if skips else b""
        yield ordinal, fields[at + 1], tuple(map(int, skipped.split(b","))) if skipped else ()
        at += 4 if skips else 2
