"""Alive, ready, and the counters for Prometheus."""

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service.api import bodies
from service.api.context import Context
from service.api.schemas import Ready


async def alive(ctx: Context, request: Request) -> Response:
    """The process answers; says nothing about the store."""
    return Response(b'{"alive":true}', media_type=bodies.JSON)


async def ready(ctx: Context, request: Request) -> Response:
    """Whether the service takes traffic."""
    engine = ctx.engine
    fine, checks = engine.ready()
    lags = engine.lags
    body = Ready(fine, "up" if checks["store"] else "down", engine.durability, lags[0][0] if lags else 0, checks)
    return Response(msgspec.json.encode(body), 200 if fine else 503, media_type=bodies.JSON)


async def metrics(ctx: Context, request: Request) -> Response:
    """Counters and histograms in Prometheus' text format."""
    body, kind = ctx.telemetry.render()
    return Response(body, media_type=kind)


async def home(ctx: Context, request: Request) -> Response:
    """The root leads to Swagger UI."""
    return RedirectResponse("docs", 307)
