"""What is logged: lines with fields, as text and as JSON, and never what clients send as data."""

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
from itertools import product

import httpx
import pytest

from service import logs
from service.api.http import access_log
from service.api.http.headers import CURRENT, ID, log_fields
from service.api.routes import ROUTES
from service.main import Drain
from service.runtime.engine import Engine
from service.runtime.replicas.log_reader import LogReader
from tests.service.api_fixtures import problem

logger = logging.getLogger("service.tests")
ENDLESS = {"/drift/stream", "/models/{name}/stream", "/stream"}
CANARIES = ("canary-feature", "canary-label", "canary-secret", "31337.25")


@pytest.fixture
def said():
    """What is logged as JSON, at the level debug, with every answer; afterwards logging is as it was."""
    yield from configured("debug", "json", True)


def configured(level, form, access):
    root = logging.getLogger()
    handlers, levels = root.handlers[:], {name: logging.getLogger(name).level for name in ("", *logs.OURS, *logs.QUIET)}
    stream = io.StringIO()
    logs.configure(level, form, access, stream)
    yield stream
    root.handlers[:] = handlers
    for name, own in levels.items():
        logging.getLogger(name).setLevel(own)
    access_log.switch(False)


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_fields(said):
    """When, how bad, what, by whom; the model and the version that the message names."""
    logger.warning("model %s: skipping the snapshot of version %d, %d %% of it: %s", "m", 7, 50, "why")
    logger.info("plain", extra={"more": 1})
    first, second = lines(said)
    assert ["timestamp", "level", "event"] == [*first][:3]
    assert "model m: skipping the snapshot of version 7, 50 % of it: why" == first["event"]
    assert ("warning", "service.tests", "m", 7) == tuple(first[key] for key in ("level", "logger", "model", "version"))
    assert ("plain", 1) == (second["event"], second["more"])
    assert "model" not in second


def test_a_message_is_told_once(said):
    """Without the copy of it in colours that uvicorn adds."""
    logging.getLogger("uvicorn.error").info("up on %s", "here", extra={"color_message": "\x1b[1mup on %s\x1b[0m"})
    line = json.loads(said.getvalue())
    assert "up on here" == line["event"]
    assert "color_message" not in line


def test_text_for_a_terminal():
    """One line for each, without colours where it is no terminal; control characters of data do not get there."""
    for stream in configured("info", "console", True):
        logger.info("model %s is here", "m")
        logger.debug("not at this level")
        access_log.write({"method": "GET", "path": "/a\nb\x1b[31m"}, 404, 0.0123)
        first, second = stream.getvalue().splitlines()
    assert "model m is here" in first
    assert "model=m" in first
    assert "path=/a?b?[31m" in second
    assert "\x1b" not in first + second


def test_other_packages_log_nothing_below_info(said):
    """Some would log headers, and every address that a webhook is posted to."""
    logging.getLogger("httpx").info("POST https://hooks.example/secret")
    logging.getLogger("somebody").debug("a header")
    logging.getLogger("service.x").debug("ours")
    assert ["ours"] == [line["event"] for line in lines(said)]


def test_an_exception_is_shown_without_its_text(said):
    """Where it was raised, and by what it was caused; texts may hold what could not be read."""
    try:
        try:
            int("canary-label")
        except ValueError as error:
            raise KeyError("canary-feature") from error
    except KeyError:
        logger.exception("it failed")
    (line,) = lines(said)
    assert "test_an_exception_is_shown_without_its_text" in line["exception"]
    assert line["exception"].index("ValueError") < line["exception"].index("which led to")
    assert line["exception"].endswith("KeyError")


def test_a_lost_tls_connection_is_no_error(said):
    """The event loop logs one that broke while it was written to like a bug of its own; other errors stay."""
    for error in (RuntimeError(), ValueError()):
        logging.getLogger("asyncio").error("Fatal error on SSL protocol\nprotocol: <x>", exc_info=error)
    (line,) = lines(said)
    assert "ValueError" in line["exception"]


