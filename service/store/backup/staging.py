"""A model of a backup on its way into the store: its parts are written aside, then it is there, whole, by one script.

    {NAME} keys, and :restoring:TOKEN:PART behind the incarnation       expire unless the script renames them

TOKEN is random: two restores of one model do not meet, and one that dies leaves nothing behind. Everything is in the
slot of the model. The mark of its drift events is in another one; it is set before, unless the store has one.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import msgspec

from core.contract import Buffer
from service.store import pieces
from service.store.appends import failed
from service.store.backup.parts import PAGE_ITEMS, Item, Place
from service.store.keys import DRIFT_GONE, DRIFT_MARKS, INDEX, LABEL, ModelKeys, raw
from service.store.redis.connection import Call, Connection, Script
from service.store.scripts import BASICS
from service.store.snapshots import SnapshotInfo

LARGE_BYTES = 2**20
"""What carries more has more time than the store's timeout."""
Outcome = Literal["restored", "taken", "incomplete"]
PARTS = ("seen", "seen_due", "pending", "pending_due", "drift", "alarms", "unlabelled", "chunks")
"""What is written aside."""

# KEYS meta, deleted, snapshots, log, states, then of each part where it goes, then where it was written
# ARGV incarnation, version, uid, config, created, updated, expired, origin, state version, info, summary,
#      bytes of the state, its digest, number of its pieces, then how much each of the first seven parts has
_RESTORE = Script(
    BASICS
    + """
if call('EXISTS', KEYS[1]) == 1 then return 'taken' end
local count = (#KEYS - 5) / 2
local sizes = {'HLEN', 'ZCARD', 'HLEN', 'ZCARD', 'XLEN', 'HLEN', 'XLEN'}
for i = 1, count - 1 do
  if call(sizes[i], KEYS[5 + count + i]) ~= tonumber(ARGV[14 + i]) then return 'incomplete' end
end
local chunks, size = KEYS[5 + 2 * count], 0
for i = 0, tonumber(ARGV[14]) - 1 do size = size + call('HSTRLEN', chunks, ARGV[13] .. ':' .. i) end
if size ~= tonumber(ARGV[12]) then return 'incomplete' end

call('UNLINK', unpack(KEYS, 2, 5 + count))
for i = 1, count do
  if call('EXISTS', KEYS[5 + count + i]) == 1 then
    call('RENAME', KEYS[5 + count + i], KEYS[5 + i])
    call('PERSIST', KEYS[5 + i])
  end
end
call('HSET', KEYS[1], 'incarnation', ARGV[1], 'config', ARGV[4], 'version', ARGV[2], 'uid', ARGV[3], 'created', ARGV[5],
  'updated', ARGV[6], 'snapshot', ARGV[2], 'code', ARGV[9], 'refilled', ARGV[2], 'summary', ARGV[11])
if ARGV[7] ~= '0' then call('HSET', KEYS[1], 'expired', ARGV[7]) end
if ARGV[8] ~= '' then call('HSET', KEYS[1], 'origin', ARGV[8]) end
call('HSET', KEYS[3], ARGV[2], ARGV[10])
notify(ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
return 'restored'
"""
)

# KEYS marks, gone; ARGV model's field, place, how many have joined it. Its entry in the stream is not known any more.
_MARK = Script("""
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old and old ~= 'gone' then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[1] .. ' joined', ARGV[3] .. ' 0-0')
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
""")

# KEYS pending, pending_due, seen; ARGV where to begin, most, what the ids of labels begin with.
# How many were looked at, and how many of them dropped.
_SETTLE = Script("""
local from, settled = tonumber(ARGV[1]), {}
local found = redis.call('ZRANGE', KEYS[2], from, from + ARGV[2] - 1)
for i = 1, #found do
  if redis.call('HEXISTS', KEYS[3], ARGV[3] .. found[i]) == 1 then settled[#settled + 1] = found[i] end
end
if #settled > 0 then
  redis.call('ZREM', KEYS[2], unpack(settled))
  redis.call('HDEL', KEYS[1], unpack(settled))
end
return {#found, #settled}
""")


class DriftEvent(NamedTuple):
    """A drift event as the model's stream is to have it; ``later``: "COUNT JSON", or empty."""

    place: Place
    time_ms: int
    body: bytes
    held_back: bool
    later: bytes


@dataclass(frozen=True, slots=True)
class Restored:
    """What the meta is to have; ``info`` describes the state, ``summary`` is its record in lists."""

    config: bytes
    created_ms: int
    expired: int
    origin: bytes
    published: str
    summary: bytes
    info: SnapshotInfo


