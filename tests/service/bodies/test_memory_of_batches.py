"""What batches take in memory besides their bodies: what these are decoded to, and answers until they are read."""

import asyncio
import contextlib

import numpy as np
import pytest

from core.features import Schema
from core.features.feature import Feature
from service.api.http.media import CSV as CSV_MEDIA
from service.api.http.media import JSON as JSON_MEDIA
from service.api.http.media import NDJSON as NDJSON_MEDIA
from service.api.http.media import NPY as NPY_MEDIA
from service.api.http.media import SVMLIGHT
from service.api.oip.requests import decoded_bytes as tensor_bytes
from service.api.rows import batches, large_answers, predict
from service.api.rows.formats.tables import Sent, decoded_bytes
from service.errors import BodiesFull
from service.runtime import threads
from service.runtime.threads import Places
from service.server import progress
from tests.service.api_fixtures import DFOP, JSON, columnar, npy, problem
from tests.service.local_server import LocalServer, running
from tests.service.server.test_slow_readers import client_of
from tests.service.waiting import until

LABELS = [f"k{number}" for number in range(30)]
ROWS = 12_000  # of more than a MiB as they are decoded, in more than 256 KiB


async def started(*coroutines):
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    await asyncio.sleep(0)
    return tasks


async def test_places_are_taken_in_turn():
    """A small one does not overtake a large one; one of any size is let in when it is alone."""
    places = Places(10)
    await places.take(4)
    large, small = await started(places.take(500), places.take(1))
    assert (False, False, 4) == (large.done(), small.done(), places.used)
    places.give(4)
    await large
    assert (False, 500) == (small.done(), places.used)
    places.give(500)
    await small
    await places.take(9)
    assert 10 == places.used


async def test_a_bounded_number_waits_for_places(monkeypatch):
    """One more is refused; those that wait are not affected."""
    monkeypatch.setattr(threads, "WAITING_MAX", 2)
    places = Places(10)
    await places.take(10)
    waiting = await started(places.take(1), places.take(1))
    with pytest.raises(BodiesFull):
        await places.take(1)
    places.give(10)
    await asyncio.gather(*waiting)
    assert 2 == places.used


async def test_places_of_requests_that_end_are_free():
    """Whether they waited, or had just been let in; those behind them go on."""
    places = Places(10)
    await places.take(6)
    first, second, third = await started(places.take(5), places.take(4), places.take(1))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert (True, False, 10) == (second.done(), third.done(), places.used)
    places.give(6)  # lets the third one in, which is cancelled before it knows
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
    places.give(4)
    assert (0, True) == (places.used, third.cancelled())


async def test_large_bodies_wait_as_bytes(api, monkeypatch):
    """One is decoded, and the next when that is answered; smaller bodies and single rows do not wait for them."""
    path, budget, read = await api.learnt(), api.app.context.budget, []
    monkeypatch.setattr(budget.decoded, "most", 1)
    go, table, many = asyncio.Event(), batches.read_table, predict.predict_many

    def noting(form, sent, space):
        read.append(len(sent.body))
        return table(form, sent, space)

    async def waiting(*given, **more):
        if given[2].shape[0] == ROWS:
            await go.wait()
        return await many(*given, **more)

    monkeypatch.setattr(batches, "read_table", noting)
    monkeypatch.setattr(predict, "predict_many", waiting)
    ask = lambda rows: api.ask("POST", f"{path}/predict/batch", json=columnar(rows))  # noqa: E731
    held = await started(*(ask(ROWS) for _ in range(4)))
    await until(lambda: read)
    assert 200 == (await ask(4_000)).status_code
    await api.post(f"{path}/feedback", {"features": {"a": 1, "b": 2}, "label": "UP"})
    assert 2 == len(read)
    held.pop().cancel()
    go.set()
    assert [200] * 3 == [answer.status_code for answer in await asyncio.gather(*held)]
    await until(lambda: not budget.decoded.used)
    assert (0, 0) == (budget.others.used, budget.used)