async def test_lines_of_a_request(api, said, monkeypatch):
    """Whatever is logged while it is answered has its id, its model and its trace; the answer is logged as well."""
    path = await api.shared()
    said.truncate(said.seek(0))
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {"X-Request-ID": "r-17", "traceparent": trace}
    problem(await api.ask("POST", f"{path}/predict", json={}, headers=headers), 422)
    refused, answered = lines(said)
    assert "POST /models/{name}/predict was refused: invalid" == refused["event"]
    for line in (refused, answered):
        expected = ("r-17", path[8:], "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
        assert expected == tuple(line[key] for key in ("request_id", "model", "trace_id", "parent_id"))
    assert ("POST", f"{path}/predict", 422) == tuple(answered[key] for key in ("method", "path", "status"))
    assert answered["ms"] >= 0
    said.truncate(said.seek(0))
    for probe in ("/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"):
        assert 200 == (await api.ask("GET", probe, headers=headers)).status_code
    assert 200 == (await api.ask("HEAD", "/version", headers=headers)).status_code
    (answered,) = lines(said)
    expected = ("HEAD", "/version", 200, "r-17")
    assert expected == tuple(answered[key] for key in ("method", "path", "status", "request_id"))


async def test_answers_of_row_routes_have_one_line_each(start, said):
    """Whether the framework is passed by, routes to them, or answers: another method, a name that no model has."""
    api = await start(cors_origins="https://app.example")
    path, page = await api.new(), {"Origin": "https://app.example"}
    asked = (("POST", f"{path}/predict", 422), ("GET", f"{path}/predict", 405), ("POST", "/models/-x/predict", 404))
    for (method, url, status), headers in product(asked, ({}, page)):
        said.truncate(said.seek(0))
        problem(await api.ask(method, url, json={}, headers=headers), status)
        found = [line for line in lines(said) if line["event"] == "answered"]
        assert [(method, url, status)] == [(line["method"], line["path"], line["status"]) for line in found]


async def test_no_data_is_logged_and_no_secret_is_said(start, said, monkeypatch):
    """Every route at the level debug, with bodies that are right, wrong and broken; no answer holds a secret either."""
    api = await start(api_keys="boss:canary-secret:admin", webhook_secret="canary-secret")
    own = {"Authorization": "Bearer canary-secret"}
    config = {"task": "classification", "algorithm": "dfop", "features": ["x", {"name": "day", "type": "categorical"}]}
    row = {"x": 31337.25, "day": "canary-feature"}
    assert 201 == (await api.ask("PUT", "/models/logged", json=config, headers=own)).status_code
    bodies = [
        {"features": row, "label": "canary-label"},
        {"features": row, "label": ["canary-label"], "canary-feature": 1},
        {"features": {**row, "x": "canary-feature"}, "label": "canary-label"},
        {"columns": ["x", "day"], "data": [[31337.25, "canary-feature"]], "labels": ["canary-label"]},
        {"inputs": [{"name": "day", "shape": [1], "datatype": "BYTES", "data": ["canary-feature"]}]},
    ]
    contents = [json.dumps(body).encode() for body in bodies]
    contents.append(b'{"features": {"x": 31337.25, "day": "canary-feature"')
    for route in sorted(ROUTES, key=lambda route: route.method == "DELETE"):
        if route.path in ENDLESS:
            continue
        url = route.path.replace("{name}", "logged").replace("{challenger}", "c").replace("{version}", "0")
        asked = contents if route.method != "GET" else [b""]
        answers = [await api.ask(route.method, url, content=content, headers=own) for content in asked]
        answers.append(await api.ask(route.method, url, params={"q": "canary-label"}, headers=own))
        answers.append(await api.ask(route.method, url, headers={"Authorization": "Bearer canary-secret-x"}))
        assert not any("canary-secret" in answer.text for answer in answers)

    async def fail(*_):
        raise ValueError(*CANARIES)

    monkeypatch.setattr(Engine, "replica", fail)
    problem(await api.ask("POST", "/models/logged/predict", json={"features": row}, headers=own), 500)
    text = said.getvalue()
    assert "POST /models/{name}/predict failed" in text
    assert "ValueError" in text
    assert len(ROUTES) < len(lines(said))
    assert [] == [canary for canary in CANARIES if canary in text]


def test_a_service_logs_as_it_is_told(tmp_path):
    """ONEPASS_LOG_FORMAT and ONEPASS_ACCESS_LOG, in any case; every line is JSON, those of the server as well."""
    environment = os.environ | {"ONEPASS_DATA_DIR": str(tmp_path), "ONEPASS_LOG_LEVEL": "WARNING"}
    environment |= {"ONEPASS_LOG_FORMAT": "JSON", "ONEPASS_ACCESS_LOG": "1"}
    command = [sys.executable, "-m", "service.client", "serve", "--port", "0", "--log-level", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True) as child:
        said = []
        while not said or "Onepass serves on" not in said[-1]:
            said.append(child.stderr.readline())
        url = json.loads(said[-1])["event"].split()[-1]
        assert 200 == httpx.get(f"{url}version", headers={"X-Request-ID": "r-1"}).status_code
        child.terminate()
        plain, text = child.communicate(timeout=60)
    assert "" == plain
    found = [json.loads(line) for line in [*said, *text.splitlines()]]
    answered = next(line for line in found if line["event"] == "answered")
    assert ("/version", "r-1", 200) == tuple(answered[key] for key in ("path", "request_id", "status"))
    assert any(line["logger"] == "uvicorn.error" for line in found)


async def test_the_log_names_keys(start, said):
    """The one that asked, by its name; none for a stranger; a probe that fails is in the log."""
    api = await start(api_keys="boss:canary-secret:admin")
    said.truncate(said.seek(0))
    for secret in ("canary-secret", "other"):
        await api.ask("GET", "/version", headers={"X-API-Key": secret})
        await api.ask("GET", "/metrics", headers={"X-API-Key": secret})
    found = [(line["path"], line["status"], line.get("key")) for line in lines(said) if line["event"] == "answered"]
    assert [("/version", 200, "boss"), ("/version", 401, None), ("/metrics", 401, None)] == found


async def test_what_cannot_be_a_model_is_not_named(start, said):
    """Nobody without a key writes long lines, line breaks or the codes of a terminal."""
    api = await start(api_keys="boss:canary-secret:admin")
    said.truncate(said.seek(0))
    for name in ("sold", "x" * 60_000, "a%1B%5B31m%07", "a%C2%85b%E2%80%A8c%0B", "a%0A2026"):
        problem(await api.ask("DELETE", f"/models/{name}"), 401)
    audited = [line.get("model") for line in lines(said) if line["event"] == "admin request"]
    assert ["sold", None, None, None, None] == audited
    assert len(said.getvalue()) < 10_000


def test_a_stop_is_of_no_request(said):
    """A signal comes amid any request, whose id and model say nothing of the stop."""
    token = CURRENT.set({ID: b"r-1", "path_params": {"name": "m"}, "headers": []})
    try:
        assert Drain(3.0, lambda: None).begin()
        logger.info("of the request")
    finally:
        CURRENT.reset(token)
    stop, own = lines(said)
    assert "stopping: still serving" in stop["event"]
    assert (False, False) == ("request_id" in stop, "model" in stop)
    assert ("r-1", "m") == (own["request_id"], own["model"])


async def test_the_request_of_one_reader_is_not_that_of_the_next(api, monkeypatch):
    """A step of a model is logged with the request that began it; the step that follows is of others, and of none."""
    replica = await api.engine.models.get((await api.shared())[8:])
    go_on, found, to_head = asyncio.Event(), [], LogReader.to_head

    async def held_up(self, replica):
        found.append(log_fields().get("request_id"))
        await go_on.wait()
        return await to_head(self, replica)

    async def ask(name):
        CURRENT.set({ID: name, "headers": []})
        await replica.inbox.sync()

    monkeypatch.setattr(LogReader, "to_head", held_up)
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(ask(b"first"))
        while not found:
            await asyncio.sleep(0)
        tasks.create_task(ask(b"second"))
        await asyncio.sleep(0)
        go_on.set()
    assert ["first", None] == found
