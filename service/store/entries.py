"""Log entries as the server returns them; codec.py decodes their segments.

A large segment is not part of its entry. It is written in pieces before (states.py), and the entry holds its name,

    ["named", 1, digest, size]

so that no command of the store is large or slow.
"""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from core.contract import Buffer
from core.machine import STATE_VERSION

Code = Literal["ok", "gone", "ahead", "fork", "trimmed", "fenced", "newer", "foreign"]
FIRST_STATE_VERSION = 3
"""The state version of code that did not write its version into its entries."""
NEWER = "its log was written by a newer version of Onepass; update this replica"
"""Why a model is out of service on a replica that meets the code "newer"."""


_encoder = msgspec.msgpack.Encoder()
_names = msgspec.msgpack.Decoder(tuple[Literal["named"], Literal[1], str, int])
_NAMED = _encoder.encode(("named", 1, "", 0))[:8]
"""What every name begins with: array, text, the record's version."""


def name(digest: str, size: int) -> bytes:
    """The name of a segment of ``size`` bytes that is kept in pieces."""
    return _encoder.encode(("named", 1, digest, size))


def name_of(blob: Buffer) -> tuple[str, int] | None:
    """Digest and size of the segment that ``blob`` names; None where it is a segment itself.

    Raises:
        ValueError: corrupt.
    """
    if blob[:8] != _NAMED:
        return None
    try:
        return _names.decode(blob)[2:]
    except msgspec.MsgspecError as error:
        raise ValueError(f"the name of a segment is corrupt: {error}") from error


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An undecoded log entry; ``segments`` are (ordinal, blob, rows to skip), by ordinal.

    ``state`` is the state version of the code that wrote it; older code does not apply it.
    """

    version: int
    uid: str
    previous: str
    time_ms: int
    count: int
    segments: tuple[tuple[int, Buffer, tuple[int, ...]], ...]
    state: int = FIRST_STATE_VERSION

    @property
    def size(self) -> int:
        """Bytes of its segments, of those as well that it only names."""
        return sum([len(blob) if (named := name_of(blob)) is None else named[1] for _, blob, _ in self.segments])


@dataclass(frozen=True, slots=True)
class ReadOn:
    """Entries after a version, and whether they reach the head.

    Attributes:
        code: "newer": the next entry was written by a newer version of the code, and is not to be applied by this one.
        head, head_uid: the log's last entry.
        entries: those after the version, up to the first that is newer than this code.
        complete: whether these are all.
        left_bytes: the size of the next entry where it alone exceeds the bytes asked for, and was not returned.
    """

    code: Code
    head: int
    head_uid: str
    entries: tuple[RawEntry, ...] = ()
    complete: bool = True
    left_bytes: int = 0


def read_on(answer: list[Any], version: int) -> ReadOn:
    """The reply of READ_AFTER to a replica at ``version``."""
    if answer[0] != b"ok":
        return ReadOn(answer[0].decode(), answer[1], answer[2].decode())
    head, head_uid, complete, items, left = answer[1], answer[2].decode(), answer[3], answer[4], answer[5]
    if items and _state(items[0]) > STATE_VERSION:
        return ReadOn("newer", head, head_uid)
    try:
        found = entries(items, version)
    except (KeyError, ValueError):
        return ReadOn("foreign", head, head_uid)
    return ReadOn("ok", head, head_uid, found, bool(complete) and len(found) == len(items), left)


def entries(found: list[Any], after: int) -> tuple[RawEntry, ...]:
    """The entries up to the first gap or newer state version; reading on from there reports which of the two it is."""
    read: list[RawEntry] = []
    for item in found:
        if _state(item) > STATE_VERSION:
            break
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
    return RawEntry(version, uid, previous, int(fields[b"t"]), int(fields[b"n"]), segments, _state(item))


def _state(item: list[Any]) -> int:
    """The state version of an entry, which is known before anything else of it can be read; 0: it is not ours."""
    fields = item[1]
    if fields[8:9] != [b"s"]:
        return FIRST_STATE_VERSION
    return int(fields[9]) if fields[9].isdigit() else 0


def _skipped(skip: bytes) -> tuple[int, ...]:
    return tuple(map(int, skip.split(b","))) if skip else ()
