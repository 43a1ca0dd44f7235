"""The access log: a line per answer, if it is on (``ONEPASS_ACCESS_LOG``).

A line has the request, the name of its key and the answer's status, never the secret, the query or the body. Successful
probes and scrapes, which come every few seconds, are left out.
"""

import logging

from starlette.types import Scope

from service.runtime.broadcast import OWNER

PATH_MAX = 200  # most characters of a path in a line
WRITTEN = "onepass.logged"  # key of a request's scope: its answer has a line
PROBES = frozenset({"/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
_logger = logging.getLogger("onepass.access")
on = False  # whether answers are logged


def switch(wanted: bool) -> None:
    """Switch the access log on or off."""
    global on  # noqa: PLW0603  one process, one log
    on = wanted


def is_quiet(route: str | None, status: int) -> bool:
    """Whether an answer belongs to a successful probe or scrape, which the log leaves out."""
    return route in PROBES and 200 <= status < 300


def write(scope: Scope, status: int, seconds: float) -> None:
    """Log an answer, unless it has been logged already."""
    if WRITTEN in scope:
        return
    scope[WRITTEN] = True
    path = "".join(letter if letter.isprintable() else "?" for letter in scope["path"][:PATH_MAX])
    asked = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 1)}
    if (key := OWNER.get()) is not None:
        asked["key"] = key
    _logger.info("answered", extra=asked)
