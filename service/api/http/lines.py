"""The header lines of a request by name, as bytes: lookups that every request needs take one dict."""

from starlette.types import Scope

LINES = "onepass.lines"
"""Key of a request's scope."""


def lines_of(scope: Scope) -> dict[bytes, bytes]:
    """The header lines of a request; the first of equal ones counts."""
    found: dict[bytes, bytes] | None = scope.get(LINES)
    if found is None:
        found = scope[LINES] = dict(reversed(scope["headers"]))
    return found
