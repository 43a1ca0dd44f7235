"""The routes of single rows and batches: plain ASGI applications, which FastAPI documents.

The work of FastAPI and Starlette around an endpoint costs more than learning a row. These few routes need little of it:
``RowRoute.serve`` does all of it, from the request's key to the headers of its answer. The dependencies in their
decorators are for /openapi.json alone.
"""

import asyncio
from time import perf_counter
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.types import Receive, Scope, Send

from service.api.http import access_log, request_id
from service.api.http.answer_headers import ALWAYS, MODEL
from service.api.http.bodies import RESERVED
from service.api.http.context import FRESHNESS, Context, fresh_by_query, known_queries
from service.api.http.media import JSON
from service.api.http.problems import invalid
from service.api.http.route import Route, let_in, refused
from service.api.rows.row_request import RowRequest

_JSON = (b"content-type", JSON.encode())


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
        """Answer a request that FastAPI has routed here."""
        if scope["method"] == self.method:
            await self.serve(scope, receive, send)
        else:
            await super().handle(scope, receive, send)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose scope has the app and, in ``path_params``, the model's name."""
        started, own, name = perf_counter(), request_id.begin(scope), scope["path_params"]["name"]
        context: Context = scope["app"].context
        request = RowRequest(scope, receive)
        try:
            let_in(context, scope, self._rights, name)
            if self._reads:
                fresh = await fresh_by_query(request, *self._own_queries) if scope["query_string"] else None
                found = await self.endpoint(context, name, request, fresh)
            else:
                if scope["query_string"]:
                    known_queries(request, *self._own_queries)
                found = await self.endpoint(context, name, request)
        except RequestValidationError as error:
            found = refused(invalid(error.errors()), "POST", self.path)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  answered, and logged where it is ours
            found = refused(error, "POST", self.path)
        if RESERVED in scope:
            context.budget.release(scope)
        seconds, status = perf_counter() - started, 200 if type(found) is bytes else found.status_code
        context.telemetry.observe(self.path, "POST", status, seconds)
        if access_log.on:
            access_log.write(scope, status, seconds)
        headers = [(request_id.HEADER, own), (MODEL, name.encode()), *ALWAYS]
        if type(found) is bytes:
            headers += (_JSON, (b"content-length", b"%d" % len(found)))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": found})
        else:
            found.raw_headers += headers
            await found(scope, receive, send)
