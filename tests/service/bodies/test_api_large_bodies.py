"""Large bodies leave the event loop, are read one at a time, once, and no further than their bounds."""

import asyncio
import json
import threading

import msgspec
import numpy as np
import pytest

from core.features import Schema
from core.problems import Invalid
from service.api.http import json_body
from service.runtime import threads
from service.runtime.rows.row_validation import RowValidator
from service.runtime.threads import THREAD_BYTES, TURN_BYTES, BodyReader
from tests.service.api_fixtures import CSV, DFOP, JSON, forms, problem

ROWS = 10_000
DATA = (np.arange(2.0 * ROWS).reshape(-1, 2) / ROWS).tolist()
LABELS = [0, 1] * (ROWS // 2)


@pytest.fixture
def read_in(monkeypatch):
    """Which of the decoder, the validator and the schema's readers were called, and in which threads."""
    found = {}

    def noting(where, name):
        called = getattr(where, name)

        def noted(*given, **named):
            found.setdefault(name, set()).add(threading.get_ident())
            return called(*given, **named)

        monkeypatch.setattr(where, name, noted)

    noting(json_body, "read")
    for name in ("feedback", "prediction"):
        noting(RowValidator, name)
    for name in ("row", "numbers", "matrix"):
        noting(Schema, name)
    return found


@pytest.mark.parametrize("kind", ["json", "csv", "npy"])
@pytest.mark.parametrize("route", ["feedback/batch", "predict/batch"])
async def test_large_tables_are_decoded_and_checked_in_a_thread(api, read_in, route, kind):
    """In every form; nothing of it happens on the loop's own thread."""
    path = await api.new(labels=[0, 1])
    read_in.clear()
    labels = {"labels": LABELS} if route == "feedback/batch" else {}
    how = forms({"columns": ["a", "b"], "data": DATA, **labels})[kind]
    assert THREAD_BYTES < len(how.get("content") or json.dumps(how["json"]))
    assert ROWS == len((await api.post(f"{path}/{route}", **how))["predictions"])
    assert (3 if kind == "json" else 2) == len(read_in)
    assert threading.get_ident() not in set().union(*read_in.values())


async def test_a_small_row_stays_on_the_loop(api, read_in):
    """A thread would cost more than it is worth."""
    path = await api.learnt()
    assert {"read", "feedback", "row"} <= set(read_in)
    assert {threading.get_ident()} == set().union(*read_in.values())
    assert 3 == (await api.get(path))["rows"]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b'{"id":"order:1137"}', 1),
        (b'{"a:b":"\\":\\\\","c":[{"d":"::"}]}', 3),
        (b'{"\\\\":1,"\\":":2}', 2),
        (b'["a:",":b"]', 0),
    ],
)
async def test_colons_in_strings_are_not_counted(monkeypatch, body, names):
    """A body of as many names as its request has fields is not read a second time."""
    monkeypatch.setattr(json_body, "_parsed", None)
    json_body.refuse_repeated(body, names)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a":{"b":1,"b":[]},"c":[[0],[{"d":1,"d":2,"d":3}]]}', ["a.b", "c[1][0].d"]),
        (b'{"a":{"b":1,"b":2},"a":{"c":1,"c":{"d":1,"d":1}}}', ["a", "a.b", "a.c", "a.c.d"]),
        (b'{"":1,"":2}', [""]),
        (b"[" + b",".join([b'{"a":1,"a":2}'] * 30) + b"]", [f"[{at}].a" for at in range(20)]),
    ],
)
async def test_every_repeated_name_is_named(body, fields):
    """By its path, in the order of the body; the first 20 of them."""
    with pytest.raises(json_body.Invalid) as refused:
        json_body.refuse_repeated(body, -1)
    assert fields == [problem.field for problem in refused.value.problems]


async def test_a_body_without_repeated_names_is_taken_however_it_nests():
    """The second reading decides, not the count."""
    json_body.refuse_repeated(b'{"a":{"a":{"a":[{"a":1},{"a":1}]}}}', 4)


async def test_too_many_rows_are_refused_before_they_are_checked(start, read_in):
    """Wrong cells do not matter any more; rows without cells, or lists in cells, are counted and not even decoded."""
    small = await start(batch_rows_max=2)
    path = await small.learnt(labels=[0, 1])
    await small.refuses(f"{path}/predict/batch", 413, "data", content="a,b\n1,2\n3,4\nx,y\n", headers=CSV)
    data = {"columns": ["a", "b"], "data": [[1, 2], [3, 4], ["x", "y"]]}
    await small.refuses(f"{path}/predict/batch", 413, "data", json=data)
    read_in.clear()
    for data in ([[]] * 20, [[[]] * 20], [[{}] * 20]):
        await small.refuses(f"{path}/predict/batch", 413, "data", json={"columns": ["a", "b"], "data": data})
    assert {} == read_in
    name = "[{" * 20
    data = {"columns": ["a", name], "data": [[1, 2]]}
    await small.refuses(f"{path}/predict/batch", 422, "columns[1]", json=data)


