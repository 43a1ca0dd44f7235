"""Creating, reading, deleting and listing models in the store, with their summaries."""

import asyncio

import pytest
from msgspec.structs import replace

from core.model import LastDrift, Summary
from service.errors import ModelLost, NotFound, StoreDown
from service.store import catalog as catalog_module
from service.store.catalog import DELETED_MS, Catalog, Existing, ModelMeta
from service.store.due_labels import DueLabels
from service.store.keys import INDEX, LABELS_DUE, LABELS_MARKED, TOMBSTONES, ModelKeys
from service.store.redis.connection import Call
from service.store.summaries import StoredSummary, SummaryWrite, decode, down, encode, encode_first
from tests.service.store_fixtures import INCARNATION, Model, one


@pytest.fixture
def catalog(connection):
    """The models of the empty store."""
    return Catalog(connection)


async def test_a_new_model_stands_at_version_zero(connection, catalog):
    """Its uid is its incarnation; nothing is there before it is created."""
    assert await catalog.read("m") is None
    config = bytes(range(256))
    assert Existing("inc1", config, created=True) == await catalog.create("m", "inc1", config)
    meta = await catalog.read("m")
    assert ModelMeta("m", "inc1", config, 0, "inc1", meta.created_ms, meta.created_ms) == meta
    (now,) = await connection.ask(("TIME",))
    assert 10_000 > abs(meta.created_ms - int(now[0]) * 1000)


async def test_a_taken_name_is_answered_with_who_has_it(connection, catalog):
    """The first one stays; the second leaves nothing behind; repeating a lost call is still the caller's creation."""
    await catalog.create("m", "inc1", b"first")
    assert Existing("inc1", b"first", created=False) == await catalog.create("m", "inc2", b"second")
    assert Existing("inc1", b"first", created=True) == await catalog.create("m", "inc1", b"first")
    assert [[b"m inc1"]] == await connection.ask(("ZRANGE", INDEX, 0, -1))


async def test_a_model_that_the_index_lacks_is_listed_again(connection, catalog):
    """After a failover of the index's own server; one that was deleted, or never was, is not."""
    for name in ("here", "lost", "taken", "deleted"):
        await catalog.create(name, "inc1", b"{}")
    await catalog.delete("deleted")
    await connection.ask(("ZREM", INDEX, "lost inc1", "taken inc1"))
    await catalog.create("taken", "inc2", b"{}")
    await catalog.relist([(name, "inc1") for name in ("here", "lost", "deleted", "never")] + [("here", "inc0")])
    assert [[b"here inc1", b"lost inc1", b"taken inc1"]] == await connection.ask(("ZRANGE", INDEX, 0, -1))


async def test_appends_move_version_uid_and_time(model, catalog):
    """Meta is set by the append script and read by the catalogue."""
    before = await catalog.read("m")
    await asyncio.sleep(0.005)
    await model.append()
    meta = await catalog.read("m")
    assert (1, "w1-1", before.created_ms) == (meta.version, meta.uid, meta.created_ms)
    assert meta.updated_ms > meta.created_ms


async def test_delete_leaves_nothing(model, catalog):
    """All keys of the incarnation go, chunks included, but for the mark of it; a second time there is nothing."""
    keys = model.keys
    await model.append(one("a"))
    await model.connection.ask(
        ("HSET", keys.pending, "p", "x"),
        ("ZADD", keys.pending_due, 1, "p"),
        ("HSET", keys.snapshots, 1, "{}", 7, "{}"),
        ("HSET", keys.chunks(1), "d:0", "x"),
        ("HSET", keys.chunks(7), "d:0", "x"),
    )
    assert await catalog.delete("m")
    assert {keys.deleted.encode(), TOMBSTONES.encode()} == {*await model.contents()}
    (lives_ms,) = await model.connection.ask(("PTTL", keys.deleted))
    assert 0 < lives_ms <= DELETED_MS
    assert [True, False] == await catalog.deleted([("m", "inc1"), ("m", "inc2")])
    assert not await catalog.delete("m")
    assert await catalog.read("m") is None


async def test_delete_does_not_touch_others(model, catalog):
    """Neither a model whose name begins alike nor the same name's next life."""
    await catalog.create("m2", "inc1", b"{}")
    await Model(model.connection, name="m2").append(one("a"))
    await catalog.delete("m")
    await catalog.create("m", "inc2", b"{}")
    assert ([("m", "inc2"), ("m2", "inc1")], None) == await catalog.names(10)
    assert 1 == (await catalog.read("m2")).version