async def test_rows_that_wait_for_their_model_are_an_array(api, monkeypatch):
    """And count as one: large bodies of a model that learns for long do not keep those of another model waiting."""
    busy, other = await api.learnt(), await api.learnt()
    places, array_bytes = api.app.context.budget.decoded, ROWS * 2 * 8
    monkeypatch.setattr(places, "most", 4 * 3 * array_bytes)
    table = columnar(ROWS)
    labelled = {**table, "labels": ["UP"] * ROWS}
    replica = await api.engine.models.get(busy.rpartition("/")[2])
    async with replica.lock:
        kinds = {"predict/batch": table, "evaluate": labelled, "feedback/batch": labelled}
        waiting = await started(*(api.ask("POST", f"{busy}/{kind}", json=body) for kind, body in kinds.items()))
        await until(lambda: (places.used, places.kept) == (0, 3 * array_bytes))
        answer = await asyncio.wait_for(api.ask("POST", f"{other}/predict/batch", json=table), 10)
        assert 200 == answer.status_code
    assert [200] * 3 == [answer.status_code for answer in await asyncio.gather(*waiting)]
    await until(lambda: (places.used, places.kept) == (0, 0))


async def test_documents_and_tensors_wait_as_bytes(api):
    """As tables do: what they are decoded to counts until they are answered."""
    path, places = await api.learnt(), api.app.context.budget.decoded
    name, data = path.rpartition("/")[2], columnar(ROWS)["data"]
    tensor = {"name": "features", "shape": [ROWS, 2], "datatype": "FP64", "data": data}
    await places.take(places.most)
    asked = await started(
        api.ask("PUT", "/models/other", json={"algorithm": "x" * 300_000}),
        api.ask("POST", f"/v2/models/{name}/infer", json={"inputs": [tensor]}),
    )
    await until(lambda: len(places._waiting) == 2, within_s=10)
    places.give(places.most)
    assert [422, 200] == [answer.status_code for answer in await asyncio.gather(*asked)]
    assert 0 == places.used


async def test_a_small_body_that_becomes_large_frees_its_place(api):
    """Its bytes are too few to count, but not the numbers of its rows."""
    wide, budget = [f"f{number}" for number in range(1_000)], api.app.context.budget
    path = await api.new({**DFOP, "features": wide})
    await budget.others.take(budget.others.most)
    (asked,) = await started(api.ask("POST", f"{path}/predict/batch", json={"rows": [{}] * 100}))
    await until(lambda: budget.others._waiting, within_s=10)
    budget.others.give(budget.others.most)
    problem(await asked, 422)
    assert (0, 0) == (budget.others.used, budget.used)


@pytest.mark.parametrize("error", [MemoryError, ValueError])
async def test_a_body_that_is_not_decoded_frees_its_place(api, monkeypatch, error):
    """Whatever went wrong; a lack of memory is 503."""
    path, budget = await api.learnt(), api.app.context.budget

    def failing(*_):
        raise error

    problem(await api.ask("POST", f"{path}/predict/batch", content=b"," * 400_000, headers=JSON), 400)
    assert (0, 0) == (budget.used, budget.decoded.used)
    monkeypatch.setattr(batches, "read_table", failing)
    answer = await api.ask("POST", f"{path}/predict/batch", json=columnar(ROWS))
    problem(answer, 503 if error is MemoryError else 500)
    assert (0, 0) == (budget.used, budget.decoded.used)


SIZED = {
    "long texts": (JSON_MEDIA, b'{"data":[["' + b"x" * 10_000 + b'"]]}', (4, 5)),
    "short texts": (JSON_MEDIA, b"[" + b'"xy",' * 10_000, (23, 25)),
    "lines": (NDJSON_MEDIA, b'{"features":{"a":1}}\n' * 1_000, (22, 25)),
    "csv": (CSV_MEDIA, b"a,b\n" + b"xy,z\n" * 1_000, (60, 70)),
    "doubles": (NPY_MEDIA, npy(np.ones((1_000, 2))), (5.9, 6.1)),
    "bytes": (NPY_MEDIA, npy(np.ones((9_000, 2)), np.int8), (40, 42)),
    "sparse": (SVMLIGHT, b"1 a:1 b:2\n" * 1_000, (40, 45)),
}


@pytest.mark.parametrize("kind", SIZED)
def test_the_memory_of_rows_is_estimated_from_their_bytes(kind):
    """So many times their size: more for many short values than for few long ones."""
    media, body, (low, high) = SIZED[kind]
    assert low < decoded_bytes(Sent(body, media, {}, 10_000, 2**20), None) / len(body) < high


def test_columns_that_are_not_sent_count():
    """A row takes as many numbers as its model has, however few it names; binary tensors more than their bytes."""
    space = Schema([Feature(f"f{number}") for number in range(1_000)])
    sent = Sent(b'{"rows":[{},{}]}', JSON_MEDIA, {}, 9, 2**20)
    assert 16_000 * 4 <= decoded_bytes(sent, space) - decoded_bytes(sent, None)
    assert 50_000 < tensor_bytes(2, Sent(b"{}" + bytes(1_000), JSON_MEDIA, {}, 9, 9)) < 51_000