MANY = 20_000
TABLE = {"columns": ["a", "b"], "data": [[0.1234567890123456 + row, -row] for row in range(MANY)]}


def large(body):
    """The content of a request that is large enough for the thread."""
    content = json.dumps(body).encode()
    return {"content": content + b" " * (THREAD_BYTES + 1 - len(content)), "headers": JSON}


@pytest.mark.parametrize(
    ("content", "headers", "status", "field"),
    [
        (json.dumps({**TABLE, "data": [*TABLE["data"] * 3, [1, "x"]]}), JSON, 422, f"data[{3 * MANY}][1]"),
        (json.dumps({**TABLE, "data": [*TABLE["data"] * 3, [1, float("nan")]]}), JSON, 400, f"data[{3 * MANY}][1]"),
        ('{"columns":["a"],' + json.dumps({**TABLE, "data": TABLE["data"] * 3})[1:], JSON, 422, "columns"),
        ('{"columns":["a","b"],"data":[' + "[]," * 400_000 + "[]]}", JSON, 413, "data"),
        ("a,b\n" + "\n" * 2_000_000, CSV, 422, "data"),
        ("a,b\n" + "1,2\n" * 400_000, CSV, 413, "data"),
    ],
)
async def test_a_large_body_is_refused_as_a_small_one(api, content, headers, status, field):
    """The answer names the first wrong place, and nothing is learned."""
    assert THREAD_BYTES < len(content)
    await api.refuses(f"{await api.shared()}/predict/batch", status, field, content=content, headers=headers)


NAMES = [f"{at:0>190}" for at in range(2_000)]
VALUES = dict.fromkeys(NAMES, 0.5)


async def test_a_large_row_is_read_in_the_thread(api, read_in):
    """It is learned and predicted as a table of one row; ids, keys and what else stands beside it are the same."""
    path = await api.new(algorithm="odm", params={}, features=NAMES)
    read_in.clear()
    row = large({"features": VALUES, "label": "UP", "id": "a"})
    first = await api.ask("POST", f"{path}/feedback", **row)
    assert (200, 1, False) == (first.status_code, first.json()["rows"], first.json()["duplicate"])
    assert (await api.ask("POST", f"{path}/feedback", **row)).json()["duplicate"]
    keyed = large({"features": VALUES, "label": "DOWN"})
    keyed["headers"] = {**keyed["headers"], "Idempotency-Key": "k"}
    told = [(await api.ask("POST", f"{path}/feedback", **keyed)).json() for _ in range(2)]
    assert [(2, False), (2, True)] == [(each["rows"], each["duplicate"]) for each in told]
    one = (await api.ask("POST", f"{path}/predict", **large({"features": VALUES, "track": True}))).json()
    many = await api.post(f"{path}/predict/batch", {"columns": NAMES, "data": [[0.5] * len(NAMES)]})
    assert [one["prediction"]] == many["predictions"]
    assert {"read", "feedback", "prediction", "row", "numbers"} == set(read_in)
    assert threading.get_ident() not in set().union(*read_in.values())
    await api.refuses(f"{path}/feedback", 422, "labels", **large({"features": VALUES, "labels": "UP"}))
    await api.refuses(f"{path}/predict", 422, f"features.{NAMES[0]}", **large({"features": {**VALUES, NAMES[0]: "x"}}))


@pytest.mark.parametrize(
    "content",
    [
        b'{"features":{' + b",".join(b'"%07d":1' % at for at in range(200_000)) + b"}}",
        b'{"features":{' + b'"a":1,' * 200_000 + b'"a":1}}',
        b'{"features":{"a":[' + b"1," * 200_000 + b"1]}}",
    ],
)
async def test_a_row_of_too_many_values_is_not_decoded(api, content):
    """They are counted first."""
    for route in ("predict", "feedback"):
        await api.refuses(f"{await api.shared()}/{route}", 422, "body", content=content, headers=JSON)


DECODER = msgspec.json.Decoder(dict)


