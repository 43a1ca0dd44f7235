"""A body cut into lines: in whatever pieces it arrives, with what is held bounded, and long lines read elsewhere."""

import asyncio
import json
import random

import pytest
from starlette.requests import ClientDisconnect

from service.api.row_streams.decoding import FEEDBACK, decoded
from service.api.row_streams.intake import SEGMENT_BYTES, Intake
from service.errors import NotJson, TooLarge
from service.runtime import threads
from service.runtime.rows.reader_process import ReaderProcess
from tests.service.api_fixtures import DFOP, features
from tests.service.stream_client import serving
from tests.service.test_row_streams import labelled, refusal

LIMIT, ROWS = 300_000, 8
in_the_loop_of_the_service = pytest.mark.asyncio(loop_scope="module")


def arriving(parts, ended=True):
    """What a server's ``receive`` gives for a body in parts; without an end the client leaves."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.request", "body": b""} if ended else {"type": "http.disconnect"})
    given = iter(messages)

    async def receive():
        return next(given)

    return receive


async def taken(parts, held=None):
    """Every segment of lines."""
    intake = Intake(arriving(parts), LIMIT, ([] if held is None else held).append)
    found = []
    while lines := await intake.take(ROWS):
        found.append(lines)
    assert [] == await intake.take(ROWS)
    return found


def pieces(body, longest, numbers):
    """A body in pieces of random lengths."""
    at, found = 0, []
    while at < len(body):
        found.append(body[at : at + numbers.randint(1, longest)])
        at += len(found[-1])
    return found


@pytest.mark.parametrize("longest", [1, 10, 3000, 70_000, 2**20])
async def test_lines_are_the_same_however_they_arrive(longest):
    """Short and long ones, blank ones left out; the last one needs no end; too long ones are known, not kept."""
    numbers = random.Random(longest)
    lengths = [3, 1, 90_000, 5, 140_000, 17, LIMIT + 1, 2, LIMIT, 250_000, 40, 8] if longest > 10 else [3, 1, 17, 90]
    lines = [bytes([97 + number % 26]) * length for number, length in enumerate(lengths * 3)]
    body = b"\n\n \r\n".join(lines)
    found = await taken(pieces(body, longest, numbers))
    expected = [line if len(line) <= LIMIT else None for line in lines]
    flat = [line for segment in found for line in segment]
    # A line that arrives whole is measured where it is decoded.
    assert expected == [line if line is None or len(line) <= LIMIT else None for line in flat]
    assert max(map(len, found)) <= ROWS
    assert all(len(segment) == 1 or sum(map(len, segment)) <= SEGMENT_BYTES for segment in found)


async def test_what_has_arrived_goes_together():
    """Up to a segment's rows, in as few segments as that makes."""
    found = await taken([b"x\n" * 20, b"y\n" * 3 + b"z"])
    assert [8, 8, 4, 3, 1] == [*map(len, found)]
    assert b"z" == found[-1][0]


async def test_the_beginning_of_a_long_line_counts():
    """What is held of it is told as it grows; a short one is not counted."""
    held: list[int] = []
    await taken([b"a" * 60_000, b"b\nc"], held)
    assert [] == held
    await taken([b"a" * 60_000] * 4 + [b"\n"], held)
    assert [120_000, 180_000, 240_000] == held


async def test_a_client_that_leaves_ends_it():
    """In the middle of a line, too."""
    intake = Intake(arriving([b"x\ny"], ended=False), LIMIT, lambda _: None)
    assert [b"x"] == await intake.take(ROWS)
    with pytest.raises(ClientDisconnect):
        await intake.take(ROWS)


async def test_a_line_is_read_where_its_length_belongs(monkeypatch):
    """Several on the event loop, a long one in a thread, a very long one by the process; a longer one not at all."""
    inline, threaded = [], []
    monkeypatch.setattr(asyncio, "to_thread", _noting(asyncio.to_thread, threaded))
    reader = ReaderProcess()
    monkeypatch.setattr(reader, "call", _noting(reader.call, inline))
    row = json.dumps({"features": {"a": 1.0}, "label": 1}).encode()
    try:
        for pad, expected in ((0, (0, 0)), (threads.THREAD_BYTES, (1, 0)), (threads.PROCESS_BYTES, (1, 1))):
            (ask,) = (await decoded(FEEDBACK, 1, [row + b" " * pad], 2**20, reader)).asks
            assert {"a": 1.0} == ask.features
            assert expected == (len(threaded), len(inline))
        (ask,) = (await decoded(FEEDBACK, 1, [b"{" + b" " * threads.PROCESS_BYTES], 2**20, reader)).asks
        assert isinstance(ask, NotJson)
        long, short = (await decoded(FEEDBACK, 1, [None, row], 2**20, reader)).asks
        assert isinstance(long, TooLarge)
        assert {"a": 1.0} == short.features
    finally:
        reader.stop()


def _noting(call, calls):
    async def noted(*how):
        calls.append(how)
        return await call(*how)

    return noted


async def test_colons_in_texts_are_no_names():
    """Names that are given twice are refused, whatever stands in ids and labels beside them."""
    lines = [b'{"features":{"a:b":1,"c":2},"label":"x:y","id":"t:%d"}' % number for number in range(3)]
    lines[1] = lines[1].replace(b'"c"', b'"a:b"')
    first, twice, last = (await decoded(FEEDBACK, 1, lines, LIMIT, ReaderProcess())).asks
    assert [{"a:b": 1, "c": 2}] * 2 == [first.features, last.features]
    assert "is given twice" in str(twice)


@in_the_loop_of_the_service
async def test_a_line_over_the_limit_is_passed_over(start):
    """It is answered 413, and the lines around it as ever; one of nearly the limit is read."""
    api = await start(body_limit_mb=1)
    path = await api.new(DFOP)
    rows = [json.dumps(row).encode() for row in labelled(4)]
    rows[1] = b" " * 1_000_000 + rows[1]
    rows[2] = b'{"features":' + b" " * 3_000_000 + rows[2]
    async with serving(api.app) as server:
        client = await server.stream(f"{path}/feedback/stream")
        await client.send(b"\n".join(rows) + b"\n")
        found = await client.lines(4)
        assert [None, None, (3, 413), None] == [refusal(line) for line in found]
        assert [1, 2, 3] == [line["rows"] for line in found if "rows" in line]
        assert 0 == api.app.state.context.budget.used
        assert [None] == [refusal(line) for line in await client.ask([{"features": features(1), "label": "UP"}])]
