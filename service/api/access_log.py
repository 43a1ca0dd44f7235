"""The access log: a line for every answer, where it is switched on (``ONEPASS_ACCESS_LOG``).

A line says what was asked and how it was answered, never by which key, with which query or with what in the body.
"""

import logging

from starlette.types import Scope

NAME = "onepass.access"
_logger = logging.getLogger(NAME)
_logger.setLevel(logging.WARNING)  # off, whatever the level of the others


def switch_on() -> None:
    """Log answers from now on."""
    _logger.setLevel(logging.INFO)


def is_on() -> bool:
    """Whether answers are logged."""
    return _logger.isEnabledFor(logging.INFO)


def write(scope: Scope, status: int, seconds: float) -> None:
    """Log an answer."""
    _logger.info("%s %s %d %.1f ms", scope["method"], scope["path"], status, 1000 * seconds)
