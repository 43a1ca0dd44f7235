"""What every answer has: the request's id, its model, headers for browsers; and what routes of rows do by hand."""

import asyncio
import gzip
import json
import re
from functools import partial

import httpx
import pytest
from fastapi import FastAPI
from redis.exceptions import ResponseError

from service.api import routes
from service.api.http.headers import begin_request, log_fields
from service.api.routes import ROUTES
from tests.service.api_fixtures import features, problem
from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import read_answer, status
from tests.service.switches import switch

GETS = sorted({route.path for route in ROUTES if route.method == "GET"})
PAGES = ("/", "/docs", "/redoc", "/openapi.json", "/guide", "/problems", "/llms.txt", "/ui/models/m")
OWN = re.compile(r"[0-9a-f]{12}-[0-9a-f]{16}")
ROW = {"features": features(1)}


@pytest.mark.parametrize("path", [*GETS, *PAGES, "/nothing"])
async def test_head_is_get_without_a_body(api, path):
    """The status and headers of GET; a stream of events, too, which ends there."""
    path = path.replace("/models/{name}", await api.shared()).replace("{version}", "3")
    head = await api.ask("HEAD", path)
    assert b"" == head.content
    if path == "/drift/stream":
        assert "text/event-stream" in head.headers["content-type"]
        return
    get = await api.ask("GET", path)
    assert get.status_code == head.status_code
    different = {"content-length", "x-request-id"}  # counters grow
    assert {**get.headers, **dict.fromkeys(different)} == {**head.headers, **dict.fromkeys(different)}


async def test_head_leaves_no_stream_open(api, monkeypatch):
    """A client that asks for the headers of streams takes no place from those that read them."""
    monkeypatch.setattr("service.runtime.broadcast.STREAMS_MAX", 1)
    for _ in range(3):
        assert 200 == (await api.ask("HEAD", "/drift/stream")).status_code


@pytest.mark.parametrize("blank", [" ", "\t", " \t "])
async def test_blanks_behind_a_value_do_not_belong_to_it(api, blank):
    """A key is the same key, in routes of rows and others; so are an id, a length, a media type and a coding."""
    path, label, seen = await api.learnt(), {"label": "UP"}, {"Idempotency-Key": f"k{blank}"}
    for route, body in (("feedback", ROW | label), ("feedback/batch", [ROW | label])):
        first = await api.post(f"{path}/{route}", body, headers={"Idempotency-Key": f"k-{route}"})
        again = await api.post(f"{path}/{route}", body, headers={"Idempotency-Key": f"k-{route}{blank}"})
        assert (first["version"], True) == (again["version"], again["duplicate"])
    for _ in range(2):
        await api.post(f"{path}/reset", headers=seen)
        seen = {"Idempotency-Key": "k"}
    assert 6 == (await api.get(path))["version"]  # one reset
    kind = {"Content-Type": f"application/json{blank}", "X-Request-ID": f"own{blank}"}
    answer = await api.ask("POST", f"{path}/predict", content=json.dumps(ROW), headers=kind)
    assert (200, "own") == (answer.status_code, answer.headers["x-request-id"])
    packed, content = {"Content-Encoding": f"gzip{blank}"}, gzip.compress(json.dumps(ROW).encode())
    assert 200 == (await api.ask("POST", f"{path}/predict", content=content, headers=packed)).status_code
    assert 200 == (await api.ask("HEAD", "/drift/stream", headers={"Last-Event-ID": f"0-0{blank}"})).status_code


async def test_a_method_that_a_path_does_not_have(api):
    """405 names every method that it has, in the header and in the body; HEAD is one where GET is."""
    answer = await api.ask("HEAD", "/models/m/predict")
    assert (405, "POST") == (answer.status_code, answer.headers["allow"])
    for method, path, methods in (
        ("POST", "/algorithms", ["GET", "HEAD"]),
        ("POST", "/models/demo", ["DELETE", "GET", "HEAD", "PATCH", "PUT"]),
    ):
        answer = await api.ask(method, path)
        found = problem(answer, 405, "method")
        assert (", ".join(methods), methods) == (answer.headers["allow"], found["errors"][0]["allowed"])


