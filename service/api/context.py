"""What every handler is given, and how a request's freshness and paging are read."""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Protocol

from starlette.requests import Request

from core.problems import Invalid
from service.api.keys import Keys
from service.runtime.broadcast import Broadcast
from service.runtime.engine import Engine, Freshness
from service.store.drift import DriftStreams
from service.store.events import iso as iso

LIMIT_MAX = 1000
LIMIT = 100
DIGITS_MAX = 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a model may be called."""


class Telemetry(Protocol):
    """What the API tells the monitor, and asks of it."""

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""

    def render(self) -> tuple[bytes, str]:
        """All metrics and their content type."""


@dataclass(frozen=True, slots=True)
class Context:
    """The collaborators of the handlers; ``recovering`` is held by the one RECOVER at a time."""

    engine: Engine
    keys: Keys
    telemetry: Telemetry
    drift: DriftStreams
    broadcast: Broadcast
    recovering: asyncio.Lock = field(default_factory=asyncio.Lock)


def freshness(request: Request) -> Freshness | None:
    """``min_version``, ``consistency`` and ``incarnation`` of a read; None where none is given.

    Raises:
        Invalid: naming the query parameter.
    """
    if not request.scope["query_string"]:
        return None
    query = request.query_params
    consistency = query.get("consistency", "eventual")
    if consistency not in ("eventual", "strong"):
        raise Invalid.of("consistency", "is not one of the choices", ["eventual", "strong"])
    return Freshness(
        whole(query.get("min_version"), "min_version", 0), consistency == "strong", query.get("incarnation")
    )


def whole(text: str | None, field: str, default: int, low: int = 0, high: int = 2**53) -> int:
    """A whole number from the query.

    Raises:
        Invalid: not a whole number in range.
    """
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX or not low <= int(text) <= high:
        raise Invalid.of(field, "is not a whole number in range", f">= {low} and <= {high}")
    return int(text)


def page(request: Request) -> tuple[int, str | None]:
    """``limit`` and ``cursor`` of a list.

    Raises:
        Invalid: naming the query parameter.
    """
    query = request.query_params
    return whole(query.get("limit"), "limit", LIMIT, 1, LIMIT_MAX), query.get("cursor")


def known_queries(request: Request, *names: str) -> None:
    """Refuse query parameters that a route does not know, and any that is given twice.

    Raises:
        Invalid: naming them.
    """
    if not request.scope["query_string"]:
        return
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in names:
            raise Invalid.of(name[:200], "is not a query parameter here", list(names))
        if given.count(name) > 1:
            raise Invalid.of(name, "is given twice")
