"""Bodies that come as gzip: every route reads them, up to what they may unpack to."""

import asyncio
import gzip
import json
import random
import zlib

import pytest

from service.api.http import bodies
from service.api.http.bodies import FIRST_BYTES, MEMBERS_MAX, PIECE_BYTES, gunzip, is_gzip
from service.errors import NotGzip, WrongEncoding
from tests.service.api_fixtures import CSV, DFOP, JSON, NPY, STATE, columnar, npy, problem

PACKED = {"Content-Encoding": "gzip"}
ROW = {"features": {"a": 0.25, "b": -0.5}}
TEXT = random.Random(7).randbytes(40_000) + b"0,1\n" * 100_000
MIB = 2**20


def packed(body):
    return gzip.compress(body if isinstance(body, bytes) else json.dumps(body).encode(), mtime=0)


async def test_pieces_are_bounded_and_whole():
    """Together they are the text; the first one, which the event loop unpacks itself, is small."""
    text = TEXT * 9
    first, *others = gunzip(gzip.compress(text, mtime=0), 2**30)
    assert text == first + b"".join(others)
    assert FIRST_BYTES >= len(first)
    assert PIECE_BYTES == max(map(len, others))


@pytest.mark.parametrize("end", [b"", b"\0", b"\0" * 100_000])
async def test_several_files_are_one_body(end):
    """As gzip itself reads them, with zeros behind the last."""
    files = [TEXT, b"", b"x", TEXT[:100]]
    assert b"".join(files) == b"".join(gunzip(b"".join(map(gzip.compress, files)) + end, 2**30))
    assert [] == [*gunzip(gzip.compress(b""), 1)]


def _damaged():
    whole = gzip.compress(TEXT, mtime=0)
    yield from (b"", b"{}", b"\0", whole[1:], zlib.compress(TEXT), whole + b"{}", whole + b"\0{}", whole + whole[:30])
    yield from (whole[:at] for at in (1, 9, 10, 11, 5_000, len(whole) - 9, len(whole) - 8, len(whole) - 1))
    yield from (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (0, 2, len(whole) - 6, len(whole) - 1))
    yield gzip.compress(b"") * (MEMBERS_MAX + 1)


@pytest.mark.parametrize("body", [*_damaged()], ids=lambda body: f"{len(body)} bytes")
async def test_what_is_no_gzip_is_found(body):
    """Cut off anywhere, changed by a bit, with something behind it, or in too many files."""
    with pytest.raises(NotGzip):
        [*gunzip(body, 2**30)]


async def test_a_bomb_is_not_unpacked():
    """Reading ends at the bound, wherever in a file that is."""
    bomb = gzip.compress(bytes(64 * MIB))
    for most in (1, FIRST_BYTES, 3 * MIB + 1):
        assert most == sum(map(len, gunzip(bomb, most)))


async def test_large_bodies_are_unpacked_in_a_thread(api, monkeypatch):
    """Only the first piece is unpacked where the event loop stands."""
    sizes, call = [], bodies.in_thread_if_large

    async def noting(size, *work):
        sizes.append(size)
        return await call(size, *work)

    monkeypatch.setattr(bodies, "in_thread_if_large", noting)
    body = packed(json.dumps(ROW).encode() + b" " * MIB)
    await api.post(f"{await api.learnt()}/predict", content=body, headers={**JSON, **PACKED})
    assert [bodies.FIRST_BYTES, bodies.PIECE_BYTES] == sizes[:2]


@pytest.mark.parametrize(
    ("coding", "expected"), [("gzip", True), (" GZip ", True), ("x-gzip", True), ("identity", False), ("", False)]
)
async def test_the_names_of_encodings(coding, expected):
    """In any case; nothing and identity are the same."""
    assert expected is is_gzip(coding)


@pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "gzip;q=1"])
async def test_other_encodings_are_refused(api, coding):
    """The answer names gzip, in its text and as the header that clients look at."""
    with pytest.raises(WrongEncoding):
        is_gzip(coding)
    path = await api.learnt()
    headers = {**JSON, "Content-Encoding": coding}
    for route in ("predict", "predict/batch", "feedback", "feedback/batch", "features/overlap", "reset"):
        answer = await api.ask("POST", f"{path}/{route}", content=b"x", headers=headers)
        found = problem(answer, 415, "Content-Encoding")
        assert (["gzip"], "gzip") == (found["errors"][0]["allowed"], answer.headers["accept-encoding"])