async def test_a_crash_between_the_steps_is_harmless(connection, catalog):
    """An index that names what is not there lists less, never wrongly; deleting and creating go on as ever."""
    await connection.ask(("ZADD", INDEX, 0, "m inc0"), ("ZADD", INDEX, 0, "z inc0"))
    assert ([], None) == await catalog.names(10)
    assert not await catalog.delete("m")
    await catalog.create("m", "inc1", b"{}")
    assert ([("m", "inc1")], None) == await catalog.names(10)
    await connection.ask(("DEL", ModelKeys("m", "inc1").meta))
    assert ([], None) == await catalog.names(1)


async def test_what_a_process_that_died_while_it_deleted_has_left_leaves_with_the_next_try(connection, catalog):
    """The member of the index; not that of a model which is just being created."""
    died, young = ModelKeys("m", "inc1"), ModelKeys("m", "inc2")
    await connection.ask(("SET", died.deleted, 1), *[("ZADD", INDEX, 0, keys.member()) for keys in (died, young)])
    assert not await catalog.delete("m")
    assert [[young.member().encode()]] == await connection.ask(("ZRANGE", INDEX, 0, -1))


async def test_a_deletion_that_fails_at_its_end_is_completed_by_the_next_try(connection, catalog, monkeypatch):
    """The index is the last to forget the model: what it names is found again, by a client or the sweeper."""
    for name in ("m", "n"):
        await catalog.create(name, "inc1", b"{}")
    call = connection.one

    async def fail_to_remember(one):
        if one.script is catalog_module._REMEMBER:
            raise StoreDown("it stalls")
        return await call(one)

    with monkeypatch.context() as stalled:
        stalled.setattr(connection, "one", fail_to_remember)
        for name in ("m", "n"):
            with pytest.raises(StoreDown):
                await catalog.delete(name)
    assert not await catalog.delete("m")
    await catalog.unlist({("n", "inc1")})
    marks, index = await connection.ask(("ZRANGE", TOMBSTONES, 0, -1), ("ZCARD", INDEX))
    assert ([b"m inc1", b"n inc1"], 0) == (marks, index)


async def test_a_deleted_model_is_no_longer_looked_at_for_due_labels(connection, catalog):
    """Its first label may be due in a year; the next model of the name keeps its place."""
    await catalog.create("m", "inc1", b"{}")
    await DueLabels(connection).mark({("m", "inc1"): 1000, ("m", "inc2"): 1000})
    assert await catalog.delete("m")
    due, marked = await connection.ask(("ZRANGE", LABELS_DUE, 0, -1), ("HKEYS", LABELS_MARKED))
    assert [b"m inc2"] == due == marked


async def test_deleting_and_creating_at_once_ends_in_one_of_the_two(catalog):
    """A delete hits the model that was there, whatever is created meanwhile; the index agrees with meta."""

    async def live(k: int) -> None:
        await catalog.create("m", f"inc{k}", b"{}")
        await catalog.delete("m")

    await asyncio.gather(*[live(k) for k in range(20)])
    assert await catalog.read("m") is None
    await catalog.create("m", "last", b"{}")
    assert ([("m", "last")], None) == await catalog.names(10)


async def test_a_name_taken_again_while_it_is_deleted(model, catalog, monkeypatch):
    """Between looking and deleting somebody has replaced the model: the new one goes, whole, or nothing does."""
    old = await catalog.read("m")
    await catalog.delete("m")
    await catalog.create("m", "inc2", b"{}")
    await model.connection.ask(("XADD", ModelKeys("m", "inc2").log, "1-0", "u", "x"))
    looks, look = [old], catalog.read

    async def late(name: str) -> ModelMeta | None:
        return looks.pop() if looks else await look(name)

    monkeypatch.setattr(catalog, "read", late)
    assert await catalog.delete("m")
    marks = [ModelKeys("m", incarnation).deleted.encode() for incarnation in ("inc1", "inc2")]
    assert {*marks, TOMBSTONES.encode()} == {*await model.contents()}


