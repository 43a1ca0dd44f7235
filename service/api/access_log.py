"""The access log: a line for every answer, where it is switched on (``ONEPASS_ACCESS_LOG``).

A line says what was asked and how it was answered, never by which key, with which query or with what in the body.
"""

import logging

from starlette.types import Scope

PATH_MAX = 200
"""Characters of a path in a line."""
_logger = logging.getLogger("onepass.access")
on = False
"""Whether answers are logged."""


def switch(wanted: bool) -> None:
    """Log answers from now on, or no longer."""
    global on  # noqa: PLW0603  one process, one log
    on = wanted


def write(scope: Scope, status: int, seconds: float) -> None:
    """Log an answer."""
    path = "".join(letter if letter.isprintable() else "?" for letter in scope["path"][:PATH_MAX])
    asked = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 1)}
    _logger.info("answered", extra=asked)
