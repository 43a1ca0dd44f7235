"""All routes: one router for each group.

Every answer has the request's id, its model and headers for browsers, and every GET route also answers HEAD.
``RowRoute`` does this for rows, ``with_headers`` for everything else, including errors and pages.
"""

import re
from collections.abc import MutableMapping
from time import perf_counter
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import features, health
from service.api.drift import drift
from service.api.http import access_log, headers
from service.api.http.context import NAME, Context
from service.api.http.cross_site import is_browser
from service.api.http.headers import ALWAYS, MODEL, PAGES
from service.api.http.problems import ROOT_PATH
from service.api.http.root_path import parse, under
from service.api.http.route import Route
from service.api.models import challengers, effects, model_list, model_pages, models, posterior, state, weights
from service.api.oip import routes as inference_v2
from service.api.rows import evaluate, feedback, predict
from service.api.rows.row_route import RowRoute
from service.runtime.broadcast import OWNER

ROUTERS = (
    challengers.deletion,  # before the deletion of models, which is the last
    models.router,
    model_list.router,
    model_pages.log,
    feedback.router,
    predict.router,
    evaluate.router,
    model_pages.pending,
    drift.router,
    weights.router,
    posterior.router,
    effects.router,
    challengers.router,
    features.router,
    state.router,
    health.router,
    inference_v2.router,
)
"""In the order of /docs."""
ROUTES = tuple(route for router in ROUTERS for route in router.routes if isinstance(route, Route))

HOT = re.compile(rf"/models/({NAME.pattern})/((?:predict|feedback)(?:/batch)?|evaluate)")
_PREFIX = "/models/{name}/"
ROW_ROUTES: dict[str, RowRoute] = {
    route.path.removeprefix(_PREFIX): route for route in ROUTES if isinstance(route, RowRoute)
}


class App(FastAPI):
    """The app. Requests of ``ROW_ROUTES`` go straight to their routes; everything else goes through FastAPI, as do
    requests of these routes with another method and, with CORS, those from a browser.

    Attributes:
        context: the endpoints' collaborators.
        cors: whether pages of other sites may use the API.
    """

    context: Context
    cors = False
    _hot = HOT

    def serve_under(self, text: str) -> None:
        """Serve under the root path of the setting.

        Raises:
            ValueError: it is invalid, or a path of the service.
        """
        root = parse(text, [own.route.path for own in iter_route_contexts(self.routes)])  # type: ignore[attr-defined]  # all have one
        self.root_path, self._hot = root, re.compile(f"(?:{re.escape(root)})?{HOT.pattern}")
        ROOT_PATH.set(root)  # for errors that the server itself sends, in tasks that inherit this context

    def route_all(self) -> None:
        """Let FastAPI route every request, because it makes the spans."""
        self._hot = re.compile("(?!)")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        ROOT_PATH.set(self.root_path)
        found = self._hot.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        if found is not None and not (self.cors and is_browser(scope)):
            scope["app"], scope["path_params"] = self, {"name": found[1]}
            await ROW_ROUTES[found[2]].serve(scope, receive, send)
            return
        scope = under(scope, self.root_path)
        bare = scope["path"] == self.root_path != ""
        await with_headers(_with_slash if bare else super().__call__, scope, receive, send)


async def _with_slash(scope: Scope, receive: Receive, send: Send) -> None:
    """Redirect from the root path to the page there, whose links are relative to a path with a trailing slash."""
    await RedirectResponse(f"{scope['path']}/", headers={"Cache-Control": "no-cache"})(scope, receive, send)


async def with_headers(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an app answer a request."""
    headers.begin_request(scope)
    OWNER.set(None)  # the key of this request, once it is known
    started = perf_counter()
    head = scope["method"] == "HEAD"
    asked = {**scope, "method": "GET"} if head else scope
    answer = _Head(receive, send, asked) if head else _Answer(receive, send, asked)
    try:
        await app(asked, answer.receive, answer.send)
    finally:
        route = asked.get("route")
        logged = isinstance(route, RowRoute) or access_log.is_quiet(getattr(route, "path", None), answer.status)
        if access_log.on and not logged:
            access_log.write(scope, answer.status, perf_counter() - started)


class _Answer:
    """Adds the missing headers to an answer.

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
            own = (headers.REQUEST_ID, self._scope[headers.ID])
            more = [header for header in (own, *_model_of(self._scope), *ALWAYS, *PAGES) if header[0] not in names]
            message = {**message, "headers": [*given, *more]}
        await self._send(message)


class _Head(_Answer):
    """The answer to HEAD: that of GET, cut after its headers, even if it would never end."""

    async def receive(self) -> Message:
        """The next message; once the headers are sent, the client counts as disconnected."""
        return {"type": "http.disconnect"} if self.status else await self._receive()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send the headers on, and an end."""
        if message["type"] == "http.response.start":
            await super().send(message)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _model_of(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The header that names the model, on routes of one; invalid names are not repeated."""
    name = scope.get("path_params", {}).get("name", "")
    return [(MODEL, name.encode())] if NAME.fullmatch(name) else []


def install(app: FastAPI) -> None:
    """Add every route; endpoints find their context in ``app.context``."""
    for router in ROUTERS:
        app.include_router(router)
