"""The id of a request, which is in its answer and its log lines, and the trace it belongs to.

A client's ``X-Request-ID`` is used if it is short and printable; otherwise the request gets a random one: consecutive
numbers would reveal how many requests other clients make.
"""

import re
import secrets
from collections.abc import Iterator
from contextvars import ContextVar

from starlette.types import Scope

from service.api.http.lines import lines_of

HEADER, TRACE_HEADER = b"x-request-id", b"traceparent"
ID = "onepass.request_id"
"""Key of a request's scope."""
CURRENT: ContextVar[Scope | None] = ContextVar("onepass_request", default=None)
"""The scope of the current request; its log fields are looked up only when a line is logged."""

_GIVEN = re.compile(rb"[!-~]{1,128}")
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-[!-~]*)?")
"""W3C Trace Context: version, trace, parent, flags; a later version may add fields."""
_OWN = secrets.token_hex(6).encode()
AT_ONCE = 512
"""Ids that are drawn together: one by one, each would cost a system call."""


def _ids() -> Iterator[bytes]:
    """Ids of 64 random bits behind those of the process."""
    while True:
        drawn = secrets.token_hex(8 * AT_ONCE).encode()
        for at in range(0, len(drawn), 16):
            yield b"%b-%b" % (_OWN, drawn[at : at + 16])


_new = _ids()


def begin(scope: Scope) -> bytes:
    """Begin a request, unless it has begun; its id."""
    if ID in scope:
        return scope[ID]  # type: ignore[no-any-return]
    given = lines_of(scope).get(HEADER)
    own = new_id() if given is None or _GIVEN.fullmatch(given) is None else given
    scope[ID] = own
    CURRENT.set(scope)
    return own


def new_id() -> bytes:
    """An id that no other request has, in any process."""
    return next(_new)


def logged() -> dict[str, str]:
    """The log fields of the current request; none outside a request."""
    scope = CURRENT.get()
    if scope is None:
        return {}
    found = {"request_id": scope[ID].decode("ascii")}
    if (model := scope.get("path_params", {}).get("name")) is not None:
        found["model"] = model
    for name, value in scope["headers"]:
        if name == TRACE_HEADER and (trace := _TRACE.fullmatch(value)) is not None and not value.startswith(b"ff"):
            if int(trace[1], 16) and int(trace[2], 16):
                found |= {"trace_id": trace[1].decode(), "parent_id": trace[2].decode()}
            break
    return found
