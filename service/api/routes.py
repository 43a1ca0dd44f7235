"""All routes: one router for each group, and the short way that rows take, one by one and in batches.

Every answer has the request's id, its model and headers for browsers, and there is HEAD where there is GET:
``_short_way`` sees to that for rows, ``by_long_way`` for everything else, refusals and pages included.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import (
    access_log,
    challengers,
    drift,
    features,
    feedback,
    health,
    model_list,
    model_pages,
    models,
    predict,
    request_id,
    state,
    weights,
)
from service.api.answer_headers import ALWAYS, MODEL, PAGES
from service.api.bodies import RESERVED
from service.api.context import FRESHNESS, NAME, fresh_by_query, known_queries
from service.api.cross_site import is_browser
from service.api.inference_v2 import routes as inference_v2
from service.api.problems import ROOT_PATH
from service.api.root_path import parse, under
from service.api.route import Handler, Route, let_in, refused
from service.api.row_answer import RowAnswer, RowRequest
from service.runtime.broadcast import OWNER

ROUTERS = (
    challengers.deletion,  # before that of models, whose deletion is the last
    models.router,
    model_list.router,
    model_pages.log,
    feedback.router,
    predict.router,
    model_pages.pending,
    drift.router,
    weights.router,
    challengers.router,
    features.router,
    state.router,
    health.router,
    inference_v2.router,
)
"""In the order of /docs."""
ROUTES = tuple(route for router in ROUTERS for route in router.routes if isinstance(route, Route))

HOT = re.compile(rf"/models/({NAME.pattern})/((?:predict|feedback)(?:/batch)?)")


class App(FastAPI):
    """The app, with a short way to the routes that rows take.

    What FastAPI and Starlette do around an endpoint costs more than learning a row, or as much as predicting a thousand
    of an array, and the endpoints of these four need little of it: ``HOT_ROUTES`` does the rest by hand, for the server
    as well (``service.server.short_way``). Everything else takes the long way, and so do these by another method, and
    with CORS those that a browser sends.

    Attributes:
        cors: whether pages of other sites may use the API.
    """

    cors = False
    _hot = HOT

    def serve_under(self, text: str) -> None:
        """Serve under the root path of the setting.

        Raises:
            ValueError: it is none, or a path of the service.
        """
        root = parse(text, [own.route.path for own in iter_route_contexts(self.routes)])  # type: ignore[attr-defined]  # all have one
        self.root_path, self._hot = root, re.compile(f"(?:{re.escape(root)})?{HOT.pattern}")
        ROOT_PATH.set(root)  # of what the server refuses by itself, in tasks of the one that is here

    def take_long_way(self) -> None:
        """Let FastAPI answer every request: it makes the spans."""
        self._hot = re.compile("(?!)")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        short = self.short_way(scope) if scope["type"] == "http" else None
        if short is None:
            if scope["type"] != "http":
                await super().__call__(scope, receive, send)
                return
            ROOT_PATH.set(self.root_path)
            scope = under(scope, self.root_path)
            bare = scope["path"] == self.root_path != ""
            await by_long_way(_with_slash if bare else super().__call__, scope, receive, send)
        else:
            response = await short(RowRequest(scope, receive))
            await response(scope, receive, send)

    def short_way(self, scope: Scope) -> Handler | None:
        """What answers a request for rows, which is told its model and app; None of any other request."""
        if scope["method"] != "POST":
            return None
        found = self._hot.fullmatch(scope["path"])
        if found is None or (self.cors and is_browser(scope)):
            return None
        if self.root_path:
            ROOT_PATH.set(self.root_path)
        scope["app"] = self
        scope["path_params"] = {"name": found[1]}
        return HOT_ROUTES[found[2]]


async def _with_slash(scope: Scope, receive: Receive, send: Send) -> None:
    """Lead from the root path to the page there, whose links are relative to a path with a slash at its end."""
    await RedirectResponse(f"{scope['path']}/", headers={"Cache-Control": "no-cache"})(scope, receive, send)


async def by_long_way(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an app answer a request."""
    request_id.begin(scope)
    OWNER.set(None)  # the key of this request, once it is known
    started = perf_counter()
    head = scope["method"] == "HEAD"
    asked = {**scope, "method": "GET"} if head else scope
    answer = _Head(receive, send, asked) if head else _Answer(receive, send, asked)
    try:
        await app(asked, answer.receive, answer.send)
    finally:
        route = getattr(asked.get("route"), "path", None)
        if access_log.on and not access_log.is_quiet(route, answer.status):
            access_log.write(scope, answer.status, perf_counter() - started)


