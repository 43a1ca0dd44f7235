"""Conditional reads (RFC 9110): a client that has the present version of a model is answered 304, without a body.

The request is checked as any other before: its key, its queries, and how fresh its answer has to be.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.api.context import FRESHNESS, Context, fresh_by_query
from service.api.rendered import Rendered, Stamp

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
SHARED_S = 0.5
"""How old an answer may be where the request allows some age (``Cache-Control: max-age``). Pages do: many of them may
show a model that learns thousands of rows a second."""
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "`If-None-Match` holds the `ETag` of the present version: nothing has changed"}
}
"""In ``responses`` of a route: it is read conditionally."""
REPLICA = "onepass.replica"
"""Key of a request's scope: the model that it reads, as fresh as it asks for."""
_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})(?:$|[,\s])", re.IGNORECASE)


def conditional(path: str, handler: Handler, queries: tuple[str, ...]) -> Handler:
    """A handler that renders each version once, and nothing for a client that has it.

    Args:
        path: of the route.
        handler: answers with ``Rendered``, or with what is neither kept nor conditional.
        queries: that the route takes.
    """

    async def handle(request: Request) -> Response:
        context: Context = request.app.state.context
        fresh = await fresh_by_query(request, *queries) if request.scope["query_string"] else None
        replica = await context.engine.replica(request.path_params["name"], fresh)
        request.scope[REPLICA] = replica
        now = asyncio.get_running_loop().time()
        since = now if fresh is not None else now - _age_allowed(request)
        kept, key = context.rendered, (path, replica.name, *_representation(request))
        answer = kept.get(key, Stamp.of(replica), since)
        if answer is None:
            async with kept.lock(key):
                answer = kept.get(key, Stamp.of(replica), since)
                if answer is None:
                    begun = asyncio.get_running_loop().time()
                    response = await handler(request)
                    if not isinstance(response, Rendered):
                        return response
                    answer = response
                    kept.put(key, begun, answer)
        given = ",".join(request.headers.getlist("if-none-match"))
        return answer.not_modified() if matches(given, answer.stamp.tag) else answer

    return handle


def matches(given: str, tag: str) -> bool:
    """Whether the value of ``If-None-Match`` holds a tag, by the weak comparison; ``*`` holds every one."""
    return given.strip() == "*" or tag in _TAG.findall(given)


def _representation(request: Request) -> list[str]:
    """The queries that the body depends on."""
    if not request.scope["query_string"]:
        return []
    return [f"{name}={value}" for name, value in sorted(request.query_params.items()) if name not in FRESHNESS]


def _age_allowed(request: Request) -> float:
    allowed = _MAX_AGE.search(request.headers.get("cache-control", ""))
    return 0.0 if allowed is None else min(float(allowed[1]), SHARED_S)
