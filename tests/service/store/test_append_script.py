"""The append script, branch by branch, in the order of its checks."""

import asyncio
import contextlib
import re
import signal

import pytest
from msgspec.structs import replace

from service.errors import StoreFull, Unreplicated
from service.store.catalog import Catalog
from service.store.log.appends import RememberedIds, SeenId, SegmentIn, SegmentOut
from service.store.log.entries import RawEntry
from service.store.pending import Pending
from service.store.redis.connection import Call, Connection, Safety
from tests.faults.servers import free_port
from tests.service.store_fixtures import INCARNATION, Model, Server, many, one
from tests.service.waiting import until

ADDED = SegmentOut("added")


async def test_an_append_makes_the_next_version(model):
    """The entry carries its uid, its predecessor's, the server's time, and the segments under their ordinals."""
    blob = bytes(range(256)) + b"\r\n\x00:,"
    answer = await model.append(SegmentIn(blob), SegmentIn(b""))
    assert ("ok", 1, "w1-1", 1, (ADDED, ADDED), (), True) == (
        answer.code, answer.head, answer.head_uid, answer.made, answer.segments, answer.entries, answer.complete,
    )  # fmt: skip
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 1 << 20, 10)
    expected = RawEntry(1, "w1-1", answer.time_ms, ((0, blob, ()), (1, b"", ())))
    assert (expected,) == read.entries
    (now,) = await model.connection.ask(("TIME",))
    assert 10_000 > abs(answer.time_ms - int(now[0]) * 1000)


async def test_gone_when_the_model_was_created_anew(model):
    """A writer of the old incarnation writes nothing, neither to the new one nor beside it, nor where there is none."""
    await model.append(one("a"))
    assert await Catalog(model.connection).delete("m")
    before = await model.contents()
    assert "gone" == (await model.append(one("b"))).code
    assert before == await model.contents()
    assert (await Catalog(model.connection).create("m", "inc2", b"{}")).created
    before = await model.contents()
    assert "gone" == (await model.append(one("b"))).code
    assert "gone" == (await model.log.read_after("m", INCARNATION, 1, "w1-1", 100, 1)).code
    assert before == await model.contents()


async def test_ahead_when_the_store_has_lost_the_tail(model):
    """A caller beyond the head is told so, with the head there is."""
    await model.append()
    model.version = 5
    answer = await model.append()
    assert ("ahead", 1, "w1-1") == (answer.code, answer.head, answer.head_uid)
    assert "ahead" == (await model.log.read_after("m", INCARNATION, 5, "?", 100, 1)).code
    assert 1 == (await model.shape())[0]


async def test_fork_where_the_uid_is_another(model):
    """At the head its own uid counts, behind it the one that the successor knows, at version 0 the incarnation."""
    for _ in range(3):
        await model.append()
    other = Model(model.connection, "w2")
    for version, uid in ((0, "other"), (1, INCARNATION), (2, "w1-1"), (3, "other")):
        assert "fork" == (await other.append(version=version, uid=uid)).code
        assert "fork" == (await other.log.read_after("m", INCARNATION, version, uid, 100, 1)).code
    assert 3 == (await model.shape())[0]
    assert "ok" == (await other.append(version=2, uid="w1-2")).code


async def test_trimmed_when_the_next_entry_is_not_there(model):
    """A caller from before the oldest entry has to reload; one at its edge need not."""
    for _ in range(3):
        await model.append()
    await model.connection.ask(("XTRIM", model.keys.log, "MINID", "3-0"))
    other = Model(model.connection, "w2")
    assert "trimmed" == (await other.append()).code
    assert "trimmed" == (await other.log.read_after("m", INCARNATION, 1, "w1-1", 100, 1)).code
    assert ("ok", 4) == ((answer := await other.append(version=2, uid="w1-2")).code, answer.made)