async def test_every_body_may_be_gzip(api):
    """Models, rows, batches in every form and states; with the answers of plain ones."""
    paths = [await api.new(labels=[0, 1]) for _ in range(2)]
    table = columnar(5)
    lines = ["a,b,y", *(f"{a},{b},{row % 2}" for row, (a, b) in enumerate(table["data"]))]
    array = [[*values, row % 2] for row, values in enumerate(table["data"])]
    asked = [
        ("feedback", JSON, json.dumps({**ROW, "label": 0}).encode()),
        ("feedback/batch", JSON, json.dumps({**table, "labels": [0, 1, 0, 1, 0]}).encode()),
        ("feedback/batch?label=y", CSV, "\n".join(lines).encode()),
        ("feedback/batch", NPY, npy(array)),
        ("predict", JSON, json.dumps(ROW).encode()),
        ("predict/batch", JSON, json.dumps(table).encode()),
        ("features/switch", JSON, b'{"action": "begin", "features": ["c"]}'),
        ("reset", JSON, b"{}"),
    ]
    for route, headers, body in asked:
        plain = await api.post(f"{paths[0]}/{route}", content=body, headers=headers)
        same = await api.post(f"{paths[1]}/{route}", content=packed(body), headers={**headers, **PACKED})
        assert {**plain, "incarnation": "", "name": ""} == {**same, "incarnation": "", "name": ""}
    answer = await api.ask("PUT", "/models/packed", content=packed(DFOP), headers={**JSON, **PACKED})
    assert 201 == answer.status_code
    state = await api.state(paths[0])
    answer = await api.ask("PUT", f"{paths[0]}/state", content=packed(state), headers={**STATE, **PACKED})
    assert 200 == answer.status_code, answer.text


async def test_a_body_that_comes_in_parts_may_be_gzip(api):
    """Large enough for a process to read it, and without a length."""
    path, body = await api.learnt(), packed(columnar(20_000))

    async def parts():
        for begin in range(0, len(body), 10_000):
            yield body[begin : begin + 10_000]

    answer = await api.ask("POST", f"{path}/predict/batch", content=parts(), headers={**JSON, **PACKED})
    assert (200, 20_000) == (answer.status_code, len(answer.json()["predictions"]))
    assert 0 == api.app.context.budget.used


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", packed(ROW)[:-4], packed(ROW) + b"{}", bytes(30)],
    ids=["empty", "not gzip", "cut off", "followed", "zeros"],
)
@pytest.mark.parametrize("route", ["feedback", "predict/batch"])
async def test_a_body_that_is_no_gzip_is_refused(api, body, route):
    """400, and nothing is learned."""
    path = await api.learnt()
    found = await api.refuses(f"{path}/{route}", 400, content=body, headers={**JSON, **PACKED})
    assert "/problems/not-gzip" == found["type"]


async def test_a_body_that_unpacks_to_too_much_is_refused(start):
    """413, whatever it is a body of; other bodies go on, and nothing stays counted."""
    small = await start(body_limit_mb=1)
    path, bomb = await small.learnt(), gzip.compress(bytes(50 * MIB))
    asked = [
        small.ask("POST", f"{path}/{route}", content=bomb, headers={**JSON, **PACKED}) for route in ("predict",) * 4
    ]
    asked += [small.ask("POST", f"{path}/feedback/batch?label=y", content=bomb, headers={**CSV, **PACKED})]
    for answer in await asyncio.gather(*asked):
        assert "unpacks to more than 1048576 bytes" in problem(answer, 413, "body")["detail"]
    fitting = json.dumps(columnar(1_000)).encode()
    fitting += b" " * (MIB - len(fitting))
    assert (
        200
        == (
            await small.ask("POST", f"{path}/predict/batch", content=packed(fitting), headers={**JSON, **PACKED})
        ).status_code
    )
    problem(
        await small.ask("POST", f"{path}/predict/batch", content=packed(fitting + b" "), headers={**JSON, **PACKED}),
        413,
    )
    assert 0 == small.app.context.budget.used


async def test_what_a_body_unpacks_to_counts(start):
    """While others are being read there is room for as much of it as the budget says."""
    full = await start(bodies_mb=1)
    path, budget, other = await full.learnt(), full.app.context.budget, {"headers": []}
    budget.reserve(other, MIB // 2)
    bomb = gzip.compress(bytes(MIB))
    problem(await full.ask("POST", f"{path}/predict/batch", content=bomb, headers={**JSON, **PACKED}), 503)
    assert MIB // 2 == budget.used
    budget.release(other)


async def test_a_key_stands_for_what_is_packed(api):
    """The same body is the same request, packed or not."""
    path, key = await api.learnt(), {**JSON, "Idempotency-Key": "k"}
    body = json.dumps({**ROW, "label": "UP"}).encode()
    first = await api.post(f"{path}/feedback", content=body, headers=key)
    again = await api.post(f"{path}/feedback", content=packed(body), headers={**key, **PACKED})
    assert {**first, "duplicate": True} == again
