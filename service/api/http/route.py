"""How every route answers: checks before the body is read, errors as problems, counts and times.

FastAPI reads a body before it calls the dependencies of an endpoint. Here the key is checked first, so that no body is
read for a client without one; and a JSON body is read strictly, where FastAPI would accept NaN and repeated names.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Literal

from fastapi import Depends
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from core.problems import LISTED_MAX, Invalid, Problem, suggestion
from service.api.http import bodies, json_body
from service.api.http.bodies import RESERVED
from service.api.http.context import Context, known_queries
from service.api.http.headers import LINES, NAME
from service.api.http.keys import covered_by
from service.api.http.media import JSON
from service.api.http.problems import disconnected, invalid, problem, slug_of, status_of
from service.errors import MODELS, NotFound, OnepassError, Unavailable
from service.runtime.broadcast import OWNER
from service.runtime.threads import in_thread_if_large

logger, audit = logging.getLogger(__name__), logging.getLogger("onepass.audit")

Rights = Literal["public", "read", "learn", "admin"]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
PROBED = ("/healthz", "/readyz", "/metrics")  # routes for machines, which may add their own query parameters
DEFAULT_DESCRIPTION = "Successful Response"  # FastAPI's description of an answer without a description
KEY_CHECKED = "onepass.let_in"  # key of a request's scope: its API key has been checked and counted


class Needs:
    """A dependency: the request's key has the ``scope`` and covers the model, and the model's name is valid."""

    def __init__(self, scope: Rights) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> None:
        """Admit the request or raise the reason, once per request: ``Route`` calls this first, then FastAPI again."""
        if KEY_CHECKED in request.scope:
            return
        context: Context = request.app.context
        name = request.path_params.get("name")
        if context.keys.check(request.scope[LINES], self.scope, name) is None:
            context.guard.check(request.scope)
        if name is not None and NAME.fullmatch(name) is None:
            raise _bad_name(request.method)
        request.scope[KEY_CHECKED] = True


def _bad_name(method: str) -> Exception:
    if method == "PUT":
        return Invalid.of("name", "is not a model name", NAME.pattern)
    return NotFound("there is no such model: models cannot have this name", [Problem("name", "is not a model", MODELS)])


READ, LEARN, ADMIN = Depends(Needs("read")), Depends(Needs("learn")), Depends(Needs("admin"))


class Route(APIRoute):
    """A FastAPI route that is documented by its endpoint's docstring: the first paragraph is the summary.

    The docstring of the return type describes the answer, unless the decorator does. Query parameters that are not in
    the endpoint's signature are refused.
    """

    refusal: Callable[[Exception], Response] = staticmethod(problem)  # an error as a response
    error_form = ""  # prefix of its error responses in /openapi.json; "" for problem documents

    def __init__(self, path: str, endpoint: Callable[..., Any], **how: Any) -> None:
        summary, _, text = inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")
        own: dict[str, Any] = {"summary": summary.removesuffix("."), "description": text}
        own |= {"operation_id": endpoint.__name__, "strict_content_type": False}  # no media type: JSON
        if how["response_description"] == DEFAULT_DESCRIPTION:
            model, returned = how["response_model"], inspect.signature(endpoint).return_annotation
            own["response_description"] = inspect.getdoc(model if isinstance(model, type) else returned) or ""
        super().__init__(path, endpoint, **{**how, **own})

    @property
    def method(self) -> str:
        """GET, PUT, PATCH, POST or DELETE."""
        return min(self.methods or ())

    @property
    def scope(self) -> Rights:
        """The scope that a key needs; "public" if none is needed."""
        return "public" if self._guard is None else self._guard.scope

    @property
    def answers(self) -> set[str]:
        """Statuses of the answers that the endpoint itself describes."""
        return {str(self.status_code or 200), *map(str, self.responses)}

    @property
    def queries(self) -> tuple[str, ...]:
        """The query parameters that it takes."""
        return tuple(own.alias for own in get_flat_params(self.dependant) if isinstance(own.field_info, Query))

    @property
    def _guard(self) -> Needs | None:
        return next((own.dependency for own in self.dependencies if isinstance(own.dependency, Needs)), None)

    def get_route_handler(self) -> Handler:
        """FastAPI's handler behind the checks; each request gets an answer, whatever happens, and is counted."""
        handler, queries, audited = super().get_route_handler(), self.queries, self.scope == "admin"

        async def answered(request: Request) -> Response:
            started = perf_counter()
            try:
                response = await self._checked(request, handler, queries)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  answered, and logged if it is our fault
                response = refused(await with_models(error, request), request.method, self.path, self.refusal)
            context: Context = request.app.context
            if RESERVED in request.scope:
                context.budget.release(request.scope)
            context.observe(self.path, request.method, response.status_code, perf_counter() - started)
            if audited:
                asked = {"method": request.method, "route": self.path, "status": response.status_code}
                audit.info("admin request", extra={**asked, "key": OWNER.get()})
            return response

        return answered

    async def _checked(self, request: Request, handler: Handler, queries: tuple[str, ...]) -> Response:
        if (guard := self._guard) is not None:
            await guard(request)
        if self.path not in PROBED:
            known_queries(request, *queries)
        field = None if self.body_field is None else self.body_field.field_info
        if field is not None:
            await _read_object(request, optional=not field.is_required())
        try:
            return await handler(request)
        except RequestValidationError as error:
            raise invalid(error.errors(), None if field is None else field.annotation) from None


