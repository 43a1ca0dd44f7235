"""Rows bypass FastAPI, one by one and in batches: the short way does by hand what their endpoints depend on."""

from functools import partial

import httpx
import pytest
from fastapi import FastAPI

from service.api.route import Needs
from service.api.routes import HOT, HOT_ROUTES, ROUTES

in_the_loop_of_the_service = pytest.mark.asyncio(loop_scope="module")
DONE_BY_HAND = {
    "feedback": ["_context", "idempotency_key", "learn"],
    "feedback/batch": ["_context", "idempotency_key", "learn", "queries"],
    "predict": ["_context", "fresh_enough", "read"],
    "predict/batch": ["_context", "fresh_enough", "queries", "read"],
}
"""What ``routes._short_way`` does, or their endpoints themselves, in the words of FastAPI."""


def _name(call):
    return call.scope if isinstance(call, Needs) else call.__name__


def test_the_short_way_does_what_fastapi_would():
    """A dependency that is added to one of these endpoints must be added to the short way, too."""
    routes = {
        route.path.removeprefix("/models/{name}/"): route
        for route in ROUTES
        if HOT.fullmatch(route.path.format(name="m", challenger="c", version="1"))
    }
    asked = {name: sorted(_name(own.call) for own in route.dependant.dependencies) for name, route in routes.items()}
    assert DONE_BY_HAND == asked
    assert set(DONE_BY_HAND) == set(HOT_ROUTES)


@in_the_loop_of_the_service
async def test_both_ways_let_in_and_refuse_alike(start):
    """Where FastAPI answers: the same statuses for every key, and for a query that is not known."""
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
    }
    for way, app in (("short", api.app), ("long", partial(FastAPI.__call__, api.app))):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://onepass") as client:
            found[way] = [
                (await client.post(f"/models/m/{last}{query}", json=body, headers=headers)).status_code
                for last, body in bodies.items()
                for query in ("", "?odd=1", "?consistency=strong", "?label=a", "?drop=a")
                for headers in ({}, {"x-api-key": "secret-ro"}, admin)
            ]
    assert found["short"] == found["long"]
    assert [401, 200, 200] == found["short"][:3]
    assert [401, 403, 200] == found["short"][15:18]
