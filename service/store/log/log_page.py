"""The entries of a log that are still kept, newest first, as a list shows them.

A script on the server looks at the first fields of each record (codec.py), so rows are neither sent nor decoded.

    kinds    rows | overlap | switch begin | switch complete | switch abort | reset | configure | restore | import |
             challenger put | challenger delete | challenger promote, those of one entry in the order of its
             requests, each once; "unknown" if a record cannot be read
"""

from typing import NamedTuple

from service.store.keys import ModelKeys
from service.store.lua import script
from service.store.redis.connection import Call, Connection

ENTRIES_AT_ONCE = 250  # most entries of one script
BYTES_AT_ONCE = 4 * 2**20  # a script stops once it has looked at more bytes of entries than this

_PAGE = script("page_log")


class LoggedEntry(NamedTuple):
    """An entry of a log."""

    version: int
    time_ms: int
    kinds: tuple[str, ...]  # of its requests, each kind once
    rows: int | None  # rows to learn in it; None if it holds none
    writer: str  # the process that committed it


async def read_back(connection: Connection, name: str, incarnation: str, newest: int, limit: int) -> list[LoggedEntry]:
    """Up to ``limit`` kept entries from version ``newest`` down; none if the model is gone.

    ``StoreDown`` if the store did not answer, or answered that it cannot.
    """
    keys = ModelKeys(name, incarnation)
    found: list[LoggedEntry] = []
    while len(found) < limit and newest > 0:
        args = (incarnation, newest, min(limit - len(found), ENTRIES_AT_ONCE), BYTES_AT_ONCE)
        part = await connection.one(Call(_PAGE, (keys.meta, keys.log, keys.states), args))
        if part is None:
            return []
        found += [_entry(*item) for item in part[0]]
        if part[1] or not part[0]:
            break
        newest = found[-1].version - 1
    return found


def _entry(version: bytes, time_ms: bytes, uid: bytes, kinds: list[bytes], rows: int | None) -> LoggedEntry:
    names = tuple([kind.decode() for kind in kinds])
    return LoggedEntry(int(version), int(time_ms), names, rows, uid.decode().partition(".")[0])
