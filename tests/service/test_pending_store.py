"""Tracked predictions in the store."""

import pytest

from service.store.catalog import Catalog
from service.store.log.appends import RememberedIds, SeenId
from service.store.pending import Pending, Track
from tests.service.store_fixtures import INCARNATION, one


def track(prediction_id: str, blob: bytes = b"told", **changes) -> Track:
    usual = {"name": "m", "incarnation": INCARNATION, "ttl_ms": 60_000, "cap": 100, "id_cap": 1000}
    return Track(prediction_id=prediction_id, blob=blob, **(usual | changes))


async def test_a_tracked_prediction_is_fetched_until_its_label_comes(model):
    """With its expiry and what is remembered of the label's id, in one round trip."""
    pending, blob = Pending(model.connection), bytes(range(256))
    assert [None] == await pending.track_many([track("p", blob)])
    found, expires_ms, seen = await pending.fetch("m", INCARNATION, "p", "p")
    (now,) = await model.connection.ask(("TIME",))
    assert (blob, None) == (found, seen)
    assert 10_000 > abs(expires_ms - int(now[0]) * 1000 - 60_000)
    await model.append(one("p", pending="p"))
    assert (None, None, SeenId(1, 0, 0, "d", None)) == await pending.fetch("m", INCARNATION, "p", "p")
    assert (None, None, None) == await pending.fetch("m", INCARNATION, "nobody", "nobody")


async def test_each_item_has_its_own_outcome(model):
    """A model that is gone or full does not concern the others; nothing is written for it."""
    first, *others = [track(name, cap=2) for name in "ade"]
    items = [first, track("b", incarnation="inc0"), track("c", name="nobody"), *others]
    pending = Pending(model.connection)
    assert [None, "gone", "gone", None, "full"] == await pending.track_many(items)
    assert (0, 0, 0, 2, 2) == await model.shape()
    assert [None] == await pending.track_many([track("a", b"again", cap=2)])
    assert b"again" == (await pending.fetch("m", INCARNATION, "a", "a"))[0]
    assert [] == await pending.track_many([])


async def test_an_expired_prediction_is_gone_before_it_is_swept(model):
    """The server's clock decides; it makes room at once, and is counted once."""
    pending = Pending(model.connection)
    await pending.track_many([track("a"), track("b")])
    await model.connection.ask(("ZADD", model.keys.pending_due, 1, "a", 1, "b"))
    assert (None, None, None) == await pending.fetch("m", INCARNATION, "a", "a")
    assert ([], None) == await pending.list("m", INCARNATION, 10)
    assert (0, 2) == await pending.counts("m", INCARNATION)
    assert (0, 0, 0, 2, 2) == await model.shape()
    assert [None] == await pending.track_many([track("c", cap=1)])
    assert (0, 0, 0, 1, 1) == await model.shape()
    assert (1, 2) == await pending.counts("m", INCARNATION)
    assert 2 == (await Catalog(model.connection).read("m")).expired
    assert (0, 0) == await pending.counts("m", "inc0") == await pending.counts("nobody", INCARNATION)


async def test_nothing_is_tracked_while_its_label_would_be_refused(model):
    """The model remembers as many ids as it may; it is told how many these are and when the first leaves."""
    pending = Pending(model.connection)
    answer = await model.append(one("a"), one("b"))
    assert [RememberedIds(2, answer.time_ms + 60_000, 0)] == await pending.track_many([track("p", id_cap=2)])
    assert (1, 2, 2, 0, 0) == await model.shape()
    assert [None] == await pending.track_many([track("p", id_cap=3)])
    await model.connection.ask(("ZADD", model.keys.idempotency_expiry, 1, "a"))
    assert [None] == await pending.track_many([track("q", id_cap=2)])


@pytest.mark.parametrize("limit", [1, 3, 7, 8])
async def test_the_list_comes_by_expiry_page_by_page(model, limit):
    """Each once, those of the same millisecond by id, whatever leaves between two pages."""
    pending, keys = Pending(model.connection), model.keys
    due = {"b": 3, "a": 3, "c:1": 3, "d": 1, "e": 2, "f": 4, "\u00fc": 3}
    for prediction_id, late in due.items():
        at = 9_000_000_000_000 + late
        await model.connection.ask(
            ("HSET", keys.pending, prediction_id, b"told"), ("ZADD", keys.pending_due, at, prediction_id)
        )
    found, after = [], None
    while True:
        page, after = await pending.list("m", INCARNATION, limit, after)
        found += page
        assert limit >= len(page)
        if after is None:
            break
        await model.append(one(page[-1][0], pending=page[-1][0]))
    order = sorted(due, key=lambda prediction_id: (due[prediction_id], prediction_id.encode()))
    assert [(i, 9_000_000_000_000 + due[i], b"told") for i in order] == found
