"""The routes: one table that says who may call what, which handler answers, and how it is described.

Every route goes through ``Endpoint``: key check, handler, errors to problem+json, one count and one time. Nothing
else stands between a request and its handler.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.problems import Invalid
from service.api import drift, features, feedback, health, models, overlap, predict, weights
from service.api.context import NAME, Context, known_queries
from service.api.openapi import describe
from service.api.problems import disconnected, problem, status_of
from service.errors import NotFound, Unavailable

logger = logging.getLogger(__name__)

Handler = Callable[[Context, Request], Awaitable[Response]]
PROBED = ("/healthz", "/readyz", "/metrics")
"""Asked by machines that may add queries of their own."""
Rights = Literal["public", "read", "learn", "admin"]


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        method: GET, PUT, POST or DELETE.
        path: with ``{name}`` for the model.
        handler: answers it.
        scope: what a key must allow; "public" asks for none.
    """

    method: str
    path: str
    handler: Handler
    scope: Rights

    @property
    def id(self) -> str:
        """Name of the operation in OpenAPI."""
        return f"{self.method} {self.path}"


ROUTES = (
    Route("PUT", "/models/{name}", models.create, "admin"),
    Route("POST", "/models/{name}/feedback", feedback.feedback_row, "learn"),
    Route("POST", "/models/{name}/predict", predict.predict_row, "read"),
    Route("GET", "/models/{name}/pending", models.pending, "read"),
    Route("POST", "/models/{name}/feedback/batch", feedback.feedback_batch, "learn"),
    Route("POST", "/models/{name}/predict/batch", predict.predict_batch, "read"),
    Route("GET", "/models/{name}/metrics", models.metrics, "read"),
    Route("GET", "/models/{name}/drift", drift.of_model, "read"),
    Route("GET", "/drift", drift.of_all, "read"),
    Route("GET", "/drift/stream", drift.stream, "read"),
    Route("GET", "/models/{name}", models.show, "read"),
    Route("GET", "/models", models.listing, "read"),
    Route("GET", "/models/{name}/weights", weights.weights, "read"),
    Route("GET", "/models/{name}/features", features.show, "read"),
    Route("POST", "/models/{name}/features/switch", features.switch, "admin"),
    Route("POST", "/models/{name}/features/overlap", overlap.teach, "learn"),
    Route("POST", "/models/{name}/snapshots", models.take_snapshot, "admin"),
    Route("GET", "/models/{name}/snapshots", models.snapshots, "read"),
    Route("POST", "/models/{name}/restore", models.restore, "admin"),
    Route("GET", "/models/{name}/state", models.export_state, "read"),
    Route("PUT", "/models/{name}/state", models.import_state, "admin"),
    Route("POST", "/models/{name}/reset", models.reset, "admin"),
    Route("DELETE", "/models/{name}", models.delete, "admin"),
    Route("GET", "/algorithms", models.algorithms, "read"),
    Route("GET", "/healthz", health.alive, "public"),
    Route("GET", "/readyz", health.ready, "public"),
    Route("GET", "/metrics", health.metrics, "read"),
)


def _bad_name(route: Route) -> Exception:
    if route.method == "PUT":
        return Invalid.of("name", "is not a model name", NAME.pattern)
    return NotFound("there is no model of this name: it is not one a model can have")


HOT = re.compile(rf"/models/({NAME.pattern})/(predict|feedback)")


class App(FastAPI):
    """The app, with a short way to the routes that single rows take.

    What FastAPI and Starlette do around an endpoint has nothing to do for these (no dependencies, no form, errors are
    answered by the endpoint itself) and costs about as much as learning a row. Everything else takes the long way, and
    so do these under a root path or another method.
    """

    hot: dict[str, Callable[[Request], Awaitable[Response]]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            found = HOT.fullmatch(scope["path"])
            if found is not None:
                scope["app"] = self
                scope["path_params"] = {"name": found[1]}
                response = await self.hot[found[2]](Request(scope, receive, send))
                await response(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def install(app: App) -> None:
    """Add every route to the app; the handlers' context is found in ``app.state.context``."""
    app.hot = {}
    for route in ROUTES:
        endpoint = _endpoint(route)
        if HOT.fullmatch(route.path.format(name="x")):
            app.hot[route.path.rpartition("/")[2]] = endpoint
        app.add_api_route(
            route.path,
            endpoint,
            methods=[route.method],
            response_model=None,
            openapi_extra=describe.operation(route.id, route.scope),
            operation_id=route.handler.__module__.rpartition(".")[2] + "_" + route.handler.__name__,
            summary=describe.SUMMARY[route.id],
            description=describe.TEXT.get(route.id, ""),
            tags=[describe.tag(route.method, route.path)],
        )


def _endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
    queries = describe.queries(route.id)

    async def endpoint(request: Request) -> Response:
        started = perf_counter()
        context: Context = request.app.state.context
        try:
            name = request.path_params.get("name")
            if route.scope != "public":
                context.keys.check(request.headers, route.scope, name)
            if name is not None and NAME.fullmatch(name) is None:
                raise _bad_name(route)
            if route.path not in PROBED:
                known_queries(request, *queries)
            response = await route.handler(context, request)
        except ClientDisconnect:
            response = disconnected()
        except asyncio.CancelledError:  # by the server, where the grace period ends before the request does
            response = problem(Unavailable("the service stops; nothing is known to be learned: send the request again"))
        except Exception as error:
            if status_of(error) == 500:
                logger.exception("%s failed", route.id)
            response = problem(error)
        context.telemetry.observe(route.path, route.method, response.status_code, perf_counter() - started)
        return response

    return endpoint
