"""The routes of single rows and batches: plain ASGI applications, which FastAPI documents.

The work of FastAPI and Starlette around an endpoint costs more than learning a row. These few routes need little of it:
``RowRoute.serve`` does all of it, from the request's key to the headers of its answer, and ``RowRequest`` finds headers
and a small body without Starlette's generators. The dependencies in their decorators are for /openapi.json alone.
"""

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect, Request, empty_send
from starlette.types import Receive, Scope, Send

from service.api.http import access_log
from service.api.http.bodies import RESERVED, SMALL_BYTES
from service.api.http.context import FRESHNESS, Context, fresh_by_query, known_queries, one_key
from service.api.http.headers import ALWAYS, LINES, MODEL, NAME, REQUEST_ID, begin_request
from service.api.http.media import JSON
from service.api.http.problems import invalid
from service.api.http.route import Route, refused, with_models

_JSON = (b"content-type", JSON.encode())


class RowRequest(Request):
    """A leaner Starlette request, which handlers use as usual; ``lines`` are its header lines."""

    _stream_consumed = _is_disconnected = False
    _form = None
    _left: Any = None

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self._receive, self._send = scope, receive, empty_send
        self.lines = scope[LINES]  # begin_request has read them

    async def receive(self) -> Any:  # in Starlette a property that returns a function
        """The next message of the client, or one that ``small_json`` left."""
        if self._left is not None:
            message, self._left = self._left, None
            return message
        return await self._receive()

    async def small_json(self, limit: int) -> bytes | None:
        """The body if it is plain JSON, complete, and too small to be counted; else None, and it can still be read.

        ``ClientDisconnect`` if the client has gone.
        """
        lines, bound = self.lines, min(limit, SMALL_BYTES)
        announced = lines.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > bound:
            return None
        message: Mapping[str, Any] = await self._receive()
        while message.get("more_body", False) and len(message["body"]) <= bound:
            more = await self._receive()
            if more["type"] == "http.disconnect":
                raise ClientDisconnect
            message = {**more, "body": message["body"] + more.get("body", b"")}
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        if (
            len(body) <= bound
            and not message.get("more_body", False)
            and lines.get(b"content-type") == b"application/json"
            and b"content-encoding" not in lines
        ):
            return body
        self._left = message
        return None


class RowRoute(Route):
    """A route of rows.

    It calls its endpoint with the context, the model's name, the request, and for reads the required freshness;
    the endpoint returns the bytes of a JSON document, or a response.
    """

    def __init__(self, *how: Any, **more: Any) -> None:
        super().__init__(*how, **more)
        self._rights, self._reads = self.scope, self.scope == "read"
        self._own_queries = [name for name in self.queries if name not in FRESHNESS]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that FastAPI has routed here; FastAPI refuses other methods and invalid names of models."""
        if scope["method"] == self.method and NAME.fullmatch(scope["path_params"]["name"]):
            await self.serve(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose scope has the app and, in ``path_params``, a valid name of a model."""
        started, own, name = perf_counter(), begin_request(scope), scope["path_params"]["name"]
        context: Context = scope["app"].context
        request = RowRequest(scope, receive)
        try:
            if context.keys.check(request.lines, self._rights, name) is None:
                context.guard.check(scope)
            if self._reads:
                fresh = await fresh_by_query(request, *self._own_queries) if scope["query_string"] else None
                found = await self.endpoint(context, name, request, fresh)
            else:
                one_key(request)
                if scope["query_string"]:
                    known_queries(request, *self._own_queries)
                found = await self.endpoint(context, name, request)
        except RequestValidationError as error:
            found = refused(invalid(error.errors()), "POST", self.path)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  answered, and logged if it is our fault
            found = refused(await with_models(error, request), "POST", self.path)
        if RESERVED in scope:
            context.budget.release(scope)
        seconds, status = perf_counter() - started, 200 if type(found) is bytes else found.status_code
        context.observe(self.path, "POST", status, seconds)
        if access_log.on:
            access_log.write(scope, status, seconds)
        headers = [(REQUEST_ID, own), (MODEL, name.encode()), *ALWAYS]
        if type(found) is bytes:
            headers += (_JSON, (b"content-length", b"%d" % len(found)))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": found})
        else:
            found.raw_headers += headers
            await found(scope, receive, send)
