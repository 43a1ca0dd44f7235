"""Bodies: gzip on every route up to what it may unpack to, and a bound in bytes over all requests."""

import asyncio
import gzip
import json
import random
import zlib

import pytest

from service.api.http import bodies
from service.api.http.bodies import FIRST_BYTES, MEMBERS_MAX, PIECE_BYTES, RESERVED, BodyBudget, gunzip, is_gzip
from service.errors import BodiesFull, NotGzip, WrongEncoding
from tests.service.api_fixtures import CSV, DFOP, JSON, NPY, ROW, STATE, columnar, forms, problem
from tests.service.waiting import until

PACKED = {"Content-Encoding": "gzip"}
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


@pytest.mark.parametrize("others", [["gzip"], ["br"], ["identity", "gzip"]])
async def test_several_lines_are_several_encodings(api, others):
    """The first one alone would be gzip."""
    lines = [*JSON.items(), *(("Content-Encoding", coding) for coding in ("gzip", *others))]
    for route in ("predict", "feedback/batch"):
        await api.refuses(f"{await api.shared()}/{route}", 415, "Content-Encoding", content=packed(ROW), headers=lines)


async def test_every_body_may_be_gzip(api):
    """Models, rows, batches in every form and states; with the answers of plain ones."""
    paths = [await api.new(labels=[0, 1]) for _ in range(2)]
    table = columnar(5)
    labelled = {**table, "labels": [0, 1, 0, 1, 0]}
    sent = forms(labelled)
    asked = [
        ("feedback", JSON, json.dumps({**ROW, "label": 0}).encode()),
        ("feedback/batch", JSON, json.dumps(labelled).encode()),
        ("feedback/batch?label=y", CSV, sent["csv"]["content"].encode()),
        ("feedback/batch", NPY, sent["npy"]["content"]),
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


@pytest.mark.parametrize("body", [b"", b"{}", packed(ROW)[:-4]], ids=["empty", "not gzip", "cut off"])
async def test_a_body_that_is_no_gzip_is_refused(api, body):
    """With status 400, and nothing is learned; the test of gunzip above has the other kinds of damage."""
    for route in ("feedback", "predict/batch"):
        how = {"content": body, "headers": {**JSON, **PACKED}}
        assert "/problems/not-gzip" == (await api.refuses(f"{await api.shared()}/{route}", 400, **how))["type"]


async def test_a_body_that_unpacks_to_too_much_is_refused(start):
    """413 on every route; other bodies are still taken, and the budget is free again."""
    small = await start(body_limit_mb=1)
    path, bomb = await small.learnt(), gzip.compress(bytes(50 * MIB))

    async def ask(route, content, kind=JSON):
        return await small.ask("POST", f"{path}/{route}", content=content, headers={**kind, **PACKED})

    asked = [ask("feedback/batch?label=y", bomb, CSV), *(ask("predict", bomb) for _ in range(4))]
    for answer in await asyncio.gather(*asked):
        assert "unpacks to more than 1048576 bytes" in problem(answer, 413, "body")["detail"]
    fitting = json.dumps(columnar(1_000)).encode().ljust(MIB)
    assert 200 == (await ask("predict/batch", packed(fitting))).status_code
    problem(await ask("predict/batch", packed(fitting + b" ")), 413)
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


BODY = json.dumps(columnar(4_000)).encode()


async def test_the_budget_is_of_all_requests():
    """One body is taken whatever its size, and what one request reserves replaces what it had."""
    budget, first, second = BodyBudget(100, owner_of=lambda scope: scope.get("from", "")), {}, {"from": "elsewhere"}
    budget.reserve(first, 300)
    with pytest.raises(BodiesFull):
        budget.reserve(second, 1)
    budget.reserve(first, 400)
    budget.reserve(first, 200)
    assert (400, ("", 400)) == (budget.used, first[RESERVED])
    budget.release(first)
    budget.reserve(second, 60)
    budget.reserve(first, 40)
    with pytest.raises(BodiesFull):
        budget.reserve(first, 41)
    assert 100 == budget.used
    for request in (first, second, {}):
        budget.release(request)
    assert 0 == budget.used


async def send(app, parts, length=None, path="/models/m/predict/batch", client="10.0.0.1", more=()):
    """One request in parts; its status and headers. A part of None is a client that is gone."""
    headers = [(b"content-type", b"application/json"), *more]
    headers += [] if length is None else [(b"content-length", b"%d" % length)]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "root_path": ""}
    scope["client"] = (client, 1)
    told = []

    async def receive():
        part = await parts.get()
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part[0], "more_body": part[1]}

    async def answer(message):
        told.append(message)

    await app(scope, receive, answer)
    return told[0]["status"], dict(told[0]["headers"])


