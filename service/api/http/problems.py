"""Errors as application/problem+json (RFC 9457). The only file that knows both exceptions and HTTP status."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from http import HTTPStatus
from inspect import cleandoc, getmembers, isclass
from typing import Any, NamedTuple

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from core.problems import PROBLEMS_MAX, Conflict, Invalid, Problem
from service import errors
from service.api.http.json_body import UNKNOWN_FIELD, unknown
from service.api.http.media import JSON
from service.api.http.root_path import route_path

STATUS: dict[type[Exception], int] = {
    errors.BadHead: 400,
    errors.NotGzip: 400,
    errors.NotJson: 400,
    errors.NotTable: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    Conflict: 409,
    errors.RequestConflict: 409,
    errors.TooLate: 408,
    errors.TooLarge: 413,
    errors.WrongMedia: 415,
    Invalid: 422,
    RequestValidationError: 422,
    errors.TooManyRequests: 429,
    errors.HeadTooLarge: 431,
    errors.ModelDown: 503,
    errors.Unavailable: 503,
    errors.NotReached: 504,
}
CONFLICT = "clash"  # the type of every 409, as clients know it
MEDIA = "application/problem+json"
ROOT_PATH: ContextVar[str] = ContextVar("root_path", default="")
"""Root path of this service: the types of problems are links to its own pages."""
DETAIL_MAX, FIELD_MAX = 2000, 300
"""In characters. The name of a field is the client's text, which may have any length."""


OTHERS = {
    ("http", 400): """The request cannot be served.

    The framework refused the request before it reached a route. The request was not executed.
    - Look at the status, and at the request as it was sent (``curl -v``).
    """,
    ("no-route", 404): """No route has this path.

    Paths are exact: they do not end with a slash, and nothing redirects to them.
    - Compare the path with ``/docs``.
    - Behind a proxy, check that the path arrives as the client sent it.
    """,
    ("no-method", 405): """The method is not allowed.

    The path exists, but not with this method. The header ``Allow`` lists the methods it has.
    - Models are created with ``PUT /models/NAME``, changed with ``PATCH``, and taught with ``POST .../feedback``.
    - curl sends POST with ``-d`` and ``--json``, otherwise GET: add ``-X PUT`` or ``-X PATCH`` if the route needs it.
    """,
    ("invalid", 422): """The request is invalid.

    The body or the query could be read, but a value is wrong: an unknown name, a missing feature, a number out of
    range. A request is accepted or refused as a whole, so nothing has changed.
    - Read ``errors``: each entry has the ``field`` as you wrote it, what is wrong with it, and what is ``allowed``. In
      a table the field is the cell: ``data[3][1]``, or ``line 4, features.load``. At most 20 are listed.
    - A feature is missing: set ``"missing": "mean"`` at creation or with ``PATCH`` (``/guide/strings-and-gaps``).
    - A name is unknown: correct it, or list it in ``"ignore"``. A label is unknown: ``PATCH`` with ``"add_labels"``.
    """,
    ("internal-error", 500): """The service failed.

    This is a bug in the service. The request may or may not have been carried out.
    - Send the row again with the same ``id`` or ``Idempotency-Key``: it is learned once.
    - Please report the error and traceback from the service's log, with the output of ``onepass --version``.
    """,
}
"""Pages of problems that no error of ``service.errors`` documents, by slug and status."""
AGAIN = """
- Wait for ``Retry-After`` seconds and send the request again. Feedback with an ``id`` or an ``Idempotency-Key`` is
  learned once, however often it is sent."""


class Kind(NamedTuple):
    """A kind of problem, and its page in Markdown: a title, what happened, and a list of what to do."""

    slug: str
    status: int
    text: str


def kinds() -> tuple[Kind, ...]:
    """Every kind of problem that the service returns; their base class has no status, so it is left out."""
    raised = [kind for _, kind in getmembers(errors, isclass) if issubclass(kind, errors.OnepassError)]
    again = {kind: AGAIN * issubclass(kind, errors.Unavailable) for kind in raised}
    ours = [(kind, _status(kind), cleandoc(kind.__doc__ or "") + again[kind]) for kind in raised]
    return (
        *(Kind(_slug(kind), code, text) for kind, code, text in ours if code),
        *(Kind(*key, cleandoc(text)) for key, text in OTHERS.items()),
    )


def status_of(error: Exception) -> int:
    """The HTTP status of an error; 500 if it is unexpected."""
    return _status(type(error)) or 500


def _status(kind: type[Exception]) -> int | None:
    return next((STATUS[base] for base in kind.__mro__ if base in STATUS), None)


def problem(error: Exception) -> Response:
    """An error as a response."""
    return _document(_refusal(error))


def inference_problem(error: Exception) -> Response:
    """The same as an error of the Open Inference Protocol, ``{"error": "..."}``, with the same status and headers."""
    return _sentence(_refusal(error))


class Refusal(NamedTuple):
    """The content of an error answer; ``more`` holds further members of the problem document."""

    status: int
    slug: str
    detail: str
    problems: Sequence[Problem] = ()
    headers: Mapping[str, str] | None = None
    more: Mapping[str, Any] = {}


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, RequestValidationError):
        error = invalid(error.errors())
    status = status_of(error)
    if status == 500:
        detail = "the service failed on this request; it may or may not have been carried out"
        return Refusal(500, "internal-error", detail)
    more = {"version": error.version} if isinstance(error, errors.NotReached) else {}
    headers: dict[str, str] = {}
    if isinstance(error, errors.Unavailable | errors.TooManyRequests):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.WrongEncoding):
        headers["Accept-Encoding"] = "gzip"
    problems: Sequence[Problem] = error.problems if isinstance(error, Invalid | errors.OnepassError) else ()
    detail = error.detail if isinstance(error, errors.OnepassError) else str(error)
    if not problems and isinstance(error, Conflict | errors.RequestConflict):
        problems = [Problem(getattr(error, "field", "name"), detail)]  # by default the name in the path
    return Refusal(status, _slug(type(error)), detail, problems, headers, more)


