"""Bodies are bounded in bytes over all requests, from before they are read until their requests are answered."""

import asyncio
import json

import pytest

from service.api.http import bodies
from service.api.http.bodies import RESERVED, BodyBudget
from service.errors import BodiesFull
from tests.service.api_fixtures import DFOP, JSON, columnar, problem
from tests.service.waiting import until

BODY = json.dumps(columnar(4_000)).encode()
MIB = 2**20


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


async def test_nobody_has_more_than_half():
    """Unless it is one body; the others of the same owner are refused, nobody else's."""
    budget = BodyBudget(100, owner_of=lambda scope: scope["from"])
    first, second, other = {"from": "a"}, {"from": "a"}, {"from": "b"}
    budget.reserve(first, 40)
    with pytest.raises(BodiesFull, match="would exceed 50 of one key or address"):
        budget.reserve(second, 11)
    budget.reserve(second, 10)
    budget.reserve(other, 50)
    for request in (first, second, other):
        budget.release(request)
    budget.reserve(second, 60)
    budget.reserve(other, 40)
    assert 100 == budget.used


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
    queues = [asyncio.Queue() for _ in range(9)]
    for queue in queues:
        queue.put_nowait((b"{", True))
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
    waiting = asyncio.Queue()
    waiting.put_nowait((b"{", True))
    first = asyncio.create_task(send(full.app, waiting, MIB, f"{path}/predict/batch"))
    await until(lambda: budget.used)
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
    budget = full.app.context.budget
    path = await full.learnt()
    waiting = asyncio.Queue()
    waiting.put_nowait((b" " * (MIB - 1000), True))
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
