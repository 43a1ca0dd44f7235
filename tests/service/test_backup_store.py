"""What a backup reads of a store, and how a model is written into one."""

import pytest

from service.store.backup import reading
from service.store.backup.parts import PAGE_ITEMS
from service.store.backup.staging import DriftEvent, Restored, Staging
from service.store.catalog import Catalog
from service.store.keys import DRIFT_MARKS, INDEX, ModelKeys
from service.store.pieces import digest
from service.store.snapshots import SnapshotInfo, Snapshots
from tests.service.store_fixtures import INCARNATION

STATE = b"state" * 2_000_000
INFO = SnapshotInfo(7, "w.7", 5, 1000, len(STATE), digest(STATE))
MODEL = Restored(b"{}", 900, 3, b"from 0f 4 key", "6-0 2", b"7:1000:[]", INFO)


async def filled(connection, dues):
    """A hash of so many fields, due at these times, and what pages have of it."""
    for at, due in enumerate(dues):
        await connection.ask(("HSET", "h", f"f{at}", b"x" * 10), ("ZADD", "due", due, f"f{at}"))


async def read(connection):
    return [page async for page in reading.pages(connection, "h", "due")]


async def test_pages_have_every_field_once(connection):
    """Also where more are due at one moment than a page has; what is past its time is left out."""
    (seconds, _), *_ = await connection.ask(("TIME",))
    now = int(seconds) * 1000
    later = [now + 60_000] * (2 * PAGE_ITEMS + 100) + [now + 90_000 + at for at in range(PAGE_ITEMS)]
    await filled(connection, [now - 60_000] * 5 + later)
    found = await read(connection)
    assert {f"f{at}".encode() for at in range(5, 5 + len(later))} == {
        identity for page in found for identity, _, _ in page
    }
    assert len(later) == sum(map(len, found))
    assert sorted(later) == [due for page in found for _, due, _ in page]
    assert [] == [page async for page in reading.pages(connection, "none", "none")]


async def test_pages_are_bounded_and_end(connection):
    """In bytes; and what is added behind the last field of the first page is not followed."""
    (seconds, _), *_ = await connection.ask(("TIME",))
    due = int(seconds) * 1000 + 60_000
    for at in range(4):
        await connection.ask(("HSET", "h", f"f{at}", b"x" * 700_000), ("ZADD", "due", due + at, f"f{at}"))
    counts = []
    async for page in reading.pages(connection, "h", "due"):
        counts.append(len(page))
        await connection.ask(("HSET", "h", f"new{len(counts)}", b""), ("ZADD", "due", due + 1000, f"new{len(counts)}"))
    assert [2, 2] == counts


@pytest.fixture
async def staged(connection):
    """A model with something of everything."""
    staging = Staging(connection, "m", INCARNATION)
    await staging.pending([(f"p{at}".encode(), 10**15 + at, b"row") for at in range(PAGE_ITEMS)])
    await staging.pending([(b"late", 10**15, b"row"), (b"p1", 10**15 + 1, b"row")])
    await staging.state(STATE, INFO.digest)
    await staging.ids([(b"p:p3", 10**15, b"2:0:0:d:"), (b"p:late", 10**15, b"3:0:0:d:"), (b"i:x", 10**15, b"1:0:0:d:")])
    await staging.events([DriftEvent((6, 0), 5, b"{}", True, b"2 [{}]"), DriftEvent((7, 1), 6, b"{}", False, b"")])
    await staging.unlabelled([((7, 10**9), 5, 6, b"{}")])
    return staging


async def test_a_staged_model_is_there_at_once(connection, staged):
    """Predictions whose labels are known are dropped; nothing of it expires, and nothing is left beside it."""
    keys, catalog = ModelKeys("m", INCARNATION), Catalog(connection)
    assert None is await catalog.read("m")
    await connection.ask(("SET", keys.deleted, 1), ("HSET", DRIFT_MARKS, keys.member(), "gone"))
    await staged.settle()
    assert "restored" == await staged.publish(MODEL)
    meta = await catalog.read("m")
    assert (7, "w.7", 900, 1000, 3, True) == (
        meta.version, meta.uid, meta.created_ms, meta.updated_ms, meta.expired, meta.based,
    )  # fmt: skip
    assert STATE == await Snapshots(connection).read("m", INCARNATION, INFO)
    assert [INFO] == await Snapshots(connection).list("m", INCARNATION)
    sizes = await connection.ask(
        ("HLEN", keys.pending), ("ZCARD", keys.pending_due), ("HLEN", keys.idempotency), ("XLEN", keys.drift),
        ("HLEN", keys.alarms), ("XLEN", keys.unlabelled), ("EXISTS", keys.deleted), ("ZCARD", INDEX),
    )  # fmt: skip
    assert [PAGE_ITEMS - 1, PAGE_ITEMS - 1, 3, 2, 1, 1, 0, 1] == sizes
    (found,) = await connection.ask(("KEYS", "*{m}*"))
    assert not [key for key in found if b"restoring" in key]
    assert {-1} == {*await connection.ask(*[("PTTL", key) for key in found])}
    assert [b"6-0", b"2 0-0"] == (
        await connection.ask(("HMGET", DRIFT_MARKS, keys.member(), f"{keys.member()} joined"))
    )[0]


async def test_a_name_that_is_taken_stays(connection, staged):
    """Nothing of the staged model is left, and the other one is as it was."""
    await Catalog(connection).create("m", "other", b"{}")
    before = await connection.ask(("HGETALL", "onepass:{m}:meta"), ("ZRANGE", INDEX, 0, -1))
    await staged.settle()
    assert "taken" == await staged.publish(MODEL)
    assert before == await connection.ask(("HGETALL", "onepass:{m}:meta"), ("ZRANGE", INDEX, 0, -1))
    assert [b"onepass:{m}:meta"] == (await connection.ask(("KEYS", "*{m}*")))[0]


@pytest.mark.parametrize("part", ["seen", "pending_due", "chunks", "drift", "alarms"])
async def test_a_part_that_has_expired_is_missed(connection, staged, part):
    """A model without its ids, or half of its state, is not there."""
    await staged.settle()
    await connection.ask(("DEL", staged._aside[part]))
    assert "incomplete" == await staged.publish(MODEL)
    assert None is await Catalog(connection).read("m")
    assert [] == (await connection.ask(("KEYS", "*{m}*")))[0]
    assert [] == (await connection.ask(("ZRANGE", INDEX, 0, -1)))[0]


async def test_what_is_staged_expires(connection, staged):
    """Every part of it, where nobody goes on."""
    (found,) = await connection.ask(("KEYS", "*{m}*"))
    assert 8 == len(found)
    assert all(0 < life <= 3_600_000 for life in await connection.ask(*[("PTTL", key) for key in found]))