async def test_fenced_when_a_packet_of_the_past_arrives(model):
    """A lower sequence number than the writer's last is refused."""
    await model.append()
    old = model.last
    await model.append()
    before = await model.contents()
    (answer,) = await model.log.append([old])
    assert ("fenced", 2) == (answer.code, answer.head)
    assert before == await model.contents()


@pytest.mark.parametrize("key", ["idempotency", "idempotency_expiry"])
async def test_evicted_when_the_store_has_lost_ids(model, key):
    """Rows with ids are not added: they could be learned twice."""
    await model.append(one("a"))
    await model.connection.ask(("DEL", getattr(model.keys, key)))
    before = await model.contents()
    for again in ("a", "b"):
        assert "evicted" == (await model.append(one(again))).code
    assert before == await model.contents()
    assert "ok" == (await model.append(SegmentIn(b"row"))).code


def _mixed() -> tuple[SegmentIn, ...]:
    return (
        one("old"),
        SegmentIn(b"plain"),
        one("new"),
        one("new"),
        many("old", "x", "x", "y"),
        many("new", "x"),
        SegmentIn(b"two rows", ("both",), ("b",), 2),
    )


async def test_segments_seen_before_are_dropped_and_rows_are_skipped(model):
    """Ids count as seen from an earlier entry, another segment or another row; the rest is one entry."""
    await model.append(one("old"))
    await model.log.record_answers([model.answered([("old", 1, b"told:\x00")])])
    answer = await model.append(*_mixed())
    old = SeenId(1, 0, 0, "d", b"told:\x00")
    new, x = SeenId(2, 2, 0, "d", None), SeenId(2, 4, 1, "d", None)
    expected = (
        SegmentOut("seen", (), ((0, old),)),
        ADDED,
        ADDED,
        SegmentOut("seen", (), ((0, new),)),
        SegmentOut("added", (0, 2), ((0, old), (2, x))),
        SegmentOut("seen", (), ((0, new), (1, x))),
        ADDED,
    )
    assert expected == answer.segments
    read = await model.log.read_after("m", INCARNATION, 1, "w1-1", 1 << 20, 10)
    assert ((1, b"plain", ()), (2, b"row", ()), (4, b"rows", (0, 2)), (6, b"two rows", ())) == read.entries[0].segments
    known = await model.log.lookup("m", INCARNATION, ["x", "y", "both", "nobody"])
    assert [x, SeenId(2, 4, 3, "d", None), SeenId(2, 6, 0, "b", None), None] == known


async def test_a_segment_that_gives_an_id_another_digest_is_dropped_whole(model):
    """Against an earlier entry, an earlier segment or itself; only the rows concerned are told, on a retry as well."""
    await model.append(one("old", digest="o"))
    rows = (("new", "old"), ("old", "fresh"), ("x", "y", "x"), ("first", "z"), ("z",))
    digests = (("d", "o"), ("d", "d"), ("1", "d", "2"), ("d", "d"), ("other",))
    segments = [SegmentIn(b"rows", ids, each, len(ids)) for ids, each in zip(rows, digests, strict=True)]
    answer = await model.append(*segments)
    old, x, z = SeenId(1, 0, 0, "o", None), SeenId(2, 2, 0, "1", None), SeenId(2, 3, 1, "d", None)
    expected = (
        SegmentOut("added", (1,), ((1, old),)),
        SegmentOut("seen", (), ((0, old),)),
        SegmentOut("seen", (), ((2, x),)),
        ADDED,
        SegmentOut("seen", (), ((0, z),)),
    )
    assert expected == answer.segments
    assert [None] * 3 == await model.log.lookup("m", INCARNATION, ["fresh", "x", "y"])
    assert answer == await model.again()


async def test_a_retry_after_a_lost_reply_writes_nothing_and_answers_the_same(model):
    """Duplicates, skip lists and full segments included."""
    await model.append(one("old"))
    first = await model.append(*_mixed(), many("p", "q", "r", "s"), one("new"), id_cap=6)
    assert "full" == first.segments[7].status
    before = await model.contents()
    assert first == await model.again()
    assert before == await model.contents()