class _Answer:
    """An answer, and the headers that it still lacks.

    Args:
        receive, send: to and from the client.
        scope: of the request; once it has a route, with the model it is of.

    Attributes:
        status: of the answer; 0 before it begins.
    """

    def __init__(self, receive: Receive, send: Send, scope: Scope) -> None:
        self._receive, self._send, self._scope = receive, send, scope
        self.status = 0

    async def receive(self) -> Message:
        """The next message of the client."""
        return await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message on, the first one with all headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message["headers"]
            names = {name for name, _ in given}
            more = [header for header in (*ALWAYS, *PAGES) if header[0] not in names]
            own = (request_id.HEADER, self._scope[request_id.ID])
            message = {**message, "headers": [*given, own, *_model_of(self._scope), *more]}
        await self._send(message)


class _Head(_Answer):
    """The answer to HEAD: that of GET, which ends with its headers, also where it would go on for ever."""

    async def receive(self) -> Message:
        """The next message; once the headers are sent the client counts as gone."""
        return {"type": "http.disconnect"} if self.status else await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the headers on, and an end."""
        if message["type"] == "http.response.start":
            await super().send(message)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _model_of(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The header that names the model, on routes of one; a name that no model can have is not repeated."""
    name = scope.get("path_params", {}).get("name", "")
    return [(MODEL, name.encode())] if NAME.fullmatch(name) else []


def _short_way(route: Route) -> Handler:
    """What answers a route of rows without FastAPI: by hand what it asks first, then by its endpoint.

    One function, since each call more would cost every row: it does what ``answered`` and ``by_long_way`` do.
    """
    endpoint: Callable[..., Awaitable[Response]] = route.endpoint
    path, rights, reads = route.path, route.scope, route.scope == "read"
    queries = [name for name in route.queries if name not in FRESHNESS]

    async def handle(request: Request) -> Response:
        scope, started = request.scope, perf_counter()
        own, name, context = request_id.begin(scope), scope["path_params"]["name"], scope["app"].state.context
        try:
            let_in(context, request, rights, name)
            if reads:
                fresh = await fresh_by_query(request, *queries) if scope["query_string"] else None
                response = await endpoint(context, name, request, fresh)
            else:
                if scope["query_string"]:
                    known_queries(request, *queries)
                response = await endpoint(context, name, request)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  answered, and logged where it is ours
            response = refused(error, "POST", path)
        if RESERVED in scope:
            context.budget.release(scope)
        seconds = perf_counter() - started
        context.telemetry.observe(path, "POST", response.status_code, seconds)
        if type(response) is RowAnswer:
            response.request_id, response.model = own, name.encode()
        else:
            response.raw_headers += ((request_id.HEADER, own), (MODEL, name.encode()), *ALWAYS)
        if access_log.on:
            access_log.write(scope, response.status_code, seconds)
        return response

    return handle


_PREFIX = "/models/{name}/"
HOT_ROUTES: dict[str, Handler] = {
    route.path.removeprefix(_PREFIX): _short_way(route)
    for route in (*feedback.router.routes, *predict.router.routes)
    if isinstance(route, Route)
}


def install(app: FastAPI) -> None:
    """Add every route; the endpoints' context is found in ``app.state.context``."""
    for router in ROUTERS:
        app.include_router(router)
