"""Bodies are bounded in bytes over all requests, from before they are read until their requests are answered."""

import asyncio
import json

import pytest

from service.api import bodies
from service.api.body_budget import RESERVED, BodyBudget
from service.errors import BodiesFull
from tests.service.api_fixtures import JSON, columnar, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

BODY = json.dumps(columnar(4_000)).encode()
MIB = 2**20


async def test_the_budget_is_of_all_requests():
    """One body is taken whatever its size, and what one request reserves replaces what it had."""
    budget, first, second = BodyBudget(100), {}, {}
    budget.reserve(first, 300)
    with pytest.raises(BodiesFull):
        budget.reserve(second, 1)
    budget.reserve(first, 400)
    budget.reserve(first, 200)
    assert (400, 400) == (budget.used, first[RESERVED])
    budget.release(first)
    budget.reserve(second, 60)
    budget.reserve(first, 40)
    with pytest.raises(BodiesFull):
        budget.reserve(first, 41)
    assert 100 == budget.used
    for request in (first, second, {}):
        budget.release(request)
    assert 0 == budget.used


async def send(app, parts, length=None, path="/models/m/predict/batch"):
    """One request in parts; its status and headers. A part of None is a client that is gone."""
    headers = [(b"content-type", b"application/json")]
    headers += [] if length is None else [(b"content-length", b"%d" % length)]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "root_path": ""}
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


def parts_of(body, size):
    """A queue that has a body in parts."""
    queue = asyncio.Queue()
    for begin in range(0, len(body), size):
        queue.put_nowait((body[begin : begin + size], begin + size < len(body)))
    return queue


async def test_a_body_over_the_budget_is_refused_at_once(start):
    """By its announced length, before any of it is read; small rows go on."""
    full = await start(bodies_mb=1)
    budget = full.app.state.context.budget
    path = await full.learnt()
    waiting = asyncio.Queue()
    waiting.put_nowait((b"{", True))
    first = asyncio.create_task(send(full.app, waiting, MIB, f"{path}/predict/batch"))
    while not budget.used:
        await asyncio.sleep(0)
    assert MIB == budget.used
    begun = asyncio.Queue()
    begun.put_nowait((b"{", True))
    status, headers = await send(full.app, begun, 70_000, f"{path}/predict/batch")
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
    budget = full.app.state.context.budget
    path = await full.learnt()
    waiting = asyncio.Queue()
    waiting.put_nowait((b" " * (MIB - 1000), True))
    first = asyncio.create_task(send(full.app, waiting, None, f"{path}/predict/batch"))
    while not budget.used:
        await asyncio.sleep(0)
    status, _ = await send(full.app, parts_of(b" " * 80_000, 500), None, f"{path}/predict/batch")
    assert (503, MIB - 1000) == (status, budget.used)
    waiting.put_nowait((b" " * 1000, False))
    assert (400, 0) == ((await first)[0], budget.used)


async def test_the_budget_is_held_until_the_answer(api, monkeypatch):
    """What a request works on counts as well as what is being read."""
    path, budget, seen = await api.learnt(), api.app.state.context.budget, []
    read = bodies.read_body

    async def noting(*given):
        body = await read(*given)
        await asyncio.sleep(0)
        seen.append(budget.used)
        return body

    monkeypatch.setattr(bodies, "read_body", noting)
    assert 200 == (await api.ask("POST", f"{path}/predict/batch", content=BODY, headers=JSON)).status_code
    assert ([len(BODY)], 0) == (seen, budget.used)