async def test_requests_begin_one_by_one(api, monkeypatch):
    """However many come at once: what comes with them waits for one at most. Probes and rows do not even queue."""
    path, turn, begun, answer = await api.shared(), 0, [], routes.with_headers

    async def count():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def noted(app, scope, receive, send):
        begun.append((scope["path"], turn))
        await answer(app, scope, receive, send)

    monkeypatch.setattr(routes, "with_headers", noted)
    counting = asyncio.create_task(count())
    many = [api.ask("GET", "/algorithms") for _ in range(5)]
    found = await asyncio.gather(*many, api.ask("GET", "/healthz"), api.ask("POST", f"{path}/predict", json=ROW))
    counting.cancel()
    assert {200} == {one.status_code for one in found}
    assert "/healthz" == begun[0][0]
    assert 5 == len({turn for path, turn in begun if path == "/algorithms"})


async def answers(api, **how):
    """One of each kind: by the short way, by FastAPI's, a page, a refusal, an unknown route and method."""
    path = await api.shared()
    return [
        await api.ask("POST", f"{path}/predict", json=ROW, **how),
        await api.ask("POST", f"{path}/predict", json={}, **how),
        await api.ask("POST", f"{path}/predict/batch", json={"columns": ["a", "b"], "data": [[1, 2]]}, **how),
        await api.ask("GET", path, **how),
        await api.ask("GET", "/docs", **how),
        await api.ask("GET", "/models/nobody", **how),
        await api.ask("GET", "/v2/models/nobody", **how),
        await api.ask("GET", "/nothing", **how),
        await api.ask("HEAD", "/readyz", **how),
        await api.ask("PATCH", "/readyz", **how),
    ]


async def test_every_answer_has_an_id(api):
    """The client's own where it is one, else one of its own."""
    given = [answer.headers["x-request-id"] for answer in await answers(api, headers={"X-Request-ID": "order/17+a=b"})]
    assert ["order/17+a=b"] * len(given) == given
    own = [answer.headers["x-request-id"] for answer in await answers(api)]
    assert all(map(OWN.fullmatch, own))
    assert len({*own}) == len(own)


@pytest.mark.parametrize("odd", ["", "x" * 129, "a b", "a\tb", "ü".encode(), b"a\xff", b"\x1b[31m"])
async def test_an_id_that_is_none_is_replaced(api, odd):
    """Too long, or not printable: it would travel on into logs."""
    answer = await api.ask("GET", "/healthz", headers={"X-Request-ID": odd})
    assert OWN.fullmatch(answer.headers["x-request-id"])


async def test_answers_of_a_model_name_it(api):
    """Those to single rows and batches, refusals, pages, HEAD and unknown models too; others name none."""
    path = await api.shared()
    name = path.removeprefix("/models/")
    given = [answer.headers.get("x-onepass-model") for answer in await answers(api)]
    assert [*[name] * 4, None, "nobody", "nobody", None, None, None] == given
    for method, url in (("HEAD", path), ("GET", f"/ui{path}"), ("PATCH", path), ("HEAD", f"{path}/metrics")):
        assert [name] == (await api.ask(method, url)).headers.get_list("x-onepass-model")
    for odd in ("/models/a%0d%0ax:y", "/models/%20", "/problems/not-found"):
        assert "x-onepass-model" not in (await api.ask("GET", odd)).headers
    for row in ("feedback", "predict/batch"):
        answer = await api.ask("POST", f"/models/a%0d%0ax:y/{row}", json={"features": {"a": 1}, "label": 1})
        assert "x-onepass-model" not in answer.headers
        assert "x:y" not in problem(answer, 404)["detail"]


