"""All routes: one router for each group, and the short way that single rows take."""

import re
from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api import (
    drift,
    features,
    feedback,
    health,
    model_list,
    models,
    overlap,
    pending,
    predict,
    refill,
    state,
    weights,
)
from service.api.context import NAME, fresh_by_query, known_queries
from service.api.route import Route, answered
from service.api.row_streams import routes as row_streams

ROUTERS = (
    models.router,
    model_list.router,
    feedback.router,
    predict.router,
    row_streams.router,
    pending.router,
    drift.router,
    weights.router,
    features.router,
    overlap.router,
    state.router,
    refill.router,
    health.router,
)
"""In the order of /docs."""
ROUTES = tuple(route for router in ROUTERS for route in router.routes if isinstance(route, Route))

HOT = re.compile(rf"/models/({NAME.pattern})/(predict|feedback)")


class App(FastAPI):
    """The app, with a short way to the routes that single rows take.

    What FastAPI and Starlette do around an endpoint costs about as much as learning a row, and the endpoints of these
    two need little of it: ``HOT_ROUTES`` does the rest by hand. Everything else takes the long way, and so do these
    under a root path or another method.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            found = HOT.fullmatch(scope["path"])
            if found is not None:
                scope["app"] = self
                scope["path_params"] = {"name": found[1]}
                response = await HOT_ROUTES[found[2]](Request(scope, receive, send))
                await response(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


async def _predict(request: Request) -> Response:
    context, name = request.app.state.context, request.path_params["name"]
    context.keys.check(request.headers, "read", name)
    fresh = await fresh_by_query(request) if request.scope["query_string"] else None
    return await predict.predict_row(context, name, request, fresh)


async def _feedback(request: Request) -> Response:
    context, name = request.app.state.context, request.path_params["name"]
    context.keys.check(request.headers, "learn", name)
    if request.scope["query_string"]:
        known_queries(request)
    return await feedback.feedback_row(context, name, request)


HOT_ROUTES: dict[str, Callable[[Request], Awaitable[Response]]] = {
    "predict": answered("/models/{name}/predict", _predict),
    "feedback": answered("/models/{name}/feedback", _feedback),
}


def install(app: FastAPI) -> None:
    """Add every route; the endpoints' context is found in ``app.state.context``."""
    for router in ROUTERS:
        app.include_router(router)
