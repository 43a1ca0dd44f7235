"""Entries and appends of another state version: what newer code has written, older code neither applies nor follows."""

from core.machine import STATE_VERSION
from service.store.entries import FIRST_STATE_VERSION
from service.store.log import SegmentIn
from tests.service.store_fixtures import INCARNATION, Model, one

NEWER = STATE_VERSION + 1


async def test_an_entry_says_which_state_version_wrote_it(model):
    """And meta which is the newest; entries of code that did not say so are of the first."""
    await model.append()
    await model.connection.ask(
        ("XADD", model.keys.log, "2-0", "u", "old-2", "p", "w1-1", "t", 1, "n", 1, "0", "row"),
        ("HSET", model.keys.meta, "version", 2, "uid", "old-2"),
    )
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
    assert [STATE_VERSION, FIRST_STATE_VERSION] == [entry.state for entry in read.entries]
    assert [[str(STATE_VERSION).encode()]] == await model.connection.ask(("HMGET", model.keys.meta, "code"))


async def test_a_store_of_code_that_did_not_say_it_goes_on(model):
    """A missing state version in meta refuses nobody."""
    await model.append()
    await model.connection.ask(("HDEL", model.keys.meta, "code"))
    assert 2 == (await model.append()).made


async def test_entries_of_a_newer_version_are_not_returned_to_older_code(model):
    """Those before them are; reading on from there says why it ends, whatever the newer ones look like."""
    await model.append()
    await model.append(SegmentIn(b"of tomorrow"), state_version=NEWER)
    await model.connection.ask(
        ("XADD", model.keys.log, "3-0", "u", "w1-3", "p", "w1-2", "t", "?", "n", "?", "s", NEWER, "0", b"of tomorrow"),
        ("HSET", model.keys.meta, "version", 3, "uid", "w1-3"),
    )
    for read in (model.log.read_after, model.log.read_soon):
        found = await read("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
        assert ("ok", [1], False) == (found.code, [entry.version for entry in found.entries], found.complete)
        for version, uid in ((1, "w1-1"), (2, "w1-2")):
            found = await read("m", INCARNATION, version, uid, 1 << 20, 10)
            assert ("newer", 3, "w1-3", ()) == (found.code, found.head, found.head_uid, found.entries)


async def test_an_append_of_older_code_is_refused_before_anything_is_written(model):
    """Wherever it stands; ids that are known already are not looked up for it."""
    await model.append(one("a"))
    await model.append(state_version=NEWER)
    before = await model.contents()
    other = Model(model.connection, "w2")
    for version, uid in ((1, "w1-1"), (2, "w1-2")):
        answer = await other.append(one("b"), one("a"), version=version, uid=uid)
        assert ("newer", 2, "w1-2", None) == (answer.code, answer.head, answer.head_uid, answer.made)
    assert before == await model.contents()
    assert "fork" == (await other.append(version=2, uid="other")).code
    assert 3 == (await other.append(one("a"), one("b"), version=2, uid="w1-2", state_version=NEWER)).made


async def test_a_retry_of_older_code_is_told_what_it_made(model):
    """Its append was there before the newer code came: its entries can be applied, and its requests answered."""
    await model.append(one("a"))
    first = await model.append(one("b"))
    other = Model(model.connection, "w2")
    await other.append(version=2, uid="w1-2", state_version=NEWER)
    again = await model.again()
    assert (first.made, first.segments, first.entries, 3) == (again.made, again.segments, again.entries, again.head)
    assert "newer" == (await model.append(one("c"))).code


async def test_code_of_a_newer_version_reads_and_continues_an_older_log(model, monkeypatch):
    """And the version in meta never goes back."""
    await model.append()
    monkeypatch.setattr("service.store.entries.STATE_VERSION", NEWER)
    newer = Model(model.connection, "w2")
    answer = await newer.append(state_version=NEWER)
    assert (2, [STATE_VERSION]) == (answer.made, [entry.state for entry in answer.entries])
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
    assert [STATE_VERSION, NEWER] == [entry.state for entry in read.entries]
    assert [[str(NEWER).encode()]] == await model.connection.ask(("HMGET", model.keys.meta, "code"))
