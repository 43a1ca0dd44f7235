"""The script's quick way does what the whole script does: each step of a history, with it and without it."""

import re

from service.store.catalog import Catalog
from service.store.log import appends
from service.store.log.appends import NamedState, SegmentIn
from service.store.lua import script
from tests.service.store_fixtures import INCARNATION, Model, one

WHOLE = script(
    "basics", "look", "sweep", "store_summary", "join", "append",
    WRITER_LIFE_MS=appends.WRITER_LIFE_MS, WRITERS_MAX=appends.WRITERS_MAX,
)  # fmt: skip


async def history(connection):
    """What a store answers and holds after each step, without its times."""
    await connection.ask(("FLUSHALL",))
    assert (await Catalog(connection).create("m", INCARNATION, b"{}")).created
    first, second = Model(connection, "w1"), Model(connection, "w2")
    seen = []

    async def step(asked):
        answer = repr(await asked)
        log = await connection.ask(("XRANGE", first.keys.log, "-", "+"), ("HGETALL", first.keys.meta))
        held = repr([log, sorted(await first.contents())])
        seen.append(re.sub(r"\b1\d{12}\b", "TIME", f"{answer} {held}"))

    for blob in (b"row", b"", bytes(range(256)) * 99):
        await step(first.append(SegmentIn(blob)))
    await step(first.again())  # a lost reply
    second.version, second.uid = first.version, first.uid
    await step(second.append())  # a writer's first
    await step(second.append())
    await step(first.append())  # behind the head
    await step(first.append())
    await step(first.append(sequence=1))  # fenced
    await step(first.append(uid="other"))  # a fork
    await step(first.append(version=99))  # ahead
    await step(first.append(incarnation="inc2"))  # gone
    await step(first.append(state_version="99"))  # other code
    await step(first.append(summary=b"{}"))
    await step(first.append(one("a")))
    await step(first.append(SegmentIn(b"row"), SegmentIn(b"")))
    await connection.ask(("HSET", first.keys.pending, "p", "told"), ("ZADD", first.keys.pending_due, "9e12", "p"))
    await step(first.append(SegmentIn(b"row", pending="p")))  # settles a prediction
    await step(first.append(SegmentIn(b"row", state=NamedState("ab" * 16, 9))))  # a state that is not there
    await step(first.append(listening=-1))
    return seen


async def test_the_quick_way_does_what_the_whole_script_does(connection, monkeypatch):
    """Answers, log and meta are the same, whichever appends go the quick way."""
    quick = await history(connection)
    monkeypatch.setattr(appends, "APPEND", WHOLE)
    whole = await history(connection)
    for at, (left, right) in enumerate(zip(quick, whole, strict=True)):
        assert left == right, f"step {at}"


async def test_rows_alone_go_the_quick_way(model, monkeypatch):
    """A writer's second append is written without the rest of the script."""
    await model.append()
    monkeypatch.setattr(appends, "APPEND", script("append_quick"))
    assert (await model.append()).code == "ok"
    assert (await model.shape())[0] == 2
