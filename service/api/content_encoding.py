"""Bodies that come compressed (``Content-Encoding: gzip``), unpacked piece by piece up to the limit of bodies.

What a body unpacks to is known only by unpacking it: a bomb is refused as soon as it is over the limit, of which no
more than one piece is held beyond what is counted.
"""

import zlib
from collections.abc import Callable
from typing import cast

from core.problems import Problem
from service.errors import NotGzip, WrongEncoding
from service.runtime.threads import THREAD_BYTES, in_thread_if_large

GZIP = "gzip"
FIRST_BYTES = THREAD_BYTES
"""So much is unpacked where it stands, which takes less than a millisecond."""
PIECE_BYTES = 2**20
"""And so much at once in a thread."""
INPUT_BYTES = 16_384
"""Packed bytes that the decompressor is given at once; what it does not take is copied."""
MEMBERS_MAX = 1024
"""Most gzip files in one body, one behind the other; empty ones cost work and unpack to nothing."""


def is_gzip(coding: str) -> bool:
    """Whether a ``Content-Encoding`` says gzip; of no encoding at all, False.

    Raises:
        WrongEncoding: another encoding, or several.
    """
    kind = coding.strip().lower()
    if kind in ("", "identity"):
        return False
    if kind in (GZIP, "x-gzip"):
        return True
    problem = Problem("Content-Encoding", "is not an encoding that is read here", [GZIP])
    raise WrongEncoding("send the body as it is, or with Content-Encoding: gzip", [problem])


async def unpacked(packed: bytes, most: int, count: Callable[[int], None]) -> bytes:
    """A gzip body as it was before; one byte more than ``most`` where it is larger, and no further.

    Args:
        packed: the body.
        most: bytes that are of use.
        count: told how many bytes are held, packed and unpacked, as they become more.

    Raises:
        NotGzip: not gzip, damaged, or not whole.
    """
    source, whole, size = Gunzip(packed), bytearray(), FIRST_BYTES
    while not source.ended and len(whole) <= most:
        wanted = min(size, most + 1 - len(whole))
        whole += await in_thread_if_large(size, source.read, wanted)
        count(len(packed) + len(whole))
        size = PIECE_BYTES
    return cast("bytes", whole)  # what reads it takes both, and nobody writes to it


class Gunzip:
    """The content of gzip files that stand one behind the other, in pieces.

    Args:
        packed: the files.

    Attributes:
        ended: whether everything has been read.
    """

    def __init__(self, packed: bytes) -> None:
        self._packed, self._at = memoryview(packed), 0
        self._member, self._members = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16), 1
        self.ended = False

    def read(self, most: int) -> bytearray:
        """The next ``most`` bytes, at least one of them; fewer at the end.

        Raises:
            NotGzip: not gzip, damaged, or not whole.
        """
        found = bytearray()
        while len(found) < most and not self.ended:
            if self._member.eof:
                self._next_member()
            else:
                found += self._some(most - len(found))
        return found

    def _some(self, most: int) -> bytes:
        given = self._packed[self._at : self._at + INPUT_BYTES]
        try:
            found = self._member.decompress(given, most)
        except zlib.error:
            raise NotGzip(f"the body is not gzip, or damaged (behind byte {self._at})") from None
        left = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        self._at += len(given) - len(left)
        if not (given or found or self._member.eof):
            raise NotGzip("the body is not whole: its gzip data end too early")
        return found

    def _next_member(self) -> None:
        """Begin another file, or end; zeros that fill up a block may stand behind the last one."""
        rest = self._packed[self._at :]
        if not rest or (rest[0] == 0 and not bytes(rest).strip(b"\0")):
            self.ended = True
        elif self._members == MEMBERS_MAX:
            raise NotGzip(f"the body holds more than {MEMBERS_MAX} gzip files")
        else:
            self._member, self._members = zlib.decompressobj(wbits=zlib.MAX_WBITS + 16), self._members + 1