async def test_values_are_counted_outside_of_strings():
    """Commas in names and texts separate nothing."""
    body = b'{"a,,":",,,\\",","b":[1,2],"c":"\\\\"}'
    json_body.large(body, DECODER, 3)
    with pytest.raises(Invalid):
        json_body.large(body, DECODER, 2)


async def test_a_large_object_is_read_in_the_thread(api):
    """Bodies of routes that take no rows, valid and not."""
    path = await api.new()
    wide = {**DFOP, "features": NAMES, "algorithm": "dynamic_odm"}
    answer = await api.ask("PUT", f"{path}-wide", **large(wide))
    assert (201, NAMES) == (answer.status_code, answer.json()["config"]["features"])
    problem(await api.ask("PUT", f"{path}-none", **large({**wide, "features": [*NAMES, 1]})), 422, "features[2000]")
    for content, status, field in (
        (b'{"algorithm":"dfop","features":[' + b"1," * 700_000 + b"1]}", 422, "body"),
        (b"[" * 300_000, 400, None),
        (b'{"a":1,"a":2' + b" " * 300_000 + b"}", 422, "a"),
    ):
        problem(await api.ask("PUT", f"{path}-none", content=content, headers=JSON), status, field)


# ------------------------------------------------------------------------------------------------ one at a time


async def test_one_body_is_read_at_a_time():
    """The others wait, in the order they came."""
    reader, begun, go, order = BodyReader(), threading.Event(), threading.Event(), []

    def work(name):
        begun.set()
        go.wait(10)
        order.append(name)

    calls = [asyncio.ensure_future(reader.call(work, name)) for name in "abc"]
    await asyncio.to_thread(begun.wait, 10)
    await asyncio.sleep(0.05)
    assert [] == order
    go.set()
    await asyncio.gather(*calls)
    reader.stop()
    assert [*"abc"] == order


async def test_few_smaller_bodies_are_read_at_a_time():
    """However many come: the event loop has its turn between those that are read."""
    reader, go, reading, most = BodyReader(), threading.Event(), set(), []

    def work():
        reading.add(threading.current_thread())
        most.append(len(reading))
        go.wait(10)
        reading.discard(threading.current_thread())

    calls = [asyncio.ensure_future(reader.call_if_large(THREAD_BYTES + 1, work)) for _ in range(20)]
    await asyncio.sleep(0.05)
    go.set()
    await asyncio.gather(*calls)
    reader.stop()
    assert (20, threads.READERS) == (len(most), max(most))
    assert threading.current_thread() is await reader.call_if_large(THREAD_BYTES, threading.current_thread)


async def test_the_loop_goes_on_between_bodies_that_it_reads():
    """One in each turn, in the order they came; little ones are read at once."""
    reader, read = BodyReader(), list[object]()

    async def others():
        while len(read) < 20:
            read.append("turn")
            await asyncio.sleep(0)

    going = asyncio.create_task(others())
    await asyncio.gather(*(reader.call_if_large(TURN_BYTES + 1, read.append, at) for at in range(5)))
    await going
    assert [*range(5)] == [one for one in read if one != "turn"]
    assert all("turn" in read[read.index(at) : read.index(at + 1)] for at in range(4))
    calls = (reader.call_if_large(TURN_BYTES, read.append, at) for at in "ab")
    await asyncio.gather(*calls, asyncio.to_thread(str))
    assert [*"ab"] == read[-2:]
    reader.stop()


async def test_more_bodies_than_may_wait_are_refused_at_once(api, monkeypatch):
    """503 with Retry-After, while small rows go on; the next one is read once there is room."""
    monkeypatch.setattr(threads, "WAITING_MAX", 1)
    path, go, reader = await api.learnt(), threading.Event(), api.app.context.reader
    waiting = asyncio.ensure_future(reader.call(go.wait, 10))
    await asyncio.sleep(0)
    answer = await api.ask("POST", f"{path}/predict/batch", **large(TABLE))
    problem(answer, 503)
    assert "retry-after" in answer.headers
    assert 200 == (await api.ask("POST", f"{path}/predict", json={"features": {"a": 1, "b": 2}})).status_code
    go.set()
    await waiting
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", **large(TABLE))).status_code


async def test_stopping_begins_no_other_body():
    """What waits is not begun."""
    reader, go = BodyReader(), threading.Event()
    at_work, waiting = (asyncio.ensure_future(reader.call(go.wait, 10)) for _ in range(2))
    await asyncio.sleep(0.05)
    reader.stop()
    go.set()
    assert await at_work
    with pytest.raises(asyncio.CancelledError):
        await waiting
