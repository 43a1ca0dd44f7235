"""Large bodies are read by a process of their own, to the same rows and the same refusals."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from core.config import Config
from core.features.labels import LabelSet
from core.problems import Invalid
from service.api import json_body, row_requests
from service.api.tables import Sent
from service.errors import OnepassError, Unavailable
from service.runtime import threads
from service.runtime.rows import reader_process, row_rules
from service.runtime.rows.reader_process import ReaderProcess
from service.runtime.rows.row_validation import RowValidator
from tests.service.api_fixtures import CSV, DFOP, JSON, columnar, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = 20_000
TABLE = {"columns": ["a", "b"], "data": [[0.1234567890123456 + row, -row] for row in range(ROWS)]}
LABELS = ["UP", "DOWN"] * (ROWS // 2)
SPARSE = {"algorithm": "sparse_dfop", "task": "classification", "params": {"compressed_dim": 8}, "labels": ["UP", "no"]}


def large(body):
    """The content of a request that is large enough for the process."""
    content = json.dumps(body).encode()
    return {"content": content + b" " * (threads.PROCESS_BYTES + 1 - len(content)), "headers": JSON}


def dead(pid):
    """Whether a process has ended, within some seconds."""
    for _ in range(500):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def reader(api):
    """The reader of the service."""
    return api.app.state.context.reader


# ------------------------------------------------------------------------------------------------ the same as inline


def validator(config, named=True):
    """A validator of a model that has just been created."""
    space = config.space if named else None
    return RowValidator("m", config, LabelSet(config.labels or ()), space, space, "steady", lambda _: None)


def outcome(call):
    """What a function returns or raises, to be compared."""
    try:
        found = call()
    except (Invalid, OnepassError) as error:
        return type(error), error.args, error.problems
    if isinstance(found, row_requests.Refused):
        return found._replace(error=(type(found.error), str(found.error), getattr(found.error, "problems", ())))
    if isinstance(found, np.ndarray):
        return found.tolist()
    return found.identity, found.size, found.rows.space, found.rows.features, found.rows.X.tolist(), list(found.rows.y)


@pytest.mark.parametrize("key", [None, "a key"])
@pytest.mark.parametrize(
    ("model", "kind", "body"),
    [
        (DFOP, "application/json", json.dumps({**columnar(4), "labels": ["UP", "DOWN"] * 2, "ids": list("wxyz")})),
        (DFOP, "application/json", json.dumps({**columnar(2), "labels": ["UP", False]})),
        (DFOP, "application/json", json.dumps({"columns": ["a", "b"], "data": [[1, "x"]], "labels": ["UP"]})),
        (DFOP, "application/json", '{"columns":["a","b"],"data":[[1,NaN]],"labels":["UP"]}'),
        (DFOP, "application/json", '{"columns":["a"],"columns":["b"],"data":[],"labels":[]}'),
        (DFOP, "text/csv", "a,b,y\n1,2,UP\n3,,DOWN\n"),
        (DFOP, "text/csv", "a,b,y\n1,2,UP\n3,4,DOWN\n"),
        (DFOP, "text/csv", "a,b\n1,2\n"),
        (SPARSE, "text/x-svmlight", "UP a:1 b:2\nno c:3\n"),
        (SPARSE, "text/x-svmlight", "UP a:1 a:2\n"),
        (SPARSE, "application/json", '{"rows":[{"names":["a"],"values":[1]}],"labels":["no"]}'),
        ({**DFOP, "features": None}, "application/json", json.dumps({**columnar(1), "labels": ["DOWN"]})),
        ({**DFOP, "features": None, "ignore": ["b"]}, "text/csv", "a,b,y\ngold,,UP\n"),
        ({**DFOP, "features": [{"name": "a", "categories": [1, 2]}], "ignore": ["b"]}, "text/csv", "a,b,y\n3,x,UP\n"),
        ({**DFOP, "features": [{"name": "a", "categories": [1, 2]}], "unknown": "error"}, "text/csv", "a,y\n3,UP\n"),
    ],
)
async def test_the_process_says_what_the_loop_would_say(model, kind, body, key):
    """Rows, identities and refusals with every problem, whatever the form."""
    config = Config.parse(model)
    own, reader = validator(config, config.space is not None), ReaderProcess()
    query = {"label": "y"} if kind == "text/csv" else {}
    sent = Sent(body.encode(), kind, query, b"", key, 1000, 100, 2**20)
    try:
        given = (row_requests.feedback, sent._replace(body=b""), row_rules.plain(own))
        away = await asyncio.gather(
            reader.call(row_requests.read_plain, lambda: given, sent.body), return_exceptions=True
        )
        assert reader.pid is not None
    finally:
        reader.stop()
    told = outcome(lambda: raised(away[0]))
    assert outcome(lambda: row_requests.feedback(sent, own)) == told


def raised(found):
    """A result that came back, or the exception that did."""
    if isinstance(found, Exception):
        raise found
    return found[0]


async def test_a_large_batch_is_learned_and_predicted_as_a_small_one(api, reader):
    """The same rows leave the same model, whoever reads them."""
    near, away = await api.new(), await api.new()
    for start in range(0, ROWS, 5_000):
        part = slice(start, start + 5_000)
        body = {"columns": TABLE["columns"], "data": TABLE["data"][part], "labels": LABELS[part]}
        told = await api.post(f"{near}/feedback/batch", body)
        answer = await api.ask("POST", f"{away}/feedback/batch", **large(body))
        assert (200, told["predictions"]) == (answer.status_code, answer.json()["predictions"])
    assert reader.pid is not None
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
async def test_a_large_body_is_refused_as_a_small_one(api, reader, content, headers, status, field):
    """By its first wrong place; nothing is learned, and the process goes on."""
    path = await api.learnt()
    assert threads.PROCESS_BYTES < len(content)
    await api.refuses(f"{path}/predict/batch", status, field, content=content, headers=headers)
    assert reader.pid is not None


NAMES = [f"{at:0>190}" for at in range(2_000)]
VALUES = dict.fromkeys(NAMES, 0.5)


async def test_a_large_row_is_read_by_the_process(api, reader):
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
    assert reader.pid is not None
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
    """They are counted, no further than the bound."""
    path = await api.learnt()
    for route in ("predict", "feedback"):
        await api.refuses(f"{path}/{route}", 422, "body", content=content, headers=JSON)


@pytest.mark.parametrize(("most", "refused"), [(3, False), (2, True)])
async def test_values_are_counted_outside_of_strings(most, refused):
    """Commas in names and texts separate nothing."""
    body = b'{"a,,":",,,\\",","b":[1,2],"c":"\\\\"}'
    if refused:
        with pytest.raises(Invalid):
            json_body.refuse_many(body, most)
    else:
        json_body.refuse_many(body, most)


async def test_a_large_object_is_read_by_the_process(api, reader):
    """Bodies of routes that take no rows, valid and not."""
    path = await api.new()
    wide = {**DFOP, "features": NAMES, "algorithm": "dynamic_odm"}
    answer = await api.ask("PUT", f"{path}-wide", **large(wide))
    assert (201, NAMES) == (answer.status_code, answer.json()["config"]["features"])
    assert reader.pid is not None
    problem(await api.ask("PUT", f"{path}-none", **large({**wide, "features": [*NAMES, 1]})), 422, "features[2000]")
    content = b'{"algorithm":"dfop","features":[' + b"1," * 700_000 + b"1]}"
    problem(await api.ask("PUT", f"{path}-none", content=content, headers=JSON), 422, "body")
    problem(await api.ask("PUT", f"{path}-none", content=b"[" * 300_000, headers=JSON), 400)
    problem(
        await api.ask("PUT", f"{path}-none", content=b'{"a":1,"a":2' + b" " * 300_000 + b"}", headers=JSON), 422, "a"
    )


async def test_a_state_that_would_be_too_large_is_refused_for_a_large_body(start):
    """What the process proposes is asked for in the service, where the limit is known."""
    small = await start(model_limit_mb=1)
    path = await small.new({"algorithm": "vigo", "task": "classification"}, features=None, labels=None)
    names = [f"x{at}" for at in range(400)]
    body = {"columns": names, "data": [[1.0] * 400] * 50, "labels": [*range(50)]}
    await small.refuses(f"{path}/feedback/batch", 422, **large(body))


# ------------------------------------------------------------------------------------------------ its life


async def test_a_body_whose_reader_dies_is_refused_and_the_next_is_read(api, reader, monkeypatch):
    """503 with Retry-After; another process takes the place of the dead one."""
    path = await api.learnt()
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", **large(TABLE))).status_code
    first = reader.pid
    os.kill(first, signal.SIGKILL)
    answer = await api.ask("POST", f"{path}/predict/batch", **large(TABLE))
    problem(answer, 503)
    assert "retry-after" in answer.headers
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", **large(TABLE))).status_code
    assert reader.pid not in (None, first)


async def test_without_a_process_a_thread_reads(monkeypatch, caplog):
    """Where the system makes none; a warning says so once."""

    def refuse(_):
        raise OSError("no process here")

    monkeypatch.setattr(reader_process, "_spawn", refuse)
    reader = ReaderProcess()
    try:
        with caplog.at_level(logging.WARNING):
            assert [3, 2] == [await reader.call(shifted, lambda: (1,), body) for body in (b"ab", b"c")]
        assert reader.pid is None
    finally:
        reader.stop()
    assert 1 == caplog.text.count("no process here")


def shifted(number, body):
    """A function that both processes can import."""
    return number + len(body)


async def test_an_idle_process_is_ended():
    """And made again when it is needed."""
    reader = ReaderProcess(idle_s=0.05)
    try:
        assert 2 == await reader.call(len, tuple, b"ab")
        first = reader.pid
        while reader.pid is not None:
            await asyncio.sleep(0.01)
        assert dead(first)
        assert 1 == await reader.call(len, tuple, b"a")
    finally:
        reader.stop()


async def test_stopping_ends_it_whatever_it_is_at():
    """What it is at is answered 503, what waits is not begun."""
    reader = ReaderProcess()
    assert 1 == await reader.call(len, tuple, b"a")
    pid = reader.pid
    asked = [asyncio.ensure_future(reader.call(sleep, tuple, b"")) for _ in range(2)]
    await asyncio.sleep(0.1)
    reader.stop()
    assert dead(pid)
    at_work, waiting = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(at_work, Unavailable)
    assert isinstance(waiting, asyncio.CancelledError)


def sleep(_):
    """Longer than any test."""
    time.sleep(600)


async def test_it_ignores_what_stops_the_service_and_knows_no_setting(monkeypatch):
    """Ctrl-C and SIGTERM are the service's to act on; secrets are not handed on."""
    monkeypatch.setenv("ONEPASS_API_KEYS", "app:s3cret:admin")
    reader = ReaderProcess()
    try:
        assert 1 == await reader.call(len, tuple, b"a")
        process = psutil.Process(reader.pid)
        for kind in (signal.SIGINT, signal.SIGTERM):
            process.send_signal(kind)
        assert 2 == await reader.call(len, tuple, b"ab")
        assert process.pid == reader.pid
        assert [] == [name for name in process.environ() if name.startswith("ONEPASS_")]
    finally:
        reader.stop()


ORPHAN = """
import asyncio, time
from service.runtime.rows.reader_process import ReaderProcess
async def main():
    reader = ReaderProcess()
    await reader.call(len, tuple, b"")
    print(reader.pid, flush=True)
    time.sleep(60)
asyncio.run(main())
"""


async def test_it_ends_with_a_service_that_is_killed():
    """Also while nobody is left to tell it."""
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE) as service:
        pid = int(service.stdout.readline())
        assert psutil.pid_exists(pid)
        service.kill()
    assert dead(pid)


async def test_the_process_loads_no_learner():
    """A reader is small: neither compiled kernels nor the server."""
    code = (
        "import sys, service.api.row_requests as _; print({'numba', 'scipy', 'fastapi', 'starlette'} & {*sys.modules})"
    )
    assert b"set()\n" == subprocess.run([sys.executable, "-c", code], capture_output=True).stdout
