"""The access log: a line for every answer, where it is switched on (``ONEPASS_ACCESS_LOG``).

A line says what was asked, by the key of which name, and how it was answered, never the secret, the query or what is in
the body. Probes and scrapes that succeed come every few seconds, say nothing, and are left out.
"""

import logging

from starlette.types import Scope

from service.runtime.broadcast import OWNER

PATH_MAX = 200
"""Characters of a path in a line."""
PROBES = frozenset({"/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready"})
_logger = logging.getLogger("onepass.access")
on = False
"""Whether answers are logged."""


def switch(wanted: bool) -> None:
    """Log answers from now on, or no longer."""
    global on  # noqa: PLW0603  one process, one log
    on = wanted


def is_quiet(route: str | None, status: int) -> bool:
    """Whether an answer is that of a probe or scrape that succeeded, which the log leaves out."""
    return route in PROBES and 200 <= status < 300


def write(scope: Scope, status: int, seconds: float) -> None:
    """Log an answer."""
    path = "".join(letter if letter.isprintable() else "?" for letter in scope["path"][:PATH_MAX])
    asked = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 1)}
    if (key := OWNER.get()) is not None:
        asked["key"] = key
    _logger.info("answered", extra=asked)
