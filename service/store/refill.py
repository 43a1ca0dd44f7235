"""Writing a model back that the store has lost: its meta and a snapshot of its state, at once, where there is none.

    deleted     the model was deleted: nothing is written
    taken       the name belongs to another model: nothing is written
    kept        the store has the model at the same or a later version, or at an earlier one that others have gone on
                from: nothing is written
    refilled    the model is there again
    replaced    another replica had written it back at an earlier version, and nothing was appended since

Its log begins after the version of the snapshot. Ids, tracked predictions and drift events are not written back: a
replica does not hold them.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from core.contract import Buffer
from service.store import pieces
from service.store.keys import INDEX, ModelKeys
from service.store.redis.connection import Call, Connection, Script
from service.store.scripts import BASICS
from service.store.snapshots import SnapshotInfo

Outcome = Literal["deleted", "taken", "kept", "refilled", "replaced"]

# KEYS meta, snapshots, chunks, log, deleted
# ARGV incarnation, config, version, uid, created, info, bytes, number of pieces, digest, state version
_REFILL = Script(
    BASICS
    + """
if call('EXISTS', KEYS[5]) == 1 then return {'deleted', 0} end
local old = call('HMGET', KEYS[1], 'incarnation', 'version', 'refilled')
if old[1] and old[1] ~= ARGV[1] then return {'taken', tonumber(old[2])} end
if old[1] and (tonumber(old[2]) >= tonumber(ARGV[3]) or old[3] ~= old[2]) then return {'kept', tonumber(old[2])} end
local size = 0
for i = 0, tonumber(ARGV[8]) - 1 do size = size + call('HSTRLEN', KEYS[3], ARGV[9] .. ':' .. i) end
if size ~= tonumber(ARGV[7]) then return {'incomplete', 0} end
call('UNLINK', KEYS[4])
call('HSET', KEYS[1], 'incarnation', ARGV[1], 'config', ARGV[2], 'version', ARGV[3], 'uid', ARGV[4], 'created', ARGV[5],
  'updated', string.format('%.0f', now), 'snapshot', ARGV[3], 'code', ARGV[10], 'refilled', ARGV[3])
call('HDEL', KEYS[1], 'summary')
call('HSET', KEYS[2], ARGV[3], ARGV[6])
call('PERSIST', KEYS[3])
notify(ARGV[1] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return {old[1] and 'replaced' or 'refilled', tonumber(ARGV[3])}
"""
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A model as a replica holds it; ``info`` describes its state at the version that it has reached."""

    name: str
    incarnation: str
    config: bytes
    created_ms: int
    info: SnapshotInfo


async def refill(connection: Connection, lost: Lost, state: Buffer) -> tuple[Outcome, int]:
    """Write a model back.

    Args:
        connection: the store.
        lost: the model.
        state: its snapshot, which ``lost.info`` describes.

    Returns:
        What became of it, and the version that the store has now (0 where it has none).

    Raises:
        StoreDown: the store did not answer, or answered that it cannot; it may be sent again.
    """
    keys, info = ModelKeys(lost.name, lost.incarnation), lost.info
    chunks = keys.chunks(info.version)
    await pieces.scatter(connection, chunks, f"{info.digest}:", state)
    await connection.ask(("ZADD", INDEX, 0, keys.member()))
    what = (info.version, info.uid, lost.created_ms, msgspec.json.encode(info), info.bytes, pieces.count(info.bytes))
    own = (keys.meta, keys.snapshots, chunks, keys.log, keys.deleted)
    args = (lost.incarnation, lost.config, *what, info.digest, info.state_version)
    outcome, version = await connection.one(Call(_REFILL, own, args))
    if outcome in {b"deleted", b"taken"}:
        await connection.ask(("ZREM", INDEX, keys.member()))
    if outcome == b"incomplete":
        raise RuntimeError(f"the pieces of model {lost.name} have expired while they were written")
    return outcome.decode(), int(version)
