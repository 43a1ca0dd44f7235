"""Headers of requests and answers: lookups, what every answer has, and the id of a request.

The id is in the answer and in the log lines of its request. A client's ``X-Request-ID`` is used if it is short and
printable; otherwise the request gets a random one: consecutive numbers would reveal how many requests other clients
make.
"""

import re
import secrets
from contextvars import ContextVar

from starlette.types import Scope

NOSNIFF = (b"x-content-type-options", b"nosniff")
ALWAYS = (NOSNIFF, (b"cross-origin-resource-policy", b"same-origin"))
"""Browsers must not guess the media type of an answer, and pages of other sites must not embed one."""
PAGES = ((b"referrer-policy", b"no-referrer"), (b"x-frame-options", b"DENY"))
"""Headers of pages: send no referrer, allow no frames."""
MODEL = b"x-onepass-model"  # header with the model's name, for load balancers and their logs
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # valid names of models
REQUEST_ID, TRACE_HEADER = b"x-request-id", b"traceparent"
LINES, ID = "onepass.lines", "onepass.request_id"
"""Keys of a request's scope: its header lines by name (the first one of a repeated name), and its id."""
CURRENT: ContextVar[Scope | None] = ContextVar("onepass_request", default=None)
"""The scope of the current request; its log fields are looked up only when a line is logged."""

_GIVEN = re.compile(rb"[!-~]{1,128}")
_SPACE = 0x20
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-[!-~]*)?")
"""W3C Trace Context: version, trace, parent, flags; a later version may add fields."""
_OWN = secrets.token_hex(6).encode()
AT_ONCE = 512  # ids that are drawn together: one by one, each would cost a system call
_drawn: list[bytes] = []


def begin_request(scope: Scope) -> bytes:
    """Begin a request, unless it has begun, and return its id. Removes trailing blanks, which the parser leaves."""
    if ID in scope:
        return scope[ID]  # type: ignore[no-any-return]
    for _, value in scope["headers"]:
        if value and value[-1] <= _SPACE:  # or a tab
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
            break
    scope[LINES] = lines = dict(reversed(scope["headers"]))
    own = lines.get(REQUEST_ID)
    if own is None or _GIVEN.fullmatch(own) is None:
        own = new_id()
    scope[ID] = own
    CURRENT.set(scope)
    return own


def new_id() -> bytes:
    """An id that no other request has, in any process: the random bits of the process, then 64 of its own."""
    if not _drawn:
        drawn = secrets.token_hex(8 * AT_ONCE).encode()
        _drawn.extend([b"%b-%b" % (_OWN, drawn[at : at + 16]) for at in range(0, len(drawn), 16)])
    return _drawn.pop()


def log_fields() -> dict[str, str]:
    """The log fields of the current request; none outside a request."""
    scope = CURRENT.get()
    if scope is None:
        return {}
    found = {"request_id": scope[ID].decode("ascii")}
    model = scope.get("path_params", {}).get("name", "")
    if NAME.fullmatch(model):  # a client may send any text in place of a name
        found["model"] = model
    for name, value in scope["headers"]:
        if name == TRACE_HEADER and (trace := _TRACE.fullmatch(value)) is not None and not value.startswith(b"ff"):
            if int(trace[1], 16) and int(trace[2], 16):
                found |= {"trace_id": trace[1].decode(), "parent_id": trace[2].decode()}
            break
    return found