PLACES = ("path", "query", "header", "body")  # FastAPI's name for the place of a field, which answers leave out
WORDS = {
    "missing": "is required",
    "extra_forbidden": UNKNOWN_FIELD,
    "unexpected_keyword_argument": "is not a parameter of this route",
    "literal_error": "is not one of the choices",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a string",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "is not a valid name",
    "greater_than_equal": "is out of range",
}
"""Our messages for pydantic's error types; pydantic's own messages may repeat the input."""
LIMITS = {
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "{pattern}",
    "greater_than_equal": ">= {ge}",
}
"""What is allowed instead."""


def invalid(errors: Sequence[Any], shape: Any = None) -> Invalid:
    """Turn pydantic's errors into ``Invalid``; with the ``shape`` of the body, unknown fields list those it has."""
    return Invalid(*(_translated(error, getattr(shape, "model_fields", {})) for error in errors[:PROBLEMS_MAX]))


def _translated(error: Mapping[str, Any], fields: Mapping[str, Any]) -> Problem:
    place, kind, more = error["loc"], error["type"], error.get("ctx", {})
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place if part not in PLACES)
    words = WORDS.get(kind, "does not have the form that this request needs")
    if kind == "extra_forbidden" and place[0] == "body" and len(place) == 2 and fields:
        return unknown(path[1:], str(place[1]), [*fields])
    if kind == "whole":
        return Problem(path[1:], error["msg"], more["allowed"])
    if kind == "literal_error":
        return Problem(path[1:], words, sorted(re.findall("'([^']*)'", more["expected"])))
    return Problem(path[1:] or "body", words, LIMITS[kind].format(**more) if kind in LIMITS else None)


def _document(refusal: Refusal) -> Response:
    """A problem document."""
    body: dict[str, Any] = {
        "type": type_of(refusal.slug),
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "detail": refusal.detail[:DETAIL_MAX],
        **refusal.more,
        "errors": [
            one._replace(field=one.field[:FIELD_MAX], problem=one.problem[:DETAIL_MAX])._asdict()
            for one in refusal.problems
        ],
    }
    return Response(msgspec.json.encode(body), refusal.status, refusal.headers, MEDIA)


def _sentence(refusal: Refusal) -> Response:
    """One sentence: what is wrong, and what the first field allows."""
    text, allowed = refusal.detail, refusal.problems[0].allowed if refusal.problems else None
    if allowed is not None:
        text = f"{text[:DETAIL_MAX]} (allowed: {_listed(allowed)})"
    return Response(msgspec.json.encode({"error": text[: 2 * DETAIL_MAX]}), refusal.status, refusal.headers, JSON)


def _listed(allowed: object) -> str:
    return ", ".join(map(str, allowed)) if isinstance(allowed, list | tuple) else str(allowed)


def type_of(slug: str) -> str:
    """The type of a problem: a link to its page, relative to the service."""
    return f"{ROOT_PATH.get()}/problems/{slug}"


def slug_of(error: Exception) -> str:
    """The last part of the type of an error's problem: ``store-down``."""
    return "internal-error" if status_of(error) == 500 else _slug(type(error))


def _slug(kind: type[Exception]) -> str:
    if issubclass(kind, Conflict | errors.RequestConflict):
        return CONFLICT
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def disconnected() -> Response:
    """The answer that is counted for a client that disconnected before its body was read; it is never sent."""
    return Response(status_code=400)


def install_handlers(app: Starlette, shown: Callable[[Request, Response], Response]) -> None:
    """Answer unknown routes and methods, pages' errors and unexpected errors like every other error.

    ``shown`` adapts an answer that comes from no route of the API to the client: browsers get a page.
    """

    async def of_no_route(request: Request, error: Exception) -> Response:
        return shown(request, _http_problem(request, error))

    async def of_a_page(request: Request, error: Exception) -> Response:
        return shown(request, problem(error))

    app.add_exception_handler(HTTPException, of_no_route)
    app.add_exception_handler(errors.OnepassError, of_a_page)
    app.add_exception_handler(Exception, _crash)


def _http_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    slug = {404: "no-route", 405: "no-method"}.get(status, "http")
    detail = "no route has this path; see /docs" if status == 404 else "the request cannot be served"
    headers, problems = None, []
    if status == 405:
        methods = _methods(request)
        headers = {"Allow": ", ".join(methods)}
        detail = f"this route only allows {', '.join(methods)}; see /docs"
        problems = [Problem("method", "is not allowed on this route", methods)]
    if INFERENCE.match(route_path(request.scope)):
        return _sentence(Refusal(status, slug, detail, headers=headers))
    return _document(Refusal(status, slug, detail, problems, headers))


INFERENCE = re.compile(r"/v2(?:/|$)")  # paths of the Open Inference Protocol


def _methods(request: Request) -> list[str]:
    """The methods of all routes with this path."""
    fitting = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    methods = {method for route in fitting for method in getattr(route, "methods", None) or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def _crash(_: Request, error: Exception) -> Response:
    return problem(error)
