"""Errors as application/problem+json (RFC 9457). The only file that knows both exceptions and HTTP status."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from core.problems import Conflict, Invalid, Problem
from service.errors import (
    Forbidden,
    ModelDown,
    NotFound,
    NotJson,
    NotReached,
    NotTable,
    OnepassError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WrongMedia,
)

STATUS: dict[type[Exception], int] = {
    NotJson: 400,
    NotTable: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    TooLarge: 413,
    WrongMedia: 415,
    Invalid: 422,
    TooManyRequests: 429,
    ModelDown: 503,
    Unavailable: 503,
    NotReached: 504,
}
CONFLICT = "clash"
"""The type of every 409, as clients know it."""
MEDIA = "application/problem+json"
DETAIL_MAX, FIELD_MAX = 2000, 300
"""Characters; a field is named as the client wrote it, and clients write what they like."""


def status_of(error: Exception) -> int:
    """The HTTP status an error becomes; 500 for what nobody foresaw."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem(error: Exception) -> Response:
    """An error as a response."""
    status = status_of(error)
    if status == 500:
        return render(500, "internal-error", "the service failed on this request; nothing is known to be learned")
    extra: dict[str, Any] = {}
    headers: dict[str, str] = {}
    if isinstance(error, NotReached):
        extra["version"] = error.version
    if isinstance(error, Unavailable | TooManyRequests):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    problems: Sequence[Problem] = error.problems if isinstance(error, Invalid | OnepassError) else ()
    detail = error.detail if isinstance(error, OnepassError) else str(error)
    return render(status, _slug(type(error)), detail, problems, extra, headers)


def render(
    status: int,
    slug: str,
    detail: str,
    problems: Sequence[Problem] = (),
    extra: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document."""
    body: dict[str, Any] = {
        "type": f"urn:onepass:problem:{slug}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail[:DETAIL_MAX],
        **(extra or {}),
        "errors": [{"field": p.field[:FIELD_MAX], "problem": p.problem, "allowed": p.allowed} for p in problems],
    }
    return Response(msgspec.json.encode(body), status, headers, MEDIA)


def _slug(kind: type[Exception]) -> str:
    if issubclass(kind, Conflict):
        return CONFLICT
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def disconnected() -> Response:
    """What is counted for a client that went away before its body was read; nobody sees it."""
    return Response(status_code=400)


def install_handlers(app: Starlette) -> None:
    """Answer unknown routes and methods, and what nobody foresaw, like every other error."""
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(Exception, _crash)


async def _http_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    slug = {404: "no-route", 405: "no-method"}.get(status, "http")
    detail = {404: "there is no such route; see /docs", 405: "this route has no such method; see /docs"}.get(status)
    headers = {"Allow": ", ".join(_methods(request))} if status == 405 else None
    return render(status, slug, detail or "the request cannot be served", headers=headers)


def _methods(request: Request) -> list[str]:
    """The methods that the path has, whichever route they are of."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    fitting = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted({method for route in fitting for method in route.methods or ()})


async def _crash(_: Request, error: Exception) -> Response:
    return problem(error)
