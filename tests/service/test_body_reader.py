"""Large bodies are read one at a time in a thread of their own, to the same rows and the same refusals."""

import asyncio
import json
import threading

import msgspec
import pytest

from core.problems import Invalid
from service.api.http import json_body
from service.runtime import threads
from service.runtime.threads import BodyReader
from tests.service.api_fixtures import CSV, DFOP, JSON, problem

ROWS = 20_000
TABLE = {"columns": ["a", "b"], "data": [[0.1234567890123456 + row, -row] for row in range(ROWS)]}
LABELS = ["UP", "DOWN"] * (ROWS // 2)


def large(body):
    """The content of a request that is large enough for the thread."""
    content = json.dumps(body).encode()
    return {"content": content + b" " * (threads.THREAD_BYTES + 1 - len(content)), "headers": JSON}


async def test_a_large_batch_is_learned_and_predicted_as_a_small_one(api):
    """The same rows leave the same model, whoever reads them."""
    near, away = await api.new(), await api.new()
    for start in range(0, ROWS, 5_000):
        part = slice(start, start + 5_000)
        body = {"columns": TABLE["columns"], "data": TABLE["data"][part], "labels": LABELS[part]}
        told = await api.post(f"{near}/feedback/batch", body)
        answer = await api.ask("POST", f"{away}/feedback/batch", **large(body))
        assert (200, told["predictions"]) == (answer.status_code, answer.json()["predictions"])
    assert (await api.get(f"{near}/weights"))["weights"] == (await api.get(f"{away}/weights"))["weights"]
    predicted = await api.ask("POST", f"{away}/predict/batch", **large(TABLE))
    assert (await api.post(f"{near}/predict/batch", TABLE))["predictions"] == predicted.json()["predictions"]


@pytest.mark.parametrize(
    ("content", "headers", "status", "field"),
    [
        (json.dumps({**TABLE, "data": [*TABLE["data"] * 3, [1, "x"]]}), JSON, 422, f"data[{3 * ROWS}][1]"),
        (json.dumps({**TABLE, "data": [*TABLE["data"] * 3, [1, float("nan")]]}), JSON, 400, f"data[{3 * ROWS}][1]"),
        ('{"columns":["a"],' + json.dumps({**TABLE, "data": TABLE["data"] * 3})[1:], JSON, 422, "columns"),
        ('{"columns":["a","b"],"data":[' + "[]," * 400_000 + "[]]}", JSON, 413, "data"),
        ("a,b\n" + "\n" * 2_000_000, CSV, 422, "data"),
        ("a,b\n" + "1,2\n" * 400_000, CSV, 413, "data"),
    ],
)
async def test_a_large_body_is_refused_as_a_small_one(api, content, headers, status, field):
    """By its first wrong place; nothing is learned."""
    path = await api.learnt()
    assert threads.THREAD_BYTES < len(content)
    await api.refuses(f"{path}/predict/batch", status, field, content=content, headers=headers)


NAMES = [f"{at:0>190}" for at in range(2_000)]
VALUES = dict.fromkeys(NAMES, 0.5)


async def test_a_large_row_is_read_in_the_thread(api):
    """It is learned and predicted as a table of one row; ids, keys and what else stands beside it are the same."""
    path = await api.new(algorithm="odm", params={}, features=NAMES)
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
    path = await api.learnt()
    for route in ("predict", "feedback"):
        await api.refuses(f"{path}/{route}", 422, "body", content=content, headers=JSON)


DECODER = msgspec.json.Decoder(dict)


@pytest.mark.parametrize(("most", "refused"), [(3, False), (2, True)])
async def test_values_are_counted_outside_of_strings(most, refused):
    """Commas in names and texts separate nothing."""
    body = b'{"a,,":",,,\\",","b":[1,2],"c":"\\\\"}'
    if refused:
        with pytest.raises(Invalid):
            json_body.large(body, DECODER, most)
    else:
        json_body.large(body, DECODER, most)


async def test_a_large_object_is_read_in_the_thread(api):
    """Bodies of routes that take no rows, valid and not."""
    path = await api.new()
    wide = {**DFOP, "features": NAMES, "algorithm": "dynamic_odm"}
    answer = await api.ask("PUT", f"{path}-wide", **large(wide))
    assert (201, NAMES) == (answer.status_code, answer.json()["config"]["features"])
    problem(await api.ask("PUT", f"{path}-none", **large({**wide, "features": [*NAMES, 1]})), 422, "features[2000]")
    content = b'{"algorithm":"dfop","features":[' + b"1," * 700_000 + b"1]}"
    problem(await api.ask("PUT", f"{path}-none", content=content, headers=JSON), 422, "body")
    problem(await api.ask("PUT", f"{path}-none", content=b"[" * 300_000, headers=JSON), 400)
    problem(
        await api.ask("PUT", f"{path}-none", content=b'{"a":1,"a":2' + b" " * 300_000 + b"}", headers=JSON), 422, "a"
    )


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
