"""Requests for rows go straight to their routes, which do by hand what FastAPI would do with their dependencies."""

import asyncio
import json
from functools import partial

import httpx
import pytest
from fastapi import FastAPI

from tests.service.local_server import LocalServer, running
from tests.service.switches import switch
from tests.service.test_http_protocol import read_answer, status


async def test_a_request_is_answered_alike_whoever_routes_it(start):
    """By the app or by FastAPI: the same statuses for every key and query, with each header once."""
    api = await start(api_keys="ro:secret-ro:read,ad:secret-ad:admin")
    admin = {"x-api-key": "secret-ad"}
    body = {"algorithm": "rls", "task": "regression", "features": ["a"]}
    assert 201 == (await api.ask("PUT", "/models/m", json=body, headers=admin)).status_code
    row, rows, found = {"features": {"a": 1.0}}, {"columns": ["a"], "data": [[1.0]]}, {}
    bodies = {
        "predict": row,
        "feedback": {**row, "label": 2.0},
        "predict/batch": rows,
        "feedback/batch": {**rows, "labels": [2.0]},
        "evaluate": {**rows, "labels": [2.0]},
    }
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