class Staging:
    """One model, written aside.

    Every method raises StoreDown where the store did not answer, or answered that it cannot.

    Args:
        connection: the store.
        name, incarnation: the model.
    """

    def __init__(self, connection: Connection, name: str, incarnation: str) -> None:
        self._connection, self.keys = connection, ModelKeys(name, incarnation)
        own = f"{self.keys.chunks_prefix.removesuffix('chunks:')}restoring:{secrets.token_hex(8)}:"
        self._aside = {part: own + part for part in PARTS}
        self._sizes = dict.fromkeys(PARTS[:-1], 0)

    async def _write(self, size: int, commands: Sequence[tuple[str, Sequence[bytes | str | int]]]) -> None:
        """Run commands that each add to one part; what they add is counted, as they tell it."""
        expire = [
            ("PEXPIRE", self._aside[part], pieces.UNUSED_MS) for part in dict.fromkeys(part for part, _ in commands)
        ]
        sent = [(words[0], self._aside[part], *words[1:]) for part, words in commands]
        calls = [Call(None, (str(each[1]),), each) for each in (*sent, *expire)]
        results = await self._connection.run(calls, large_bytes=size if size > LARGE_BYTES else 0)
        for result in results:
            if isinstance(result, Exception):
                raise failed(result)
        for (part, _), result in zip(commands, results, strict=False):
            self._sizes[part] += result if isinstance(result, int) else 1  # XADD tells the entry that it has added

    async def _items(self, part: str, items: Sequence[Item]) -> None:
        values: list[Any] = [word for identity, _, value in items for word in (identity, value)]
        dues: list[Any] = [word for identity, due, _ in items for word in (due, identity)]
        if items:
            size = 2 * sum(map(len, values[::2])) + sum(map(len, values[1::2]))
            await self._write(size, [(part, ("HSET", *values)), (f"{part}_due", ("ZADD", *dues))])

    async def pending(self, items: Sequence[Item]) -> None:
        """Add tracked predictions."""
        await self._items("pending", items)

    async def ids(self, items: Sequence[Item]) -> None:
        """Add remembered ids."""
        await self._items("seen", items)

    async def events(self, items: Sequence[DriftEvent]) -> None:
        """Add drift events; places must grow."""
        commands: list[tuple[str, Sequence[bytes | str | int]]] = []
        for at in items:
            place = _id(at.place)
            held_back: tuple[str, ...] = ("h", "1") if at.held_back else ()
            commands.append(("drift", ("XADD", place, "t", at.time_ms, "e", at.body, *held_back)))
            if at.later:
                commands.append(("alarms", ("HSET", place, at.later)))
        await self._write(sum(len(at.body) + len(at.later) for at in items), commands)

    async def unlabelled(self, items: Sequence[tuple[Place, int, int, bytes]]) -> None:
        """Add events of before the labels; places must grow."""
        added = [("XADD", _id(place), "n", now, "t", time, "e", body) for place, now, time, body in items]
        await self._write(sum(len(body) for *_, body in items), [("unlabelled", words) for words in added])

    async def settle(self) -> None:
        """Drop predictions whose labels are among the ids."""
        keys, at = tuple(self._aside[part] for part in ("pending", "pending_due", "seen")), 0
        while True:
            found, settled = await self._connection.one(Call(_SETTLE, keys, (at, PAGE_ITEMS, LABEL)))
            at += found - settled
            self._sizes["pending"] -= settled
            self._sizes["pending_due"] -= settled
            if found < PAGE_ITEMS:
                return

    async def state(self, state: Buffer, digest: str) -> None:
        """Write the state."""
        await pieces.scatter(self._connection, self._aside["chunks"], f"{digest}:", state)

    async def publish(self, model: Restored) -> Outcome:
        """Let the model be there, unless its name is taken.

        Args:
            model: what the meta is to have.

        Returns:
            "taken": a model has the name; "incomplete": parts have expired. Nothing was written then.
        """
        keys, info = self.keys, model.info
        await self._connection.ask(("ZADD", INDEX, 0, keys.member()))
        if model.published:
            mark = (keys.member(), *model.published.split(" "))
            await self._connection.one(Call(_MARK, (DRIFT_MARKS, DRIFT_GONE), mark))
        own = (keys.meta, keys.deleted, keys.snapshots, keys.log, keys.states)
        final = (keys.idempotency, keys.idempotency_expiry, keys.pending, keys.pending_due, keys.drift, keys.alarms)
        goes = (*final, keys.unlabelled, keys.chunks(info.version))
        args: tuple[Any, ...] = (
            keys.incarnation, info.version, info.uid, model.config, model.created_ms, info.time_ms, model.expired,
            model.origin, info.state_version, msgspec.json.encode(info), model.summary,
            info.bytes, info.digest, pieces.count(info.bytes), *self._sizes.values(),
        )  # fmt: skip
        outcome = await self._connection.one(Call(_RESTORE, (*own, *goes, *self._aside.values()), args))
        if outcome != b"restored":
            await self.drop()
            (now,) = await self._connection.ask(("HGET", keys.meta, "incarnation"))
            if now != raw(keys.incarnation):
                await self._connection.ask(("ZREM", INDEX, keys.member()))
        return cast("Outcome", outcome.decode())

    async def drop(self) -> None:
        """Remove what was written; where that fails, it expires."""
        await self._connection.ask(*[("UNLINK", key) for key in self._aside.values()])


def _id(place: Place) -> str:
    """The id of an event's entry in a stream."""
    version, number = place
    return f"{version}-{number}"
