"""Tracked predictions in the store, and what is past its time there: it leaves also where nobody appends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from core.entry import ServedPrediction
from service.runtime import sweeper
from service.runtime.stats import Stats
from service.runtime.sweeper import Sweeper
from service.store import due_labels
from service.store import pending as pending_store
from service.store.catalog import Catalog
from service.store.due_labels import DueLabels
from service.store.expiry import Swept, sweep
from service.store.keys import INDEX, LABELS_DUE, LABELS_MARKED, TOMBSTONES, ModelKeys
from service.store.log.appends import RememberedIds, SeenId
from service.store.log.codec import Tracked, decode_tracked, encode_tracked
from service.store.pending import Pending, Track
from service.store.redis.connection import Connection
from tests.service.store_fixtures import INCARNATION, Model, many, one
from tests.service.waiting import until


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


async def test_only_models_with_a_due_label_are_visited(connection):
    """Or whose server does not say; the others again when a label is due, or may be because a mark is young."""
    lives = {"due": 0, "broken": 500_000, "later": 500_000, "both": 500_000, "announced": 200_000}
    pending, due = Pending(connection), DueLabels(connection)
    for name, life in lives.items():
        await Catalog(connection).create(name, INCARNATION, b"{}")
        if name != "announced":
            assert [None] == await pending.track_many([track("p", name=name, due_ms=life)])
    await due.mark({("announced", INCARNATION): lives["announced"], ("both", INCARNATION): 100_000})
    await due.mark({("announced", INCARNATION): 300_000})
    members = {name: ModelKeys(name, INCARNATION).member() for name in lives}
    await connection.ask(("ZADD", LABELS_DUE, *(part for member in members.values() for part in (1, member))))
    await connection.ask(("SET", ModelKeys("broken", INCARNATION).labels_due, "not a list"))
    assert [("broken", INCARNATION), ("due", INCARNATION)] == await due.models(10)
    ((seconds, _),) = await connection.ask(("TIME",))
    scores = await connection.ask(*[("ZSCORE", LABELS_DUE, member) for member in members.values()])
    after = {name: float(score) - int(seconds) * 1000 for name, score in zip(lives, scores, strict=True)}
    assert [1, 1] == [float(score) for score in scores[:2]]  # who visits them settles them
    assert [500_000, 100_000, 200_000] == [pytest.approx(after[name], abs=40_000) for name in [*lives][2:]]


async def test_a_model_without_waiting_labels_leaves_the_index(connection, monkeypatch):
    """When its mark is old, however many models there are in one look."""
    monkeypatch.setattr(due_labels, "MARK_LIFE_MS", 0)
    due = DueLabels(connection)
    await due.mark({(f"m{number}", INCARNATION): 0 for number in range(1500)})
    assert [] == await due.models(1000)
    assert [500, 500] == await connection.ask(("ZCARD", LABELS_DUE), ("HLEN", LABELS_MARKED))
    assert [] == await due.models(1000)
    assert [0, 0] == await connection.ask(("ZCARD", LABELS_DUE), ("HLEN", LABELS_MARKED))


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


async def test_a_page_leaves_rows_in_the_store(model, monkeypatch):
    """However wide they are: a script looks at a few at once, and only what was served travels; each comes once."""
    connection, asked = model.connection, []
    one_call = connection.one

    async def watched(call):
        asked.append(await one_call(call))
        return asked[-1]

    served = {f"p{k}": ServedPrediction(float(k), interval=((k - 1.0, k + 1.0),)) for k in range(40)}
    rows = [np.full((1, width), 0.5) for width in (1, 40, 5000, 20_000)]  # the lengths of bytes in MessagePack differ
    blobs = [encode_tracked("space", rows[k % 4], served[f"p{k}"], k, k % 2) for k in range(40)]
    pending = Pending(connection)
    await pending.track_many([track(f"p{k}", blob, ttl_ms=60_000 + 100 * k) for k, blob in enumerate(blobs)])
    monkeypatch.setattr(pending_store, "BYTES_AT_ONCE", 300_000)
    monkeypatch.setattr(connection, "one", watched)
    found, after = await pending.list("m", INCARNATION, 39)
    rest, end = await pending.list("m", INCARNATION, 39, after)
    assert end is None
    assert [Tracked(1, "space", b"", k, served[f"p{k}"], k % 2) for k in range(40)] == [
        decode_tracked(blob) for *_, blob in found + rest
    ]
    assert [f"p{k}" for k in range(40)] == [own for own, *_ in found + rest]
    first, *scripts = asked[:-2]
    assert 40 == len(first)
    assert [8, 8, 8, 8, 7] == [len(part) for part in scripts]
    assert 100 * 39 > sum(len(blob) for part in scripts for blob in part)


async def test_a_page_ends_early_where_what_was_served_is_large(model, monkeypatch):
    """Its cursor goes on; what leaves while it is read is not on it."""
    monkeypatch.setattr(pending_store, "BYTES_AT_ONCE", 1000)
    pending = Pending(model.connection)
    await pending.track_many([track(f"p{k}", bytes(400), ttl_ms=60_000 + 100 * k) for k in range(10)])
    await model.connection.ask(("HDEL", model.keys.pending, "p4"))
    sizes, found, after = [], [], None
    while not sizes or after is not None:
        page, after = await pending.list("m", INCARNATION, 10, after)
        sizes.append(len(page))
        found += [own for own, *_ in page]
    assert [3, 3, 3] == sizes
    assert [f"p{k}" for k in range(10) if k != 4] == found


M = ("m", INCARNATION)


async def _past(model: Model, ids: int, predictions: int = 0) -> None:
    """Ids and tracked predictions that are past their time, beside one of each that is not."""
    await model.append(many(*[f"i{k}" for k in range(ids)]), id_ttl_ms=1, id_cap=10**6)
    await model.append(one("young"), id_cap=10**6)
    pending = Pending(model.connection)
    tracked = [track(f"p{k}", ttl_ms=1, id_cap=10**6) for k in range(predictions)]
    await pending.track_many([*tracked, track("young", id_cap=10**6)])
    await asyncio.sleep(0.01)


async def test_what_is_past_its_time_is_removed_in_pieces(model):
    """At most so many of each kind in one call; predictions are counted; the young stay."""
    await _past(model, 3000)
    await model.connection.ask(*[("ZADD", model.keys.pending_due, 1, f"p{k}") for k in range(5)])
    await model.connection.ask(*[("HSET", model.keys.pending, f"p{k}", "x") for k in range(5)])
    left = (await model.shape())[1] - 1
    assert [Swept(2, 2, True)] == await sweep(model.connection, [M], 2)
    assert [Swept(min(left - 2, 10_000), 3, False)] == await sweep(model.connection, [M], 10_000)
    assert [Swept(0, 0, False)] == await sweep(model.connection, [M], 10_000)
    assert (2, 1, 1, 1, 1) == await model.shape()
    assert 5 == (await Pending(model.connection).counts("m", INCARNATION))[1]


async def test_of_a_model_that_is_gone_nothing_is_removed(model):
    """Nor of one that was created anew under its name."""
    await _past(model, 10)
    before = await model.contents()
    assert [Swept(0, 0, False)] * 2 == await sweep(model.connection, [("m", "inc0"), ("n", INCARNATION)], 10)
    assert [] == await sweep(model.connection, [], 10)
    assert before == await model.contents()


@asynccontextmanager
async def sweeping(connection: Connection, processes: int = 1) -> AsyncIterator[list[Stats]]:
    """Sweepers at work, each with its counters; none of them ends by itself."""
    counters = [Stats() for _ in range(processes)]
    tasks = [asyncio.create_task(Sweeper(connection, stats).run()) for stats in counters]
    try:
        yield counters
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def quick(monkeypatch) -> None:
    """Short pauses and small pieces."""
    for name, value in {"PAGE": 3, "STEP_S": 0.01, "WALK_S": 0.02, "VISIT_S": 0.0, "MOST": 100}.items():
        monkeypatch.setattr(sweeper, name, value)


async def test_a_store_without_traffic_forgets_what_is_past_its_time(model, quick):
    """All models, one page after the other; two processes, each of which removes what it finds."""
    models = [model]
    for k in range(7):
        await Catalog(model.connection).create(f"n{k}", INCARNATION, b"{}")
        models.append(Model(model.connection, name=f"n{k}"))
    for each in models:
        await each.append(many(*[f"i{k}" for k in range(950)]), id_ttl_ms=1)

    async def empty() -> bool:
        return {(1, 0, 0, 0, 0)} == {await each.shape() for each in models}

    async with sweeping(model.connection, 2) as both:
        await until(empty)
        assert 8 * 950 == sum(stats.swept for stats in both)


@pytest.mark.parametrize("cluster", [False, True])
async def test_a_name_whose_model_was_never_created_leaves_the_index(model, quick, cluster):
    """Found by two walks, as after a kill -9 between the index and the model; one that is then created stays.

    So does one that nobody has in a cluster: its server may have lost it, and be restored.
    """
    names, catalog = ("m inc0", "never inc1", "young inc1"), Catalog(model.connection)
    others = [(f"z{number}", INCARNATION) for number in range(5)]  # on the next pages
    for other in others:
        await catalog.create(*other, b"{}")
    await model.connection.ask(*[("ZADD", INDEX, 0, member) for member in names])
    await model.connection.ask(("SET", ModelKeys("m", "inc0").deleted, 1))  # it was deleted, up to the index
    model.connection.topology.sole = None if cluster else model.connection.topology.sole
    sweeps = Sweeper(model.connection, Stats())
    await sweeps._walk()
    assert 9 == await catalog.count()
    assert (await catalog.create("young", "inc1", b"{}")).created
    await sweeps._walk()
    assert [("m", INCARNATION), ("young", "inc1"), *others] == (await catalog.names(9))[0]
    assert (8 if cluster else 7) == await catalog.count()
    assert [[b"m inc0"]] == await model.connection.ask(("ZRANGE", TOMBSTONES, 0, -1))


async def test_a_full_store_is_swept_all_the_same(model, quick):
    """Removing what has expired is what makes room."""
    await model.append(many(*[f"i{k}" for k in range(950)]), id_ttl_ms=1)
    await model.connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    async with sweeping(model.connection) as (stats,):
        await until(lambda: 950 == stats.swept)
    assert 0 == (await model.shape())[1]


async def test_a_store_that_does_not_answer_is_waited_for(quick, monkeypatch, tmp_path):
    """The sweeper goes on."""
    monkeypatch.setattr(sweeper, "BACKOFF_S", 0.01)
    connection = Connection(f"unix://{tmp_path}/nobody", 0.1)
    async with sweeping(connection):
        await asyncio.sleep(0.2)
    await connection.close()
