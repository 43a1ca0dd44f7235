"""Large values in the store: bytes under one HASH, a field per piece, so that no command is large or slow.

Reading and writing raise StoreDown if the store did not answer, or answered that it cannot.
"""

import asyncio
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from core.contract import Buffer
from service.store.redis.connection import Connection

PIECE_BYTES = 2**19 - 64
"""A piece arrives in time over a slow link that others share. The store's allocator rounds up to the next quarter of a
power of two: with the store's own header, a piece stays just below one."""
UNUSED_MS = 3_600_000  # how long pieces that nothing refers to are kept; refreshed with every piece


def digest(blob: Buffer) -> str:
    """The digest by which a value is checked: blake2b-16, hexadecimal. Lets other threads run."""
    return blake2b(blob, digest_size=16).hexdigest()


def count(size: int) -> int:
    """Number of pieces of a value of ``size`` bytes; an empty value has one."""
    return max(1, -(-size // PIECE_BYTES))


def cut(blob: Buffer) -> Iterator[tuple[int, bytes]]:
    """The pieces with their numbers."""
    view = memoryview(blob)
    for number in range(count(len(view))):
        yield number, bytes(view[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])


async def scatter(connection: Connection, key: str, prefix: str, blob: Buffer) -> None:
    """Write a value piece by piece under a key that no script guards; it expires unless it is made permanent."""
    for number, piece in cut(blob):
        await connection.ask(("HSET", key, f"{prefix}{number}", piece), ("PEXPIRE", key, UNUSED_MS))


async def gather(connection: Connection, key: str, prefix: str, size: int, expected: str) -> memoryview | None:
    """Read a value of ``size`` bytes and an expected digest; None if a piece is missing or damaged.

    A field of the HASH is ``prefix`` and the number of the piece.
    """
    last = count(size) - 1
    (length,) = await connection.ask(("HSTRLEN", key, f"{prefix}{last}"))
    if length != size - last * PIECE_BYTES:  # nothing is allocated for a wrong size
        return None
    found = np.empty(size, dtype=np.uint8).data  # not a bytearray, which would be filled with zeros first
    for number in range(count(size)):
        (piece,) = await connection.ask(("HGET", key, f"{prefix}{number}"))
        place = found[number * PIECE_BYTES : (number + 1) * PIECE_BYTES]
        if piece is None or len(piece) != len(place):
            return None
        place[:] = piece
    return found.toreadonly() if await asyncio.to_thread(digest, found) == expected else None
