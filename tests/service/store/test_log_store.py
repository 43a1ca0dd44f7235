"""Reading the log on, and what is remembered of it: answers, writers by age, who listens to appends."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from core.entry import Reset, Rows
from service.errors import WritersFull
from service.store.keys import ModelKeys
from service.store.log import codec, log_page
from service.store.log.append_notices import AppendNotice, AppendNotices
from service.store.log.appends import READ_BYTES_MAX, RECORD, WRITER_LIFE_MS, WRITERS_MAX, Answers, SeenId, SegmentIn
from service.store.log.log import Head
from service.store.redis.connection import Call
from tests.service.store_fixtures import INCARNATION, Model, by_name, many, one


def _watched(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Call], dict[str, Any]]]:
    """The calls of each round trip from now on, and how they went."""
    run, seen = model.connection.run, []

    async def watched(calls, **how):
        seen.append((calls, how))
        return await run(calls, **how)

    monkeypatch.setattr(model.connection, "run", watched)
    return seen


async def test_entries_come_up_to_the_limit_and_reading_goes_on(model):
    """None comes with an append where the first is too large, one at least when read on; ``complete``: whether all."""
    for k in range(40):
        await model.append(SegmentIn(b"%03d" % k * 100))
    other = Model(model.connection, "w2")
    answer = await other.append(max_bytes=1, version=0, uid=INCARNATION)
    assert (41, [], False) == (answer.made, [entry.version for entry in answer.entries], answer.complete)
    again = await other.again()
    assert answer == again
    most = await Model(model.connection, "w3").append(max_bytes=330 * 12)
    assert (list(range(1, len(most.entries) + 1)), False) == ([e.version for e in most.entries], most.complete)
    assert 10 <= len(most.entries) <= 12
    versions, version, uid = [], 1, "w1-1"
    while version < 42:
        read = await model.log.read_after("m", INCARNATION, version, uid, 330 * 5, 7)
        assert read.complete == (read.entries[-1].version == 42)
        versions += [entry.version for entry in read.entries]
        version, uid = read.entries[-1].version, read.entries[-1].uid
    assert list(range(2, 43)) == versions
    assert ((), True) == ((end := await model.log.read_after("m", INCARNATION, 42, uid, 1, 1)).entries, end.complete)
    assert 3 == len((await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1 << 20, 3)).entries)


async def test_a_gap_in_the_log_ends_what_is_read(model):
    """Whoever reads on from the gap is told that the log is trimmed."""
    for _ in range(5):
        await model.append()
    await model.connection.ask(("XDEL", model.keys.log, "3-0"))
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
    assert ([1, 2], False) == ([entry.version for entry in read.entries], read.complete)
    assert "trimmed" == (await model.log.read_after("m", INCARNATION, 2, "w1-2", 1 << 20, 10)).code
    answer = await Model(model.connection, "w2").append()
    assert ([1, 2], False) == ([entry.version for entry in answer.entries], answer.complete)
    await model.connection.ask(("XDEL", model.keys.log, "5-0"))
    read = await model.log.read_after("m", INCARNATION, 3, "w1-3", 1 << 20, 10)
    assert ([4], False) == ([entry.version for entry in read.entries], read.complete)


async def test_an_entry_keeps_the_place_of_its_only_segment(model):
    """The request before it had been sent already."""
    await model.append(one("a"))
    await model.append(one("a"), SegmentIn(b"x"))
    read = await model.log.read_after("m", INCARNATION, 1, "w1-1", 1 << 20, 10)
    assert [((1, b"x", ()),)] == [entry.segments for entry in read.entries]


@pytest.mark.parametrize("other", "uptns0")
async def test_an_entry_with_other_fields_is_foreign(model, other):
    """Its fields are as many as ours, but one has another name."""
    await model.append()
    (((_, fields),),) = await model.connection.ask(("XRANGE", model.keys.log, "-", "+"))
    fields[3] = "w1-1"  # it follows this entry
    fields[2 * fields[::2].index(other.encode())] = "z"
    await model.connection.ask(("XADD", model.keys.log, "2-0", *fields))
    await model.connection.ask(("HSET", model.keys.meta, "version", "2"))
    read = await model.log.read_after("m", INCARNATION, 1, "w1-1", 1 << 20, 10)
    assert "foreign" == read.code


async def test_answers_are_added_once_and_to_their_version_only(model):
    """Never over an answer, never for an id that was learned by another version, never for a forgotten one."""
    await model.append(one("a", digest=""), one("b"))
    items = [("a", 1, b"first"), ("b", 2, b"wrong version"), ("nobody", 1, b"x")]
    assert [True] == await model.log.record_answers([model.answered(items)])
    assert [True] == await model.log.record_answers([model.answered([("a", 1, b"second")])])
    assert [SeenId(1, 0, 0, "", b"first"), SeenId(1, 1, 0, "d", None), None] == await model.log.lookup(
        "m", INCARNATION, ["a", "b", "nobody"]
    )
    assert [False] == await model.log.record_answers([Answers("m", "inc0", 1, "w1-1", [("a", 1, b"x")])])
    assert [] == [key for key in await model.contents() if b"inc0" in key]


async def test_many_answers_go_some_sets_at_a_time_and_one_that_fails_fails_alone(model, monkeypatch):
    """No round trip has more than sixteen; what has been stored stays so, and can be stored again."""
    ids = [f"i{k}" for k in range(9_500)]
    await model.append(many(*ids), id_cap=10_000)
    trips = _watched(model, monkeypatch)
    answers = [model.answered([(seen_id, 1, b"a") for seen_id in ids[at : at + 500]]) for at in range(0, 9_500, 500)]
    lost = Answers("m", INCARNATION, 1, "of the lost tail", answers[0].items)
    assert [True] * 18 + [False] == await model.log.record_answers([*answers[:18], lost])
    sizes = [[(len(call.args) - 3) // 3 for call in calls if call.script is RECORD] for calls, _ in trips]
    assert [[500] * 16, [500] * 3] == sizes
    assert [True] * 19 == await model.log.record_answers(answers)
    assert {b"a"} == {seen.answer for seen in await model.log.lookup("m", INCARNATION, ids)}


async def test_reading_on_tells_whether_a_position_is_on_the_log(model):
    """Without bringing any entry, however large the next one is."""
    await model.append(SegmentIn(bytes(3 * READ_BYTES_MAX)))
    await model.append()
    told = [await model.log.joins("m", INCARNATION, *at) for at in ((0, INCARNATION), (2, "w1-2"), (1, "x"), (3, "x"))]
    assert ["ok", "ok", "fork", "ahead"] == told


async def test_a_large_entry_is_fetched_by_itself(model, monkeypatch):
    """The reply on the connection of the rows has none of it; it comes in a call of its own, with time for its size."""
    await model.append(SegmentIn(b"small"))
    await model.append(SegmentIn(bytes(3 * READ_BYTES_MAX)))
    await model.append(SegmentIn(bytes(5 * 2**20)))
    trips = _watched(model, monkeypatch)
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 2**30, 10, soon=True)
    assert ([1], False) == ([entry.version for entry in read.entries], read.complete)
    large = await model.log.read_after("m", INCARNATION, 1, "w1-1", 2**30, 10, soon=True)
    assert ([2], False) == ([entry.version for entry in large.entries], large.complete)
    (*looked, fetched) = [(*way.values(),) for _, way in trips]
    assert ([(True, 0), (True, 0)], False) == (looked, fetched[0])
    assert 3 * READ_BYTES_MAX < fetched[1] < 3 * READ_BYTES_MAX + 1000
    trips.clear()
    larger = await model.log.read_after("m", INCARNATION, 2, "w1-2", 2**30, 10)
    assert ([3], True) == ([entry.version for entry in larger.entries], larger.complete)
    small, large_one = (way["large_bytes"] for _, way in trips)
    assert (0, True) == (small, 5 * 2**20 < large_one < 5 * 2**20 + 1000)
    answer = await Model(model.connection, "w2").append(version=1, uid="w1-1", max_bytes=2**30)
    assert ("ok", (), False) == (answer.code, answer.entries, answer.complete)


async def test_answers_of_a_tail_that_was_cut_are_not_those_of_the_new_one(model):
    """The same id in the same version of another tail: only who joins the log may say what was answered."""
    await model.append(one("a"))
    before = await model.contents()
    for version, uid in ((1, "of the lost tail"), (2, "ahead")):
        lost = Answers("m", INCARNATION, version, uid, [("a", 1, b"otherwise")])
        assert [False] == await model.log.record_answers([lost])
    assert before == await model.contents()
    await model.append(one("b"))
    assert [True] == await model.log.record_answers([Answers("m", INCARNATION, 1, "w1-1", [("a", 1, b"told")])])
    assert [b"told"] == [seen.answer for seen in await model.log.lookup("m", INCARNATION, ["a"])]


async def test_the_heads_of_many_models_are_told_at_once(model):
    """With whom the name belongs to, or that there is none."""
    assert [Head(INCARNATION, 0, INCARNATION)] == await model.log.heads(["m"])
    await model.append()
    assert [None, Head(INCARNATION, 1, "w1-1")] == await model.log.heads(["nobody", "m"])
    assert [] == await model.log.heads([])


async def test_requests_committed_together_are_one_entry(model):
    """Kinds of an entry are told once each, in order, and its rows are summed; what cannot be read is unknown."""
    blobs = [Rows("s", None, np.ones((n, 2)), np.ones(n)) for n in (2, 3)]
    segments = [*map(codec.encode, (blobs[0], Reset(), blobs[1])), b"\xc1"]
    await model.append(*map(SegmentIn, segments))
    (found,) = await log_page.read_back(model.connection, "m", "inc1", 9, 9)
    assert (1, ("rows", "reset", "unknown"), 5) == (found.version, found.kinds, found.rows)
    assert [] == await log_page.read_back(model.connection, "m", "another", 9, 9)


async def _writers(model: Model) -> dict[str, list[int]]:
    (flat,) = await model.connection.ask(("HGETALL", model.keys.meta))
    found = by_name(flat).items()
    return {key.decode()[2:]: [*map(int, value.split(b":"))] for key, value in found if key.startswith(b"w:")}


async def _set(model: Model, **writers: str) -> None:
    await model.connection.ask(*[("HSET", model.keys.meta, f"w:{name}", value) for name, value in writers.items()])


async def test_writers_that_have_been_silent_for_long_are_forgotten(model):
    """When a new one comes; the young ones stay, whatever their number."""
    await model.append()
    now = int(1000 * time.time())
    await _set(model, old=f"7:1:{now - WRITER_LIFE_MS - 60_000}", young=f"7:1:{now - WRITER_LIFE_MS + 60_000}")
    await model.append()
    assert {"w1", "old", "young"} == (await _writers(model)).keys()
    await Model(model.connection, "w2").append(version=2, uid="w1-2")
    assert {"w1", "young", "w2"} == (await _writers(model)).keys()


async def test_a_writer_with_a_time_ahead_is_given_the_present_one(model):
    """A server whose clock was ahead has left it: still a retry's, and forgotten in the end."""
    await model.log.append([model.asks()])
    await _set(model, w1="1:1:9999999999999")
    assert 1 == (await model.again()).made
    answer = await Model(model.connection, "w2").append(version=1, uid="w1-1")
    assert {"w1": [1, 1, answer.time_ms], "w2": [1, 2, answer.time_ms]} == await _writers(model)
    assert 1 == (await model.again()).made
    assert "fenced" == (await model.log.append([model.asks(sequence=0)]))[0].code