async def test_the_name_of_a_lost_model_is_kept_for_it(model, catalog):
    """Only while no model in the store has it, and until it is given up; a later look does not undo that."""
    await catalog.create("taken", "inc2", b"{}")
    await catalog.give_up("deleted", "inc1")
    assert [False, False, True] == await catalog.judge([(name, "inc1") for name in ("lost", "taken", "deleted")])
    assert [ModelLost, NotFound, NotFound] == [type(await catalog.missing(one)) for one in ("lost", "taken", "deleted")]
    with pytest.raises(ModelLost):
        await catalog.create("lost", "inc3", b"{}")
    assert [[f"m {INCARNATION}".encode(), b"taken inc2"]] == await model.connection.ask(("ZRANGE", INDEX, 0, -1))
    assert await catalog.delete("lost")
    assert [True] == await catalog.judge([("lost", "inc1")])
    assert not await catalog.delete("lost")
    assert (await catalog.create("lost", "inc3", b"{}")).created


async def test_the_marks_of_deleted_models_are_bounded(connection, catalog, monkeypatch):
    """The newest stay, given up ones among them; of what is deleted twice one stays; those past their time leave."""
    monkeypatch.setattr(catalog_module, "DELETED_MAX", 3)
    for number in range(6):
        await catalog.create(f"m{number}", "inc", b"{}")
        assert await catalog.delete(f"m{number}")
    await catalog.give_up("m6", "inc")
    await catalog.give_up("m6", "inc")
    left = [False] * 4 + [True] * 3
    assert left == await catalog.deleted([(f"m{number}", "inc") for number in range(7)])
    assert [3] == await connection.ask(("ZCARD", TOMBSTONES))
    await connection.ask(("ZADD", TOMBSTONES, 1, "m4 inc"))
    await catalog.give_up("m7", "inc")
    assert [[b"m5 inc", b"m6 inc", b"m7 inc"]] == await connection.ask(("ZRANGE", TOMBSTONES, 0, -1))


async def test_wanted_names_are_looked_for_in_so_many_steps_only(catalog, monkeypatch):
    """A hint must not cost a walk through the whole index."""
    monkeypatch.setattr(catalog_module, "STEP_NAMES", 3)
    for at in range(40):
        await catalog.create(f"m{at:02}", "inc", b"")
    for name, found in (("m02", [("m02", "inc")]), ("m29", [("m29", "inc")]), ("m30", [])):
        assert (found, None) == await catalog.names(2, wanted=name.__eq__)


async def test_names_come_in_order_page_by_page(connection, catalog):
    """Every name once, in the order of the bytes, whatever stale members lie between; the last page says so."""
    names = sorted(["a", "a-b", "a.b", "a0", "aB", "a_b", "ab", "B", "0", "b" * 64])
    for name in reversed(names):
        await catalog.create(name, "inc5", b"{}")
        await connection.ask(*[("ZADD", INDEX, 0, f"{name} {stale}") for stale in ("inc1", "inc2", "inc9")])
    for limit in (1, 3, 10, 11):
        pages, after = [], None
        for _ in range(20):
            page, after = await catalog.names(limit, after)
            pages += page
            assert limit >= len(page)
            if after is None:
                break
            assert (limit, after) == (len(page), page[-1][0])
        assert [(name, "inc5") for name in names] == pages
    assert ([("ab", "inc5")], "ab") == await catalog.names(1, "a_b-deleted-meanwhile")


SUMMARY = Summary("rls", "regression", 3, 0.25, 1.5, "steady")


def record(version, rows=3):
    return encode(StoredSummary(version, 1_700_000_000_000 + version, SUMMARY._replace(rows=rows)))


def write(model, version=None, uid=None, least=None, rows=3):
    """A write of what a replica at the model's version knows."""
    version = model.version if version is None else version
    least = version + 1 if least is None else least
    return SummaryWrite("m", INCARNATION, version, uid or model.uid, least, record(version, rows))


async def stored(model):
    return decode((await Catalog(model.connection).read("m")).summary)


def test_a_record_is_read_as_it_was_written():
    """Labels keep their type; a model out of service keeps its figures; unreadable bytes give None."""
    assert StoredSummary(7, 1_700_000_000_007, SUMMARY) == decode(record(7))
    assert StoredSummary(7, 1_700_000_000_007, SUMMARY._replace(phase="down")) == decode(
        encode(down(decode(record(7))))
    )
    for label in ("x", 7, True, None):
        drift = LastDrift(5, 6, "class_mean", label)
        read = decode(encode(StoredSummary(1, 1, SUMMARY._replace(drift=drift, mean_cost=0.0)))).figures
        assert (drift, type(label), 0.0) == (read.drift, type(read.drift.label), read.mean_cost)
    for unread in (None, b"", b"x", b"7:8:", b"7:8:[2]", b"7:8:{}", b"a:8:" + encode_first(SUMMARY)):
        assert None is decode(unread)