async def test_rows_of_many_encoded_columns_are_fewer(api):
    """One text may become hundreds of numbers, and lags multiply them: of all rows at once, as they are learned."""
    texts = [{"name": "a", "type": "categorical", "buckets": 500}]
    path = await api.new({"algorithm": "fesl_c", "task": "regression", "features": texts, "lags": 9})
    most = 2**23 // (5_009 // 2)
    body = {"columns": ["a"], "data": [["x"]] * (most + 1), "labels": [1.0] * (most + 1)}
    refused = problem(await api.ask("POST", f"{path}/feedback/batch", json=body), 413, "data")
    assert f"<= {most} rows" == refused["errors"][0]["allowed"]


async def test_an_answer_that_would_be_too_large_is_refused(api, monkeypatch):
    """Before any row is predicted or learned, with the number of rows that would do."""
    path = await api.new({**DFOP, "labels": LABELS})
    name = path.rpartition("/")[2]
    table = columnar(200)
    labelled = {**table, "labels": ["k1"] * 200}
    await api.post(f"{path}/feedback", {"features": {"a": 1, "b": 2}, "label": "k1"})
    monkeypatch.setattr(large_answers, "ANSWER_BYTES_MAX", 9_000)
    refused = problem(await api.ask("POST", f"{path}/predict/batch", json=table), 413, "data")
    fewer = int(refused["errors"][0]["allowed"].removeprefix("<= ").removesuffix(" rows"))
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", json=columnar(fewer))).status_code
    assert 200 == (await api.ask("POST", f"{path}/evaluate", json=labelled)).status_code  # no answer with predictions
    problem(await api.ask("POST", f"{path}/feedback/batch", json=labelled), 413, "data")
    assert 1 == (await api.get(path))["rows"]
    tensor = {
        "name": "features",
        "shape": [200, 2],
        "datatype": "FP64",
        "data": [cell for row in table["data"] for cell in row],
    }
    answer = await api.ask("POST", f"/v2/models/{name}/infer", json={"inputs": [tensor]})
    assert 413 == answer.status_code
    assert api.app.context.budget.used == 0


async def test_all_answers_to_many_rows_are_counted(api, monkeypatch):
    """Of predictions, of rows that are learned, and of tensors: each with its size, until it has been sent."""
    path, budget, counted = await api.learnt(), api.app.context.budget, []
    keep, table = budget.keep, columnar(ROWS)
    monkeypatch.setattr(budget, "keep", lambda scope, size: (counted.append(size), keep(scope, size))[1])
    tensor = {"name": "features", "shape": [ROWS, 2], "datatype": "FP64", "data": table["data"]}
    answers = [
        await api.ask("POST", f"{path}/predict/batch", json=table),
        await api.ask("POST", f"{path}/feedback/batch", json={**table, "labels": ["UP"] * ROWS}),
        await api.ask("POST", f"/v2{path}/infer", json={"inputs": [tensor]}),
    ]
    assert counted == [len(answer.content) for answer in answers]
    assert 0 == budget.used


async def test_answers_that_are_not_read_are_counted(api, monkeypatch):
    """Until their clients are cut off: past the bound there is 503, then room again."""
    monkeypatch.setattr(progress, "STALL_S", 2.0)
    path, budget = await api.new({**DFOP, "labels": LABELS}), api.app.context.budget
    await api.post(f"{path}/feedback", {"features": {"a": 1, "b": 2}, "label": "k1"})
    body = b'{"columns":["a","b"],"data":[' + b",".join([b"[1,2]"] * 9_000) + b"]}"
    whole = await api.ask("POST", f"{path}/predict/batch", content=body, headers=JSON)
    size = len(whole.content)
    assert (200, 0) == (whole.status_code, budget.used)
    monkeypatch.setattr(budget, "most", 2 * size)
    head = f"POST {path}/predict/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    ask = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with running(LocalServer(api.app)) as server:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(await client_of(server))
            await asyncio.get_running_loop().sock_sendall(client, ask)
            await until(lambda: size == budget.used)
            problem(await api.ask("POST", f"{path}/predict/batch", content=body, headers=JSON), 503)
            await until(lambda: not budget.used)
        assert 200 == (await api.ask("POST", f"{path}/predict/batch", content=body, headers=JSON)).status_code
