"""What the scripts in Python work on: the keys of a server, requests of appends, records of ids."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Args = list[bytes]
Entry = tuple[int, list[bytes]]
RECORD = re.compile(rb"(\d+):(\d+):(\d+):([^:]*):(.*)", re.DOTALL)


@dataclass
class Data:
    """Keys of all kinds; ``history`` has every entry that was not cut off, trimmed or not."""

    hashes: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    scores: dict[str, dict[bytes, float]] = field(default_factory=dict)
    logs: dict[str, dict[int, list[bytes]]] = field(default_factory=dict)
    history: dict[str, dict[int, list[bytes]]] = field(default_factory=dict)

    def copy(self) -> "Data":
        """As it is now; entries are never changed once they are there."""
        parts = (self.hashes, self.scores, self.logs, self.history)
        return Data(*({key: dict(held) for key, held in part.items()} for part in parts))

    def unlink(self, key: str) -> None:
        """Forget a key."""
        for part in (self.hashes, self.scores, self.logs):
            part.pop(key, None)


@dataclass
class Joined:
    """A reader that joins its log: the head, its uid, where the reader stands."""

    head: int
    uid: bytes
    v0: int
    log: dict[int, list[bytes]]

    def read(self, last: int, limit: int, most: int) -> tuple[list[Any], int, int]:
        """Entries after v0 up to ``last``, whether these are all, the size of the first if it alone is too large."""
        out: list[Any] = []
        for version in range(self.v0 + 1, last + 1):
            if version not in self.log:
                return out, 0, 0
            size = sum(map(len, self.log[version]))
            if size > limit or len(out) >= most:
                return out, 0, 0 if out else size
            limit -= size
            out.append([b"%d-0" % version, self.log[version]])
        return out, 1, 0


@dataclass
class Request:
    writer: bytes
    sequence: int
    new_uid: bytes
    ttl_ms: int
    cap: int
    max_bytes: int
    state_version: bytes
    segments: list[tuple[bytes, bytes, bytes, list[bytes], list[bytes]]]
    summary: bytes

    @classmethod
    def parse(cls, args: Args) -> "Request":
        segments, at = [], 11
        for _ in range(int(args[10])):
            n = int(args[at + 3])
            ids, digests = args[at + 4 : at + 4 + n], args[at + 4 + n : at + 4 + 2 * n]
            segments.append((*args[at : at + 3], ids, digests))
            at += 4 + 2 * n
        numbers = (int(args[4]), args[5], int(args[6]), int(args[7]), int(args[8]), args[9])
        return cls(args[3], *numbers, segments, args[at])


def digest_clashes(
    known: dict[bytes, bytes | None], ids: Sequence[bytes], digests: Sequence[bytes], made: int, k: int
) -> list[Any]:
    """Rows whose id is known, or stands further up, with another digest."""
    above: dict[bytes, bytes] = {}
    found: list[Any] = []
    for row, (i, digest) in enumerate(zip(ids, digests, strict=True)):
        record = known[i] or above.get(i)
        if record is None:
            above[i] = seen_record(made, k, row) + digest + b":"
        elif record.split(b":", 4)[3] != digest:
            found += [row, record]
    return found


def seen_record(version: int, k: int, row: int) -> bytes:
    return b"%d:%d:%d:" % (version, k, row)


def fields_of(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def state_key_of(states_key: str, digest: bytes) -> str:
    return f"{states_key[:-1]}:{digest.decode()}"


def rows_of(skip: bytes) -> list[int]:
    return [*map(int, skip.split(b","))] if skip else []


def channel_of(meta_key: str) -> str:
    return meta_key.removesuffix("meta") + "hints"


def as_bytes(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


def is_above(member: bytes, low: bytes) -> bool:
    """Whether a member satisfies the lower bound of ZRANGEBYLEX."""
    return low == b"-" or (member > low[1:] if low[:1] == b"(" else member >= low[1:])