async def _read_object(request: Request, *, optional: bool) -> None:
    """Read the body as a JSON object, and put it where FastAPI finds it; an ``optional`` one may be empty."""
    context: Context = request.app.context
    if not optional:
        bodies.media_type(request, (JSON,))
    body = await bodies.read_body(request, context.engine.bounds.body_bytes_max)
    if optional and not body.strip():
        request._body = b""  # noqa: SLF001  as below
        return
    bodies.media_type(request, (JSON,))
    if len(body) > bodies.SMALL_BYTES:
        size = await in_thread_if_large(len(body), json_body.decoded_bytes, body)
        await context.budget.decode(request.scope, body, size)
    parsed = await context.reader.call_if_large(len(body), json_body.json_object, body)
    request._body, request._json = body, parsed  # noqa: SLF001  where Starlette keeps what it has read


async def with_models(error: BaseException, request: Request) -> BaseException:
    """The error of a request; if its model does not exist, the error lists the existing models that its key covers."""
    if not isinstance(error, NotFound) or [one.allowed for one in error.problems] != [MODELS]:
        return error
    context: Context = request.app.context
    try:
        covers = covered_by(context.keys.caller(request.scope[LINES]))
        found, more = await context.engine.store.catalog.names(LISTED_MAX, wanted=covers)
    except (OnepassError, asyncio.CancelledError):
        return error  # the store went down, or the key expired, after the model was not found
    except Exception as fault:  # noqa: BLE001  a bug, or a store with foreign data: answered and logged
        return fault
    asked, (problem,) = request.path_params.get("name"), error.problems
    names = [name for name, _ in found if name != asked]  # that one was created a moment ago
    meant = suggestion(asked, names) or (f"; {MODELS}" if more else "")
    return NotFound(f"{error.detail}{meant}", [problem._replace(allowed=names)])


def refused(
    error: BaseException, method: str, path: str, refusal: Callable[[Exception], Response] = problem
) -> Response:
    """The answer to a failed request; errors of the service itself are logged."""
    if isinstance(error, ClientDisconnect):
        return disconnected()
    if not isinstance(error, Exception):  # cancelled by the server: the grace period ends before the request does
        return refusal(Unavailable("the service is stopping; the request may have been learned: send it again"))
    if isinstance(error, MemoryError):
        logger.error("%s %s: no memory", method, path, exc_info=error)
        return refusal(Unavailable("the service is out of memory; the request may have been learned: send it again"))
    if status_of(error) == 500:
        logger.error("%s %s failed", method, path, exc_info=error)
    else:
        logger.debug("%s %s was refused: %s", method, path, slug_of(error))
    return refusal(error)
