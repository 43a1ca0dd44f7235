"""What a store has of a model beside its log and its snapshots, read page by page for a backup. Nothing is written."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from service.store.backup.parts import PAGE_ITEMS, Item
from service.store.drift import stored_event
from service.store.keys import DRIFT_MARKS, ModelKeys
from service.store.redis.connection import Call, Connection, Script
from service.store.scripts import BASICS

PAGE_BYTES = 2**20
"""Bytes of a page; its last item may exceed it."""

# KEYS a hash, when its fields are due; ARGV the due to begin at, how many of it have been read, the last due ('': that
# of the last field now), most items, bytes. What is past its time is left out. What is added meanwhile pushes nothing
# out of a later page: it comes twice. Nor is it followed for ever, since the last due is fixed by the first page.
_PAGE = Script(
    BASICS
    + """
local from, offset, last, bytes, out = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[5]), {}
if last == '' then last = call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or '0' end
if from <= now then from, offset = now + 1, 0 end
local low = string.format('%.0f', from)
local found = call('ZRANGEBYSCORE', KEYS[2], low, last, 'WITHSCORES', 'LIMIT', offset, ARGV[4])
for i = 1, #found, 2 do
  local value = call('HGET', KEYS[1], found[i])
  out[#out + 1] = {found[i], tonumber(found[i + 1]), value}
  bytes = bytes - #found[i] - (value and #value or 0)
  if bytes < 0 then break end
end
return {low, offset, last, out}
"""
)


class Kept(NamedTuple):
    """Fields of a model's meta that are neither in its state nor in its log.

    Attributes:
        origin: of a copy, where it is from; else empty.
        published: how far its drift events are in the service's stream, as ``parts.Standing`` has it.
    """

    origin: bytes
    published: str


async def pages(connection: Connection, hash_key: str, due_key: str) -> AsyncIterator[list[Item]]:
    """Everything that was there at the first page and has not expired meanwhile, by when it is due.

    Raises:
        StoreDown: the store did not answer, or answered that it cannot.
    """
    due, offset, last = 0, 0, b""
    while True:
        args = (due, offset, last, PAGE_ITEMS, PAGE_BYTES)
        began, skipped, last, found = await connection.one(Call(_PAGE, (hash_key, due_key), args))
        if not found:
            return
        if items := [(identity, when, value) for identity, when, value in found if value is not None]:
            yield items
        due = found[-1][1]
        offset = sum(when == due for _, when, _ in found) + (skipped if due == int(began) else 0)


async def kept(connection: Connection, name: str, incarnation: str) -> Kept:
    """What the meta has of a model, and the service's stream of drift events.

    Raises:
        StoreDown: as for ``pages``.
    """
    keys = ModelKeys(name, incarnation)
    field = keys.member()
    (origin,), (mark, joined) = await connection.ask(
        ("HMGET", keys.meta, "origin"), ("HMGET", DRIFT_MARKS, field, f"{field} joined")
    )
    known = mark is not None and mark != b"gone"
    count = joined.split(b" ")[0].decode() if joined else "0"
    return Kept(origin or b"", f"{mark.decode()} {count}" if known else "")


async def events(connection: Connection, key: str, alarms: str, most: int) -> AsyncIterator[list[Any]]:
    """The events of a model's stream up to a version, oldest first, each with its later alarms ("COUNT JSON").

    Args:
        connection: the store.
        key: of the stream.
        alarms: of the hash of later alarms.
        most: the version.

    Raises:
        StoreDown: as for ``pages``.
    """
    async for found in _stream(connection, key, most):
        (later,) = await connection.ask(("HMGET", alarms, *[entry_id for entry_id, _ in found]))
        yield [(stored_event(item), value or b"") for item, value in zip(found, later, strict=True)]


async def unlabelled(connection: Connection, key: str, most: int) -> AsyncIterator[list[Any]]:
    """The events of before the labels up to a version: (place, time by the store, time, JSON).

    Raises:
        StoreDown: as for ``pages``.
    """
    async for found in _stream(connection, key, most):
        yield [
            ((known.position[0], known.position[1]), int(dict(fields)[b"n"]), known.time_ms, known.body)
            for known, (_, fields) in ((stored_event(item), item) for item in found)
        ]


async def _stream(connection: Connection, key: str, most: int) -> AsyncIterator[list[Any]]:
    after = "-"
    while True:
        (found,) = await connection.ask(("XRANGE", key, after, f"{most}", "COUNT", PAGE_ITEMS))
        if not found:
            return
        yield found
        after = f"({found[-1][0].decode()}"