def begun(part):
    """A queue that has the first part of a body."""
    queue = asyncio.Queue()
    queue.put_nowait((part, True))
    return queue


KEYS = "greedy:one:read,modest:two:admin"
CLIENTS = {
    "keys": ({"api_keys": KEYS}, *(({"more": [(b"x-api-key", secret)]}) for secret in (b"one", b"two"))),
    "addresses": ({}, {"client": "10.0.0.1"}, {"client": "10.0.0.2"}),
    "addresses behind a proxy": (
        {"trusted_proxies": "10.0.0.0/24"},
        {"client": "10.0.0.1", "more": [(b"x-forwarded-for", b"8.8.8.8, 1.1.1.1, 10.0.0.2")]},
        {"client": "10.0.0.1", "more": [(b"x-forwarded-for", b"8.8.8.8")]},
    ),
}


@pytest.mark.parametrize("who", CLIENTS)
async def test_announced_bodies_that_do_not_come_keep_nobody_out(start, who):
    """Nine of 30 MB of which one byte has come: their sender is refused when it has half, and nobody else is."""
    settings, greedy, modest = CLIENTS[who]
    full = await start(bodies_mb=16, body_limit_mb=32, **settings)
    budget, headers = full.app.context.budget, dict(modest.get("more", ()))
    model = f"/models/{who.replace(' ', '-')}"
    assert 201 == (await full.ask("PUT", model, json=DFOP, headers=headers)).status_code
    row = {"features": {"a": 1, "b": 2}, "label": "UP"}
    assert 200 == (await full.ask("POST", f"{model}/feedback", json=row, headers=headers)).status_code
    batch = f"{model}/predict/batch"
    queues = [begun(b"{") for _ in range(9)]
    held = [asyncio.create_task(send(full.app, queue, 30 * MIB, batch, **greedy)) for queue in queues]
    await asyncio.sleep(0.1)
    assert [503, 503] == [task.result()[0] for task in held if task.done()]
    assert 7 * (MIB + 1) == budget.used
    assert [200] * 3 == [(await send(full.app, parts_of(BODY, 9_000), len(BODY), batch, **modest))[0] for _ in range(3)]
    for queue in queues:
        queue.put_nowait(None)
    await asyncio.gather(*held)
    assert 0 == budget.used


def parts_of(body, size):
    """A queue that has a body in parts."""
    queue = asyncio.Queue()
    for begin in range(0, len(body), size):
        queue.put_nowait((body[begin : begin + size], begin + size < len(body)))
    return queue


async def test_a_body_over_the_budget_is_refused_at_once(start):
    """By its announced length, before any of it is read; small rows go on."""
    full = await start(bodies_mb=1)
    budget = full.app.context.budget
    path = await full.learnt()
    waiting = begun(b"{")
    first = asyncio.create_task(send(full.app, waiting, MIB, f"{path}/predict/batch"))
    await until(lambda: budget.used)
    assert MIB == budget.used
    status, headers = await send(full.app, begun(b"{"), 70_000, f"{path}/predict/batch")
    assert (503, True) == (status, b"retry-after" in headers)
    assert 200 == (await full.ask("POST", f"{path}/predict", json={"features": {"a": 1, "b": 2}})).status_code
    problem(await full.ask("POST", f"{path}/predict/batch", content=b" " * 70_000, headers=JSON), 503)
    waiting.put_nowait(None)
    await first
    assert 0 == budget.used
    status, _ = await send(full.app, parts_of(BODY, 1_000), None, f"{path}/predict/batch")
    assert (200, 0) == (status, budget.used)


async def test_bytes_that_were_not_announced_count_as_they_come(start):
    """A body without a length is refused in the middle, and lets go of what it had."""
    full = await start(bodies_mb=1)
    budget = full.app.context.budget
    path = await full.learnt()
    waiting = begun(b" " * (MIB - 1000))
    first = asyncio.create_task(send(full.app, waiting, None, f"{path}/predict/batch"))
    await until(lambda: budget.used)
    status, _ = await send(full.app, parts_of(b" " * 80_000, 500), None, f"{path}/predict/batch")
    assert (503, MIB - 1000) == (status, budget.used)
    waiting.put_nowait((b" " * 1000, False))
    assert (400, 0) == ((await first)[0], budget.used)


async def test_the_budget_is_held_until_the_answer(api, monkeypatch):
    """What a request works on counts as well as what is being read."""
    path, budget, seen = await api.learnt(), api.app.context.budget, []
    read = bodies.read_body

    async def noting(*given):
        body = await read(*given)
        await asyncio.sleep(0)
        seen.append(budget.used)
        return body

    monkeypatch.setattr(bodies, "read_body", noting)
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", content=BODY, headers=JSON)).status_code
    assert ([len(BODY)], 0) == (seen, budget.used)
