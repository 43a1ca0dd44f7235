"""All routes: one router for each group.

Every answer has the request's id, its model and headers for browsers, and every GET route also answers HEAD.
``RowRoute`` does this for rows, ``with_headers`` for everything else, including errors and pages.
"""

import asyncio
import re
from collections.abc import MutableMapping, Sequence
from time import perf_counter
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import features, health
from service.api.drift import drift
from service.api.http import access_log, headers
from service.api.http.context import Context
from service.api.http.cross_site import is_browser
from service.api.http.headers import ALWAYS, MODEL, NAME, PAGES
from service.api.http.problems import ROOT_PATH
from service.api.http.root_path import parse, under
from service.api.http.route import PROBED, Route
from service.api.models import challengers, effects, model_list, model_pages, models, posterior, state, weights
from service.api.oip import routes as inference_v2
from service.api.rows import evaluate, feedback, predict
from service.api.rows.row_route import RowRoute
from service.runtime.broadcast import OWNER

ROUTERS = (
    challengers.deletion,  # before the deletion of models, which comes last in /docs
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
HeaderLine = tuple[bytes, bytes]
ROW_ROUTES: dict[str, RowRoute] = {
    route.path.removeprefix(_PREFIX): route for route in ROUTES if isinstance(route, RowRoute)
}


class App(FastAPI):
    """The app. Requests of ``ROW_ROUTES`` go straight to their routes; everything else goes through FastAPI, including
    requests of these routes with another method and, with CORS, from a browser.

    Only one request of everything else begins per turn of the event loop: hundreds of models that are created at once,
    a millisecond or two each, would otherwise hold up every row until the last one has begun.
    """

    context: Context  # the endpoints' collaborators
    cors = False  # whether pages of other sites may use the API
    _hot = HOT

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._beginning = asyncio.Lock()

    def serve_under(self, text: str) -> None:
        """Serve under the root path of the setting; ``ValueError`` if it is invalid, or a path of the service."""
        root = parse(text)
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
        if scope["path"].removeprefix(self.root_path) not in PROBED:
            async with self._beginning:
                await asyncio.sleep(0)
        bare = scope["path"] == self.root_path != ""
        await with_headers(_with_slash if bare else super().__call__, scope, receive, send)


async def _with_slash(scope: Scope, receive: Receive, send: Send) -> None:
    """Redirect from the root path to the page there, whose links are relative to a path with a trailing slash."""
    await RedirectResponse(f"{scope['path']}/", headers={"Cache-Control": "no-cache"})(scope, receive, send)


async def with_headers(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an app answer a request. HEAD is answered like GET, but ends after the headers, even if GET never ends."""
    headers.begin_request(scope)
    OWNER.set(None)  # the key of this request, once it is known
    started, status = perf_counter(), 0
    head = scope["method"] == "HEAD"
    asked = {**scope, "method": "GET"} if head else scope

    async def received() -> Message:
        return {"type": "http.disconnect"} if head and status else await receive()

    async def answer(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            await send({**message, "headers": _complete(asked, message["headers"])})
            if head:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not head:
            await send(message)

    try:
        await app(asked, received, answer)
    finally:
        if access_log.on and not access_log.is_quiet(getattr(asked.get("route"), "path", None), status):
            access_log.write(scope, status, perf_counter() - started)


def _complete(scope: Scope, given: Sequence[HeaderLine]) -> list[HeaderLine]:
    """The headers of an answer, with the missing ones added; routes of one model name it, if its name is valid."""
    name = scope.get("path_params", {}).get("name", "")
    model = [(MODEL, name.encode())] if NAME.fullmatch(name) else []
    names = {name for name, _ in given}
    more = [(headers.REQUEST_ID, scope[headers.ID]), *model, *ALWAYS, *PAGES]
    return [*given, *(header for header in more if header[0] not in names)]


def install(app: FastAPI, *pages: APIRouter) -> None:
    """Add every route, and those of pages; endpoints find their context in ``app.context``.

    The routes are added as they are, because FastAPI would build those of an included router a second time.
    """
    for router in (*ROUTERS, *pages):
        app.router.routes.extend(router.routes)
