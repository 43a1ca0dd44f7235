"""The access log: a line for every answer, where it is switched on (``ONEPASS_ACCESS_LOG``).

A line says what was asked, by the key of which name, and how it was answered, never the secret, the query or what is in
the body. Probes and scrapes that succeed come every few seconds, say nothing, and are left out.
"""

import logging
from typing import Any

from starlette.types import Scope

from service.runtime.stream_places import OWNER
from service.stages import Stages

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
    """Whether an answer is that of a probe or scrape that succeeded, which neither the log nor traces have."""
    return route in PROBES and 200 <= status < 300


def write(scope: Scope, status: int, seconds: float, stages: Stages | None = None) -> None:
    """Log an answer, with what its stages took where they were measured."""
    path = "".join(letter if letter.isprintable() else "?" for letter in scope["path"][:PATH_MAX])
    asked = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 1)}
    if (key := OWNER.get()) is not None:
        asked["key"] = key
    _logger.info("answered", extra=asked if stages is None else {**asked, **_measured(stages)})


def _measured(stages: Stages) -> dict[str, Any]:
    """The rows of a request, the model's version, and how many milliseconds each kind of stage took."""
    told: dict[str, Any] = {"rows": stages.rows} if stages.rows else {}
    if stages.version is not None:
        told["version"] = stages.version
    taken: dict[str, int] = {}
    for stage in stages.done:
        name = stage.name.partition(" ")[0]
        taken[name] = taken.get(name, 0) + stage.ended_ns - stage.begun_ns
    return told | {f"{name}_ms": round(spent / 1e6, 3) for name, spent in taken.items()}