async def test_every_answer_has_headers_for_browsers(api):
    """No guessing of media types, no embedding by other sites; what may be a page is not framed."""
    for answer in await answers(api):
        assert ["nosniff"] == answer.headers.get_list("x-content-type-options")
        assert "same-origin" == answer.headers["cross-origin-resource-policy"]
        if answer.request.method == "GET":
            assert "DENY" == answer.headers["x-frame-options"]
            assert "no-referrer" == answer.headers["referrer-policy"]


async def test_no_redirect_names_the_clients_host(api):
    """A path with a slash too many is 404, without a key as with one, whatever Host says."""
    for path in ("/models/", "/healthz/", f"{await api.shared()}/"):
        answer = await api.ask("GET", path, headers={"Host": "127.0.0.1"})
        problem(answer, 404)
        assert "location" not in answer.headers


async def test_answers_of_the_server_itself_have_an_id(api):
    """What is no request of HTTP, or has too many headers, is refused with an id as well; rows have the client's."""
    path = await api.shared()
    async with running(LocalServer(api.app)) as server:
        for odd in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n"):
            assert re.search(rb"x-request-id: [0-9a-f]{12}-[0-9a-f]+\r\n", await server.answer(odd))
        body = b'{"features": {"a": 1, "b": 2}}'
        head = f"POST {path}/predict HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: r-1\r\nConnection: close\r\n"
        answer = await server.answer(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"x-request-id: r-1\r\n" in answer
        answer = await server.answer(head.encode().replace(b"POST", b"HEAD").replace(b"/predict", b"") + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\n")


async def test_a_traceparent_that_is_none_is_not_logged():
    """Neither is anything outside of a request; test_logs.py covers valid ones."""
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    async def of(traceparent):
        begin_request({"type": "http", "headers": [(b"traceparent", traceparent.encode())]})
        return log_fields()

    assert {"request_id", "trace_id", "parent_id"} == {*(await asyncio.create_task(of(trace)))}
    nobody = f"00-{'0' * 32}-00f067aa0ba902b7-01"
    for odd in (trace[:-1], trace.upper(), f"ff{trace[2:]}", nobody, trace.replace("-", "_")):
        assert {"request_id"} == {*(await asyncio.create_task(of(odd)))}
    assert {} == log_fields()


async def test_a_request_is_answered_alike_whoever_routes_it(start):
    """By the app or by FastAPI: the same statuses for every key and query, with each header once."""
    api = await start(api_keys="ro:secret-ro:read,ad:secret-ad:admin")
    admin = {"x-api-key": "secret-ad"}
    body = {"algorithm": "rls", "task": "regression", "features": ["a"]}
    assert 201 == (await api.ask("PUT", "/models/m", json=body, headers=admin)).status_code
    row, rows, found = {"features": {"a": 1.0}}, {"columns": ["a"], "data": [[1.0]]}, {}
    bodies = {"predict": row, "feedback": {**row, "label": 2.0}, "predict/batch": rows}
    bodies["feedback/batch"] = bodies["evaluate"] = {**rows, "labels": [2.0]}
    for way, app in (("app", api.app), ("fastapi", partial(FastAPI.__call__, api.app))):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://onepass") as client:
            answers = [
                await client.post(f"/models/m/{last}{query}", json=body, headers=headers)
                for last, body in bodies.items()
                for query in ("", "?odd=1", "?consistency=strong", "?label=a", "?drop=a")
                for headers in ({}, {"x-api-key": "secret-ro"}, admin)
            ]
        found[way] = [answer.status_code for answer in answers]
        names = [name for answer in answers for name, _ in answer.headers.raw]
        assert len(answers) == names.count(b"x-request-id") == names.count(b"x-onepass-model")
    assert found["app"] == found["fastapi"]
    assert [401, 200, 200] == found["app"][:3]
    assert [401, 403, 200] == found["app"][15:18]


async def test_a_list_of_models_that_fails_is_answered_and_logged(api, monkeypatch, caplog):
    """The answer for an unknown model lists others; if that fails, it fails as any request does, whoever routes it."""

    async def names(*_, **__):
        raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")

    monkeypatch.setattr("service.store.catalog.Catalog.names", names)
    for method, path in (("GET", "/models/nobody"), ("POST", "/models/nobody/predict"), ("GET", "/v2/models/nobody")):
        found = await api.ask(method, path, **({"json": ROW} if method == "POST" else {}))
        problem(found, 500)
        assert "x-request-id" in found.headers
    assert ["GET", "POST", "GET"] == [line.message.split()[0] for line in caplog.records if line.exc_info]
    counted = (await api.ask("GET", "/metrics")).text
    assert 'onepass_requests_total{method="POST",route="/models/{name}/predict",status="500"} 1.0' in counted


BODY = json.dumps({"features": {"a": 1, "b": 2}}).encode()


def _request(target, *headers):
    lines = [b"POST %b HTTP/1.1" % target, b"Host: localhost", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(BODY), b"", b""])


@pytest.mark.parametrize("target", ["%b/pre%%64ict", "http://elsewhere%b/predict", "%b/predict?min_version=0"])
async def test_odd_targets_are_read_as_http_has_it(api, target):
    """Escaped, absolute or with a query: the path is what counts."""
    path = (await api.learnt()).encode()
    async with running(LocalServer(api.app)) as server:
        reader, writer = await server.connect()
        writer.write(_request(target.encode() % path) + BODY)
        assert 200 == status((await read_answer(reader))[0])


async def test_a_body_may_come_later(api):
    """In parts, or once the client was asked for it."""
    path = (await api.learnt()).encode() + b"/predict"
    async with running(LocalServer(api.app)) as server:
        reader, writer = await server.connect()
        writer.write(_request(path) + BODY[:4])
        await asyncio.sleep(0.05)
        writer.write(BODY[4:])
        assert 200 == status((await read_answer(reader))[0])
        writer.write(_request(path, b"Expect: 100-continue"))
        assert b"100 Continue" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        writer.write(BODY)
        assert 200 == status((await read_answer(reader))[0])


async def test_a_body_that_will_be_too_large_is_not_awaited(api):
    """Its announced length is enough, also for a client that asks before it sends."""
    path = (await api.learnt()).encode() + b"/predict"
    async with running(LocalServer(api.app)) as server:
        for more in ((), (b"Expect: 100-continue",)):
            reader, writer = await server.connect()
            writer.write(_request(path, *more).replace(b"Length: %d" % len(BODY), b"Length: 99999999"))
            assert 413 == status((await read_answer(reader))[0])


async def test_a_client_that_has_left_is_not_answered(api):
    """Its request was taken; the answer has nowhere to go, and nothing else suffers."""
    path = (await api.learnt()).encode() + b"/predict"
    async with running(LocalServer(api.app)) as server:
        for _ in range(2):
            reader, writer = await server.connect()
            writer.write(_request(path) + BODY)
            writer.transport.abort()
            await asyncio.sleep(0.05)
        reader, writer = await server.connect()
        writer.write(_request(path) + BODY)
        assert 200 == status((await read_answer(reader))[0])


async def test_what_is_prepared_for_plain_rows_ends_with_the_features(api):
    """At each step of a change the quick way answers as the other does, which reads the same body by its charset."""
    path = await api.learnt()
    rows = [{"features": dict.fromkeys(names, 1.0)} for names in ("ab", "abcd", "cd")]

    async def statuses(kind):
        headers = {"Content-Type": kind}
        return [
            (await api.ask("POST", f"{path}/{route}", content=json.dumps(body), headers=headers)).status_code
            for row in rows
            for route, body in (("feedback", {**row, "label": "UP"}), ("predict", row))
        ]

    found = []
    for step in (None, {"action": "begin", "features": ["c", "d"]}, "complete"):
        if step is not None:
            await switch(api, path, step)
        found.append(await statuses("application/json"))
        assert found[-1] == await statuses("application/json; charset=utf-8"), step
    assert 3 == len({*map(tuple, found)})
