"""Conditional reads (RFC 9110): answers that depend on a model's version only say by their ETag which one they show.

A client that has the present version is answered 304, without a body. Such a request is checked as any other before:
its key, its queries, and how fresh its answer has to be.
"""

import re
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.runtime.replicas.replica import Replica

RELEASE = version("onepass")
"""Another release may render the same version in another way."""
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "`If-None-Match` holds the `ETag` of the present version: nothing has changed"}
}
"""In ``responses`` of a route: it is read conditionally."""
_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def tag_of(replica: Replica) -> str:
    """The ETag of a model as it is."""
    return f'"{replica.incarnation}-{replica.version}-{RELEASE}"'


def matches(given: str, tag: str) -> bool:
    """Whether the value of ``If-None-Match`` holds a tag, by the weak comparison; ``*`` holds every one."""
    return given.strip() == "*" or tag in _TAG.findall(given)


def not_modified(request: Request, replica: Replica) -> Response | None:
    """The answer to a client that has the present version of a model; None: it has not."""
    tag = tag_of(replica)
    given = ",".join(request.headers.getlist("if-none-match"))
    return tagged(Response(status_code=304), tag) if given and matches(given, tag) else None


def tagged(answer: Response, tag: str) -> Response:
    """An answer with the tag of the version that it shows."""
    answer.headers.update({"ETag": tag, "Cache-Control": "private, no-cache"})
    return answer
