"""Reading the log on, and what is remembered of it."""

from service.store.log.appends import SOON_BYTES_MAX, Answers, SeenId, SegmentIn
from service.store.log.log import Head
from service.store.log.scripts import RECORD
from tests.service.store_fixtures import INCARNATION, Model, many, one


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
    run, sizes = model.connection.run, []

    async def watched(calls, **how):
        sizes.append([(len(call.args) - 3) // 3 for call in calls if call.script is RECORD])
        return await run(calls, **how)

    monkeypatch.setattr(model.connection, "run", watched)
    answers = [model.answered([(seen_id, 1, b"a") for seen_id in ids[at : at + 500]]) for at in range(0, 9_500, 500)]
    lost = Answers("m", INCARNATION, 1, "of the lost tail", answers[0].items)
    assert [True] * 18 + [False] == await model.log.record_answers([*answers[:18], lost])
    assert [[500] * 16, [500] * 3] == sizes
    assert [True] * 19 == await model.log.record_answers(answers)
    assert {b"a"} == {seen.answer for seen in await model.log.lookup("m", INCARNATION, ids)}


async def test_reading_on_tells_whether_a_position_is_on_the_log(model):
    """Without bringing any entry, however large the next one is."""
    await model.append(SegmentIn(bytes(3 * SOON_BYTES_MAX)))
    await model.append()
    told = [await model.log.joins("m", INCARNATION, *at) for at in ((0, INCARNATION), (2, "w1-2"), (1, "x"), (3, "x"))]
    assert ["ok", "ok", "fork", "ahead"] == told


async def test_a_large_entry_is_fetched_by_itself(model, monkeypatch):
    """The reply on the connection of the rows has none of it; it comes in a call of its own, with time for its size."""
    await model.append(SegmentIn(b"small"))
    await model.append(SegmentIn(bytes(3 * SOON_BYTES_MAX)))
    await model.append(SegmentIn(bytes(5 * 2**20)))
    run, ways = model.connection.run, []

    async def watched(calls, **how):
        ways.append(how)
        return await run(calls, **how)

    monkeypatch.setattr(model.connection, "run", watched)
    read = await model.log.read_after("m", INCARNATION, 0, INCARNATION, 2**30, 10, soon=True)
    assert ([1], False) == ([entry.version for entry in read.entries], read.complete)
    large = await model.log.read_after("m", INCARNATION, 1, "w1-1", 2**30, 10, soon=True)
    assert ([2], False) == ([entry.version for entry in large.entries], large.complete)
    assert [(True, 0), (True, 0), (False, 0)] == [(*way.values(),) for way in ways]
    ways.clear()
    larger = await model.log.read_after("m", INCARNATION, 2, "w1-2", 2**30, 10)
    assert ([3], True) == ([entry.version for entry in larger.entries], larger.complete)
    assert [True, False] == [way["large_bytes"] == 0 for way in ways]
    assert 5 * 2**20 < ways[1]["large_bytes"] < 5 * 2**20 + 1000
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