async def test_too_many_young_writers_refuse_a_new_one_and_forget_nobody(model):
    """Loudly, with nothing written; those that are remembered go on, and so does the new one when others are old."""
    await model.append()
    now = int(1000 * time.time())
    await _set(model, **{f"v{k}": f"1:1:{now}" for k in range(WRITERS_MAX - 1)})
    before = await model.contents()
    new = Model(model.connection, "w2")
    refused = await new.append(one("a"), version=1, uid="w1-1")
    assert (WritersFull, True) == (type(refused), str(WRITERS_MAX) in refused.detail)
    assert before == await model.contents()
    assert 2 == (await model.append()).made
    await _set(model, v0=f"1:1:{now - WRITER_LIFE_MS - 60_000}")
    assert 3 == (await new.append(one("a"), version=2, uid="w1-2")).made


@pytest.mark.parametrize("segments", [(SegmentIn(b"row"),), (SegmentIn(b"row"), SegmentIn(b"row"))])
async def test_no_notice_is_sent_where_nobody_else_listens(model, segments):
    """A process that listens alone gets none of its own appends; as soon as another one listens, both get them."""
    connection, channel = model.connection, ModelKeys("m", "").notices
    own, other = AppendNotices(connection, "w1"), AppendNotices(connection, "w2")
    told: asyncio.Queue[AppendNotice] = asyncio.Queue()
    tasks = []

    async def listen(notices, heard):
        begun = asyncio.Event()
        notices.want("m")
        tasks.append(asyncio.create_task(notices.listen(heard, lambda _: begun.set())))
        await begun.wait()

    async with asyncio.timeout(10):
        assert "m" not in own.subscribed
        await model.append(*segments)
        await listen(own, told.put_nowait)
        assert "m" in own.subscribed
        await model.append(*segments, listening=1)
        await connection.ask(("PUBLISH", channel, f"{INCARNATION} 9 w9.1"))
        assert AppendNotice("m", INCARNATION, 9, "w9.1") == await told.get()

        await listen(other, told.put_nowait)
        await model.append(*segments, listening=1)
        assert [AppendNotice("m", INCARNATION, 3, "w1-3")] * 2 == [await told.get(), await told.get()]
        own.drop("m")
        assert "m" not in own.subscribed
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_listener_that_is_cancelled_twice_leaves_no_connection(connection):
    """Once by its task group and once by a loop that ends, the second time while it ends its own task."""
    notices, begun = AppendNotices(connection, "w1"), asyncio.Event()
    notices.want("m")
    listening = asyncio.create_task(notices.listen(lambda _: None, lambda _: begun.set()))
    async with asyncio.timeout(10):
        await begun.wait()
        channel = ModelKeys("m", "").notices
        assert [1] == await connection.listeners([channel])
        for _ in range(2):
            listening.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(listening, return_exceptions=True)
        while [0] != await connection.listeners([channel]):
            await asyncio.sleep(0.01)