async def test_a_retry_tells_what_others_have_appended_before_it_and_not_itself(model):
    """Also when still others have gone on after it."""
    other = Model(model.connection, "w2")
    await other.append(SegmentIn(b"theirs"))
    first = await model.append(SegmentIn(b"mine"))
    assert (2, ((0, b"theirs", ()),)) == (first.made, first.entries[0].segments)
    await other.append(SegmentIn(b"later"))
    again = await model.again()
    assert replace(first, head=3, head_uid="w2-2") == again


async def test_a_retry_finds_its_entry_trimmed(model):
    """What became of the segments is known from the ids then, and the entry's time is not."""
    await model.append(one("old"))
    request = model.asks(*_mixed(), many("p", "q", "r", "s"), id_cap=6)
    (first,) = await model.log.append([request])
    other = Model(model.connection, "w2")
    await other.append(version=2, uid="w1-2")
    await model.connection.ask(("XTRIM", model.keys.log, "MINID", "3-0"))
    (again,) = await model.log.append([replace(request, version=2, uid="w1-2")])
    assert replace(first, head=3, head_uid="w2-1", time_ms=0) == again


async def test_a_retry_whose_ids_have_been_forgotten(model):
    """The entry still tells what was added and what was skipped; only what had been seen is not known any more."""
    await model.append(one("a"), many("b", "c", "b"), id_ttl_ms=1)
    await asyncio.sleep(0.01)
    assert (ADDED, SegmentOut("added", (2,), ())) == (await model.again()).segments


async def test_a_retry_from_a_later_version_brings_no_entries(model):
    """The caller has reloaded a state that holds the entry; there is nothing between the two."""
    await model.append()
    request = model.last
    await model.append()
    (fenced,) = await model.log.append([replace(request, version=2, uid="w1-2")])
    assert "fenced" == fenced.code
    again = replace(model.last, version=2, uid="w1-2")
    (answer,) = await model.log.append([again])
    assert ("ok", 2, (), True) == (answer.code, answer.made, answer.entries, answer.complete)


async def test_all_seen_makes_no_entry(model):
    """Nothing is written where nothing is new; the retry of it is as harmless."""
    await model.append(one("a"), many("b", "c"))
    before = await model.contents()
    answer = await model.append(one("a"), many("c", "b"))
    assert (None, 0, 1) == (answer.made, answer.time_ms, answer.head)
    assert ["seen", "seen"] == [segment.status for segment in answer.segments]
    assert answer == await model.again()
    assert before == await model.contents()


async def _writes(model):
    """How many writes the server has counted."""
    (told,) = await model.connection.ask(("INFO", "persistence"))
    return int(re.search(rb"rdb_changes_since_last_save:(\d+)", told)[1])


@pytest.mark.parametrize("seen_by", ["sequence", "id", "lookup"])
async def test_a_repeat_that_waits_for_replicas_counts_as_a_write_and_changes_nothing(model, seen_by):
    """A server may wait only for the writes of the connection that asks; without room for one it is refused."""
    await model.append(one("a"))
    again, safety = model.last if seen_by == "sequence" else model.asks(one("a")), Safety(0, 10)

    async def repeated(waiting):
        if seen_by == "lookup":
            return await model.log.lookup("m", INCARNATION, ["a"], waiting)
        (answer,) = await model.log.append([again], waiting)
        return answer

    before, written = await model.contents(), await _writes(model)
    first = await repeated(None)
    assert written == await _writes(model)
    assert first == await repeated(safety)
    assert written < await _writes(model)
    await model.connection.ask(("CONFIG", "SET", "maxmemory", "1"))
    assert first == await repeated(None)
    with contextlib.suppress(StoreFull):
        assert isinstance(await repeated(safety), StoreFull)
    assert before == await model.contents()


