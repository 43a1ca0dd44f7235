"""Requests as spans of OpenTelemetry, made of the stages that were measured while they were answered.

A span is made when its request is over, with the times that were noted: serving calls nothing of OpenTelemetry before.
Attributes name the route, the model, its version, how many rows, the status, and the store's commands; never a feature,
a label, an id of a row, a key or a query.
"""

from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from service.api import request_id
from service.stages import Stages

on = False
"""Whether there is a tracer."""
_tracer: Tracer | None = None
_PROPAGATOR = TraceContextTextMapPropagator()
_CARRIED = frozenset({b"traceparent", b"tracestate"})
STORE = "redis "
"""What the names of stages begin with that are commands of the store."""


def switch(tracer: Tracer | None) -> None:
    """Make spans from now on; None: no longer."""
    global on, _tracer
    on, _tracer = tracer is not None, tracer


def export(scope: Scope, route: str | None, status: int, stages: Stages) -> None:
    """Make the spans of a request that was answered, below the span of its client where it names one.

    Args:
        scope: of the request.
        route: its path, with {name} for the model's; None: there is no such route, and its path is nobody's to keep.
        status: of the answer; 0: none was given.
        stages: what was measured.
    """
    assert _tracer is not None
    carried = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CARRIED}
    method = scope["method"]
    span = _tracer.start_span(
        f"{method} {route}" if route else method,
        _PROPAGATOR.extract(carried),
        SpanKind.SERVER,
        _attributes(scope, route, status, stages),
        start_time=stages.begun_ns,
    )
    if span.is_recording():
        if status >= 500 or not status:
            span.set_status(Status(StatusCode.ERROR))
        _export_stages(span, stages)
    span.end()


def _attributes(scope: Scope, route: str | None, status: int, stages: Stages) -> dict[str, Any]:
    found: dict[str, Any] = {
        "http.request.method": scope["method"],
        "http.route": route,
        "http.response.status_code": status or None,
        "url.scheme": scope.get("scheme"),
        "onepass.request_id": scope[request_id.ID].decode("ascii"),
        "onepass.model": scope.get("path_params", {}).get("name"),
        "onepass.version": stages.version,
        "onepass.rows": stages.rows or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _export_stages(parent: Span, stages: Stages) -> None:
    assert _tracer is not None
    context = set_span_in_context(parent)
    for name, begun_ns, ended_ns in stages.done:
        kind, command = SpanKind.INTERNAL, name.removeprefix(STORE)
        told: dict[str, Any] = {}
        if command != name:
            kind, told = SpanKind.CLIENT, {"db.system.name": "redis", "db.operation.name": command}
        _tracer.start_span(name, context, kind, told, start_time=begun_ns).end(ended_ns)
