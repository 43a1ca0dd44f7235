"""The container of a backup: sections of frames, each with a digest of all of its section up to there.

    backup      = section, section, ...          several where one that broke off was continued
    section     = MAGIC, frame, frame, ...       MAGIC ends with the version of the container
    frame       = kind (one letter), length of the payload (4 bytes, little endian), payload, digest
    digest      = blake2b-16 of the digest before (16 zeros at first), kind, length and payload

A frame that is changed, missing, or at another place is found by the digest of the next one at the latest. Nothing is
allocated for a length before the bytes have come.
"""

import struct
from hashlib import blake2b
from typing import NamedTuple

from core.contract import Buffer

MAGIC = b"onepass backup\n\x01"
"""No kind of frame begins like it."""
_HEAD = struct.Struct("<cI")
DIGEST_BYTES = 16
FRAME_BYTES = _HEAD.size + DIGEST_BYTES
"""What a frame takes beside its payload."""
SECTION = b""
"""Stands for the kind of a frame where a section begins."""
_FIRST = bytes(DIGEST_BYTES)


class Damaged(ValueError):
    """The bytes are not those of a backup, or not as they were written."""


class Frame(NamedTuple):
    """What was read: the beginning of a section, or a frame of it.

    Attributes:
        kind: one letter, or SECTION.
        payload: its bytes.
        end: of it in the backup, in bytes from the beginning.
    """

    kind: bytes
    payload: bytes
    end: int


def _digest(before: bytes, head: bytes, payload: Buffer) -> bytes:
    found = blake2b(before + head, digest_size=DIGEST_BYTES)
    found.update(payload)
    return found.digest()


class FrameWriter:
    """Writes one section."""

    def __init__(self) -> None:
        self._digest = _FIRST

    def frame(self, kind: bytes, payload: Buffer) -> bytes:
        """The next frame as bytes; MAGIC stands before the first one."""
        begin = MAGIC if self._digest == _FIRST else b""
        head = _HEAD.pack(kind, len(payload))
        self._digest = _digest(self._digest, head, payload)
        return b"".join((begin, head, payload, self._digest))


class FrameReader:
    """Reads a backup as its bytes come.

    Args:
        most: bytes that a payload may have.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._data = bytearray()
        self._at = self._end = 0
        self._digest: bytes | None = None

    @property
    def held(self) -> int:
        """Bytes that have come and not been read."""
        return len(self._data) - self._at

    def feed(self, data: Buffer) -> None:
        """Take in what comes next."""
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    @property
    def ready(self) -> int:
        """Bytes that ``next`` would read, or judge; 0 until more has come."""
        if self.held < _HEAD.size or self._data[self._at] == MAGIC[0]:
            return self.held
        size: int = _HEAD.unpack_from(self._data, self._at)[1]
        whole = FRAME_BYTES + size
        return whole if self.held >= whole else 0 if size <= self._most else self.held

    def next(self) -> Frame | None:
        """The next frame; None until more has come.

        Raises:
            Damaged: this is no frame, or not the one that was written.
        """
        if not self.held:
            return None
        if self._digest is None or self._data[self._at] == MAGIC[0]:
            return self._section()
        if self.held < _HEAD.size:
            return None
        kind, size = _HEAD.unpack_from(self._data, self._at)
        if not kind.isalpha() or size > self._most:
            raise Damaged(
                f"behind byte {self._end} there is no frame of a backup, or one of more than {self._most} bytes"
            )
        if self.held < FRAME_BYTES + size:
            return None
        head = bytes(self._taken(_HEAD.size))
        payload, told = bytes(self._taken(size)), self._taken(DIGEST_BYTES)
        self._digest = _digest(self._digest, head, payload)
        if self._digest != told:
            raise Damaged(f"the frame that ends at byte {self._end} has not the digest that it was written with")
        return Frame(kind, payload, self._end)

    def _section(self) -> Frame | None:
        begun = bytes(self._data[self._at : self._at + len(MAGIC)])
        if not MAGIC.startswith(begun):
            known = begun[:-1] == MAGIC[:-1]
            raise Damaged(
                f"it is of version {begun[-1]} of the container, this service reads {MAGIC[-1]}"
                if known
                else "it does not begin like a backup of Onepass"
                if self._digest is None
                else f"behind byte {self._end} there is no frame of a backup"
            )
        if len(begun) < len(MAGIC):
            return None
        self._taken(len(MAGIC))
        self._digest = _FIRST
        return Frame(SECTION, b"", self._end)

    def _taken(self, size: int) -> bytearray:
        found = self._data[self._at : self._at + size]
        self._at += size
        self._end += size
        return found