def test_a_record_of_another_format_is_not_read():
    """Further fields are ignored, missing ones take their defaults; another number in front means another format."""
    drift = LastDrift(5, 6, "class_mean", None)
    known = StoredSummary(
        7, 8, Summary("rls", "regression", 3, 0.25, 1.5, "steady", drift, 2, 1, 0.5, 0.0, 0.125, (0.25, 0.5), 0.75, 1.5)
    )
    assert known == decode(
        b'7:8:[1,"rls","regression",3,0.25,1.5,"steady",[5,6,"class_mean",null],2,1,0.5,0.0,0.125,[0.25,0.5],0.75,1.5,9]'
    )
    short = decode(b'7:8:[1,"rls","regression",3,0.25,1.5,"steady"]')
    assert (None, 0, 0, None, None, None, (), None, None) == short.figures[-9:]
    assert None is decode(b'7:8:[2,"rls","regression",3,0.25,1.5,"steady"]')


async def test_creation_stores_the_first_summary(catalog):
    """Of version 0, with the server's time; a name that is taken keeps its own."""
    first = Summary("rls", "regression", 0, None, None, "steady")
    assert (await catalog.create("m", INCARNATION, b"{}", encode_first(first))).created
    assert not (await catalog.create("m", "inc2", b"{}", encode_first(SUMMARY))).created
    meta = await catalog.read("m")
    assert StoredSummary(0, meta.created_ms, first) == decode(meta.summary)


async def test_an_append_carries_the_summary_of_the_state_before_it(model):
    """It is stored with the entry, and neither by a refused append nor by a retry nor by one that adds nothing."""
    await model.append(one("a"), summary=record(0))
    before = await model.contents()
    model.last = replace(model.last, summary=record(0, rows=5))
    assert 1 == (await model.again()).made
    assert before == await model.contents()
    assert 0 == (await stored(model)).version
    await model.append(summary=record(1))
    assert 1 == (await stored(model)).version
    await model.append(one("a"), summary=record(2))
    assert "fork" == (await model.append(uid="other", summary=record(2))).code
    assert 1 == (await stored(model)).version
    await model.append()
    assert 1 == (await stored(model)).version


async def test_an_append_from_behind_does_not_replace_a_later_summary(model, catalog):
    """The writer that is behind its log appends all the same."""
    for _ in range(3):
        await model.append()
    await catalog.write_summaries([write(model)])
    behind = Model(model.connection, "w2")
    assert 4 == (await behind.append(version=1, uid="w1-1", summary=record(1))).made
    assert 3 == (await stored(model)).version


async def test_a_later_summary_stays(model, catalog):
    """Written only while the stored one is below what the writer names; the answer says what is stored."""
    for _ in range(4):
        await model.append()
    assert [2, 4, 4, 4] == await catalog.write_summaries([
        write(model, 2, "w1-2"), write(model, 4), write(model, 3, "w1-3"), write(model, 4, least=4, rows=9),
    ])  # fmt: skip
    assert (4, 3) == ((found := await stored(model)).version, found.figures.rows)
    assert [4] == await catalog.write_summaries([write(model, rows=9)])
    assert 9 == (await stored(model)).figures.rows


@pytest.mark.parametrize("changed", [{"incarnation": "inc2"}, {"version": 3}, {"uid": "other"}, {"name": "n"}])
async def test_nothing_is_stored_of_what_is_not_on_the_log(model, catalog, changed):
    """Another incarnation, a version beyond the head, a rewritten head, a model that does not exist."""
    await model.append()
    await model.append()
    before = await model.contents()
    assert [-1] == await catalog.write_summaries([write(model)._replace(**changed)])
    assert before == await model.contents()


async def test_a_damaged_record_that_is_gone_is_not_made_anew(connection):
    """Another deletion may have been faster."""
    keys = ModelKeys("m", "inc1")
    await connection.one(Call(catalog_module._REPLACE, (keys.meta, keys.log, keys.snapshots), ("inc1",)))
    assert [0] == await connection.ask(("EXISTS", keys.meta))