async def test_a_repeat_on_another_connection_waits_for_the_replicas_too(server):
    """While a replica hangs, neither the append nor a repeat or lookup of it counts; afterwards they do."""
    port, safety = free_port(), Safety(1, 200)
    primary = Server(server.binary, "--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = Server(server.binary, "--replicaof", "127.0.0.1", str(port))
    first, other = Connection(primary.url, 5.0), Connection(primary.url, 5.0)
    try:
        await Catalog(first).create("m", INCARNATION, b"{}")
        writer, reader = Model(first), Model(other)
        request, ready = writer.asks(one("a")), Call(None, ("ready",), ("SET", "ready", "1"))
        await until(lambda: _reached(first, ready))
        replica.signal(signal.SIGSTOP)
        assert not await _safe(writer, request, safety)
        assert not await _safe(reader, request, safety)
        assert not await _safe(reader, replace(request, writer="w2"), safety)
        with pytest.raises(Unreplicated):
            await reader.log.lookup("m", INCARNATION, ["a"], safety)
        replica.signal(signal.SIGCONT)
        await until(lambda: _safe(reader, request, safety))
        assert [None] != await reader.log.lookup("m", INCARNATION, ["a"], safety)
    finally:
        replica.signal(signal.SIGCONT)
        for each in (first, other):
            await each.close()
        replica.end()
        primary.end()


async def _reached(connection, call):
    return await connection.run([call], safety=Safety(1, 1000)) == [b"OK"]


async def _safe(model, request, safety):
    (answer,) = await model.log.append([request], safety)
    return answer.safe


async def test_full_drops_the_segment_and_lets_the_others_pass(model):
    """Remembering is capped per model; a segment without ids, or with seen ones, needs no room."""
    answer = await model.append(one("a"), many("b", "c", "d"), one("a"), SegmentIn(b"x"), one("e"), one("f"), id_cap=2)
    assert ["added", "full", "seen", "added", "added", "full"] == [s.status for s in answer.segments]
    assert (1, 2, 2, 0, 0) == await model.shape()
    full = SegmentOut("full", remembered=RememberedIds(2, answer.time_ms + 60_000, 0))
    assert (full, full) == (answer.segments[1], answer.segments[5])
    lowered = await model.append(SegmentIn(b"x"), one("g"), id_cap=1)
    assert (ADDED, full) == lowered.segments
    only_full = await model.append(one("g"), id_cap=1)
    assert (None, (full,)) == (only_full.made, only_full.segments)
    assert 59_000 < only_full.segments[0].remembered.wait_ms <= 60_000
    assert 0 == answer.segments[1].remembered.wait_ms - 60_000


async def test_full_without_any_id_leaves_nothing_to_wait_for(model):
    """One request has more ids than are ever remembered."""
    answer = await model.append(many("a", "b"), id_cap=1)
    assert (None, (SegmentOut("full", remembered=RememberedIds(0, 0, 0)),)) == (answer.made, answer.segments)
    assert 0 == answer.segments[0].remembered.wait_ms


async def test_expired_ids_are_forgotten_and_swept(model):
    """An id past its time is new again, makes room at once, and is swept in passing."""
    await model.append(*[one(f"a{i}") for i in range(5)], id_ttl_ms=1)
    await asyncio.sleep(0.01)
    assert [None] == await model.log.lookup("m", INCARNATION, ["a0"])
    answer = await model.append(one("a0"), one("b"), id_cap=2)
    assert (ADDED, ADDED) == answer.segments
    assert (2, 2, 2, 0, 0) == await model.shape()
    assert [SeenId(2, 0, 0, "d", None)] == await model.log.lookup("m", INCARNATION, ["a0"])


async def test_the_sweep_is_bounded_and_keeps_pace(model):
    """One append does not pay for all that has expired, but for more than it adds; without ids, for nothing."""
    ids = [f"i{k}" for k in range(9000)]
    await model.append(many(*ids), id_ttl_ms=1, id_cap=10_000)
    await asyncio.sleep(0.01)
    await model.append()
    assert 9000 == (await model.shape())[1]
    await model.append(one("a"), id_cap=10_000)
    assert 9000 - 2002 + 1 == (await model.shape())[1]
    await model.append(many(*[f"j{k}" for k in range(1200)]), id_cap=10_000)
    assert 6999 - 4400 + 1200 == (await model.shape())[1]


async def test_ten_thousand_ids_in_one_segment(model):
    """Long lists go to the server's commands in parts."""
    ids = [f"i{k}" for k in range(10_000)]
    assert (ADDED,) == (await model.append(many(*ids), id_cap=20_000)).segments
    answer = await model.append(many("new", *ids), id_cap=20_000)
    assert (tuple(range(1, 10_001)), 10_000) == (answer.segments[0].skip, len(answer.segments[0].seen))
    answers = [(seen_id, 1, b"a") for seen_id in ids]
    assert [True] == await model.log.record_answers([model.answered(answers)])
    assert {b"a"} == {seen.answer for seen in await model.log.lookup("m", INCARNATION, ids)}


async def test_a_thousand_segments_and_no_more(model):
    """The bound is checked where the request is made."""
    answer = await model.append(*[many(f"a{k}", f"b{k}", "a0") for k in range(1000)], id_cap=10_000)
    assert 1000 == len(answer.segments)
    with pytest.raises(ValueError):
        model.asks(*[SegmentIn(b"") for _ in range(1001)])
    with pytest.raises(ValueError):
        replace(model.last, segments=())


@pytest.mark.parametrize("wrong", [(("a", "b"), ("d", "d"), 3), (("a",), (), 1), (("a",), ("d:e",), 1)])
def test_a_segment_has_no_id_or_one_or_one_per_row(wrong):
    """And a digest for each, without the colon that ends it in the record."""
    with pytest.raises(ValueError):
        SegmentIn(b"", *wrong)


async def test_pending_predictions_leave_with_their_segment(model):
    """Only those whose segment was added; expired ones are swept and counted."""
    keys = model.keys
    await model.connection.ask(
        ("HSET", keys.pending, "p1", "x", "p2", "x", "p3", "x", "late", "x"),
        ("ZADD", keys.pending_due, "9e12", "p1", "9e12", "p2", "9e12", "p3", 1, "late"),
    )
    await model.append(one("a", pending="p1"), one("a", pending="p2"), one("b", pending="p3"), id_cap=1)
    assert [[b"p2", b"p3"]] == [sorted((await model.connection.ask(("HKEYS", keys.pending)))[0])]
    assert (1, 1, 1, 2, 2) == await model.shape()
    assert 1 == (await Pending(model.connection).counts("m", INCARNATION))[1]


async def test_what_fails_for_one_model_does_not_concern_another(model):
    """One pipeline, three models: one is broken, one is not there, one goes on."""
    await Catalog(model.connection).create("broken", INCARNATION, b"{}")
    await model.connection.ask(("SET", Model(model.connection, name="broken").keys.log, "no stream"))
    broken, missing = (Model(model.connection, name=name).asks() for name in ("broken", "missing"))
    answers = await model.log.append([broken, missing, model.asks()])
    assert "the store gave an unexpected answer" == answers[0].detail
    assert ["gone", "ok"] == [answer.code for answer in answers[1:]]


async def test_an_odd_id_is_an_id(model):
    """Half a surrogate pair, control characters and colons are remembered like others."""
    odd = ["\ud800", "a:b:c", "\x00", "ü", " "]
    await model.append(*[one(i) for i in odd])
    assert list(range(5)) == [seen.ordinal for seen in await model.log.lookup("m", INCARNATION, odd)]
