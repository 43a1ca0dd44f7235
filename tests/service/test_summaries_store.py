"""Summaries in the store: a later version stays, none is of an entry that is not on the log."""

import pytest
from msgspec.structs import replace

from core.model import LastDrift, Summary
from service.store.catalog import Catalog
from service.store.summaries import StoredSummary, SummaryWrite, decode, down, encode, encode_first
from tests.service.store_fixtures import INCARNATION, Model, one

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
        7, 8, Summary("rls", "regression", 3, 0.25, 1.5, "steady", drift, 2, 1, 0.5, 0.0, 0.125, (0.25, 0.5))
    )
    assert known == decode(
        b'7:8:[1,"rls","regression",3,0.25,1.5,"steady",[5,6,"class_mean",null],2,1,0.5,0.0,0.125,[0.25,0.5],9]'
    )
    short = decode(b'7:8:[1,"rls","regression",3,0.25,1.5,"steady"]')
    assert (None, 0, 0, None, None, None, ()) == short.figures[-7:]
    assert None is decode(b'7:8:[2,"rls","regression",3,0.25,1.5,"steady"]')


async def test_creation_stores_the_first_summary(connection):
    """Of version 0, with the server's time; a name that is taken keeps its own."""
    catalog = Catalog(connection)
    first = Summary("rls", "regression", 0, None, None, "steady")
    assert (await catalog.create("m", INCARNATION, b"{}", encode_first(first))).created
    assert not (await catalog.create("m", "inc2", b"{}", encode_first(SUMMARY))).created
    meta = await catalog.read("m")
    assert StoredSummary(0, meta.created_ms, first) == decode(meta.summary)


async def test_an_append_carries_the_summary_of_the_state_before_it(model):
    """It is stored with the entry, and neither by a refused append nor by one that adds nothing."""
    await model.append(one("a"), summary=record(0))
    assert 0 == (await stored(model)).version
    await model.append(summary=record(1))
    assert 1 == (await stored(model)).version
    await model.append(one("a"), summary=record(2))
    assert "fork" == (await model.append(uid="other", summary=record(2))).code
    assert 1 == (await stored(model)).version
    await model.append()
    assert 1 == (await stored(model)).version


async def test_an_append_from_behind_does_not_replace_a_later_summary(model):
    """The writer that is behind its log appends all the same."""
    for _ in range(3):
        await model.append()
    await Catalog(model.connection).write_summaries([write(model)])
    behind = Model(model.connection, "w2")
    assert 4 == (await behind.append(version=1, uid="w1-1", summary=record(1))).made
    assert 3 == (await stored(model)).version


async def test_a_later_summary_stays(model):
    """Written only while the stored one is below what the writer names; the answer says what is stored."""
    catalog = Catalog(model.connection)
    for _ in range(4):
        await model.append()
    assert [2, 4, 4, 4] == await catalog.write_summaries([
        write(model, 2, "w1-2"), write(model, 4), write(model, 3, "w1-3"), write(model, 4, least=4, rows=9),
    ])  # fmt: skip
    assert (4, 3) == ((found := await stored(model)).version, found.figures.rows)
    assert [4] == await catalog.write_summaries([write(model, rows=9)])
    assert 9 == (await stored(model)).figures.rows


@pytest.mark.parametrize("changed", [{"incarnation": "inc2"}, {"version": 3}, {"uid": "other"}, {"name": "n"}])
async def test_nothing_is_stored_of_what_is_not_on_the_log(model, changed):
    """Another incarnation, a version beyond the head, a rewritten head, a model that does not exist."""
    await model.append()
    await model.append()
    before = await model.contents()
    assert [-1] == await Catalog(model.connection).write_summaries([write(model)._replace(**changed)])
    assert before == await model.contents()


async def test_a_list_reads_summaries_and_configurations_where_there_are_none(model):
    """Models of an earlier version of the service have no summary until they are loaded."""
    catalog = Catalog(model.connection)
    await catalog.create("a", "inca", b'{"algorithm": "odm", "task": "classification"}')
    await catalog.create("z", "incz", b"{}", encode_first(SUMMARY))
    await model.append(summary=record(0, rows=17))
    await model.append()
    listed, following = await catalog.summaries(2)
    old = await catalog.read("a")
    unknown = Summary("odm", "classification", None, None, None, "steady")
    assert StoredSummary(0, old.updated_ms, unknown) == listed[0].summary
    assert ("m", INCARNATION, 0, 17) == (*listed[1][:2], listed[1].summary.version, listed[1].summary.figures.rows)
    assert "m" == following
    rest, following = await catalog.summaries(2, "m")
    assert (["z"], None) == ([row.name for row in rest], following)


async def test_a_list_leaves_out_what_does_not_exist(model):
    """A member of the index without its meta, and one of an earlier incarnation."""
    await model.connection.ask(("ZADD", "onepass:models", 0, "b gone"), ("ZADD", "onepass:models", 0, "m inc0"))
    listed, _ = await Catalog(model.connection).summaries(10)
    assert [("m", INCARNATION)] == [row[:2] for row in listed]


async def test_a_resent_append_stores_nothing(model):
    """The retry of an append whose reply was lost returns what was made, and writes nothing."""
    await model.append(summary=record(0))
    before = await model.contents()
    model.last = replace(model.last, summary=record(0, rows=5))
    assert 1 == (await model.again()).made
    assert before == await model.contents()
