"""Entries and appends of another state version: this code neither applies nor follows what other code has written."""

from functools import partial

import pytest

from core.model import STATE_VERSION
from service.store.log.appends import SegmentIn
from tests.service.store_fixtures import INCARNATION, Model, one

of_another = pytest.mark.parametrize("other", [7, 8], ids=["development", "newer"])


async def test_an_entry_says_which_state_version_wrote_it(model):
    """And so does meta."""
    await model.append()
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
    assert [STATE_VERSION] == [entry.state for entry in read.entries]
    assert [[str(STATE_VERSION).encode()]] == await model.connection.ask(("HMGET", model.keys.meta, "code"))


@of_another
async def test_a_model_is_of_the_version_that_appends_first(model, other):
    """One that nobody has appended to can be of any; from then on code of another one is refused."""
    assert 1 == (await model.append(state_version=other)).made
    assert "other" == (await Model(model.connection, "w2").append(version=1, uid="w1-1")).code


@of_another
async def test_entries_of_another_version_are_not_returned(model, other):
    """Those before them are; reading on from there says why it ends, whatever the other ones look like."""
    await model.append()
    for version, content in ((2, b"of tomorrow"), (3, "?")):
        await model.connection.ask(
            ("XADD", model.keys.log, f"{version}-0", "u", f"w1-{version}", "p", f"w1-{version - 1}", "t", content,
             "n", content, "s", other, "0", content),
            ("HSET", model.keys.meta, "version", version, "uid", f"w1-{version}"),
        )  # fmt: skip
    for read in (model.log.read_after, partial(model.log.read_after, soon=True)):
        found = await read("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
        assert ("ok", [1], False) == (found.code, [entry.version for entry in found.entries], found.complete)
        for version, uid in ((1, "w1-1"), (2, "w1-2")):
            found = await read("m", INCARNATION, version, uid, 1 << 20, 10)
            assert ("other", 3, "w1-3", ()) == (found.code, found.head, found.head_uid, found.entries)


@of_another
async def test_an_append_of_another_version_is_refused_before_anything_is_written(model, other):
    """Wherever it stands; ids that are known already are not looked up for it."""
    await model.append(one("a"))
    await model.append()
    before = await model.contents()
    late = Model(model.connection, "w2")
    for version, uid in ((1, "w1-1"), (2, "w1-2")):
        answer = await late.append(one("b"), one("a"), version=version, uid=uid, state_version=other)
        assert ("other", 2, "w1-2", None) == (answer.code, answer.head, answer.head_uid, answer.made)
    assert before == await model.contents()
    assert "fork" == (await late.append(version=2, uid="other", state_version=other)).code


@of_another
async def test_a_retry_is_told_what_it_made(model, other):
    """Whatever the model has become: its entries can be applied, and its requests answered."""
    await model.append(one("a"))
    first = await model.append(one("b"))
    await model.connection.ask(("HSET", model.keys.meta, "code", other))
    again = await model.again()
    assert (first.made, first.segments, first.entries) == (again.made, again.segments, again.entries)
    assert "other" == (await model.append(SegmentIn(b"c"))).code
