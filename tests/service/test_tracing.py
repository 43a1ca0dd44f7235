"""Stages of requests, as spans of OpenTelemetry and in the log at debug; nothing of what requests hold."""

import builtins
import io
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service import logs, otel, stages
from service.api import access_log, tracing
from service.errors import StoreDown
from tests.service.api_fixtures import columnar

pytestmark = pytest.mark.asyncio(loop_scope="module")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TOLD = {
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "url.scheme",
    "onepass.request_id",
    "onepass.model",
    "onepass.version",
    "onepass.rows",
    "db.system.name",
    "db.operation.name",
}
"""All attributes that there are."""


class Exported:
    """The spans of the requests made in a test."""

    def __init__(self, spans: otel.Spans, exporter: InMemorySpanExporter) -> None:
        self._spans, self._exporter = spans, exporter

    def take(self):
        """Request and stages by name, in the order in which they ended."""
        self._spans._provider.force_flush()
        found = self._exporter.get_finished_spans()
        self._exporter.clear()
        assert all(set(span.attributes) <= TOLD for span in found)
        (request,) = [span for span in found if span.kind == SpanKind.SERVER]
        parts = [span for span in found if span is not request]
        assert {request.context.span_id} <= {request.context.span_id, *(part.parent.span_id for part in parts)}
        assert all(request.context.trace_id == part.context.trace_id for part in parts)
        assert all(request.start_time <= part.start_time <= part.end_time <= request.end_time for part in parts)
        return request, parts


@pytest.fixture
def exported():
    exporter = InMemorySpanExporter()
    spans = otel.Spans(exporter)
    yield Exported(spans, exporter)
    spans.close()
    assert (False, False) == (stages.on, tracing.on)


def names(parts) -> list[str]:
    return [part.name for part in parts if part.kind == SpanKind.INTERNAL]


async def test_a_row_that_is_learned(api, exported):
    """Its request is a span below the client's, with a span for each stage."""
    path = await api.new()
    exported.take()
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "r-1"}
    row = {"features": {"a": 41.5, "b": 1}, "label": "UP", "id": "secret-id"}
    answer = await api.post(f"{path}/feedback", row, headers=headers)
    request, parts = exported.take()
    assert "POST /models/{name}/feedback" == request.name
    assert (TRACE, PARENT) == (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}")
    assert {
        "http.request.method": "POST",
        "http.route": "/models/{name}/feedback",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "onepass.request_id": "r-1",
        "onepass.model": path.rpartition("/")[2],
        "onepass.version": answer["version"],
        "onepass.rows": 1,
    } == request.attributes
    assert ["body", "decode", "queue", "append", "apply"] == names(parts)
    told = json.dumps([[span.name, *map(str, span.attributes.values())] for span in [request, *parts]])
    assert not [secret for secret in ("41.5", "UP", "secret-id") if secret in told]


async def test_batches_predictions_and_reads(api, exported):
    """Batches tell their rows; a strong read asks the store, by a span that names the command."""
    path = await api.new()
    exported.take()
    await api.post(f"{path}/feedback/batch", {**columnar(7), "labels": ["UP"] * 7})
    request, parts = exported.take()
    assert (7, ["body", "decode", "queue", "append", "apply"]) == (request.attributes["onepass.rows"], names(parts))
    await api.post(f"{path}/predict/batch?consistency=strong", columnar(5))
    request, parts = exported.take()
    assert (5, ["body", "decode", "predict"]) == (request.attributes["onepass.rows"], names(parts))
    await api.post(f"{path}/predict", {"features": {"a": 1, "b": 1}, "track": True})
    request, parts = exported.take()
    stored = {part.name: part.attributes for part in parts if part.kind == SpanKind.CLIENT}
    assert {"db.system.name": "redis", "db.operation.name": "EVALSHA"} == stored["redis EVALSHA"]


async def test_refusals_and_what_is_no_route(api, exported, monkeypatch):
    """A refusal is no error of the service, 503 is one; an unknown path is not kept."""
    await api.ask("GET", "/models/none/metrics?label=secret")
    request, _ = exported.take()
    assert ("GET /models/{name}/metrics", StatusCode.UNSET) == (request.name, request.status.status_code)
    await api.ask("GET", "/somewhere/secret")
    request, _ = exported.take()
    assert ("GET", 404) == (request.name, request.attributes["http.response.status_code"])

    async def gone(*_, **__):
        raise StoreDown("away")

    monkeypatch.setattr(api.app.state.context.engine, "replica", gone)
    assert 503 == (await api.ask("GET", "/models/m/metrics")).status_code
    assert StatusCode.ERROR == exported.take()[0].status.status_code


async def test_what_the_client_does_not_sample_is_not_sent(api, exported):
    """Its traceparent says so."""
    await api.ask("GET", "/version", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    exported._spans._provider.force_flush()
    assert () == exported._exporter.get_finished_spans()


async def test_nothing_is_measured_where_it_is_off(api, monkeypatch):
    """No clock is read for it."""
    monkeypatch.setattr(stages, "time_ns", None)
    path = await api.learnt()
    assert 200 == (await api.ask("POST", f"{path}/predict", json={"features": {"a": 1, "b": 1}})).status_code


async def test_stages_in_the_log(api, exported):
    """The line of an answer has rows, version and milliseconds, and nothing of the row."""
    stream = io.StringIO()
    root, before = logging.getLogger(), [*logging.getLogger().handlers]
    try:
        logs.configure("info", "json", True, stream)
        stages.switch(True)
        path = await api.new()
        await api.post(f"{path}/feedback", {"features": {"a": 41.5, "b": 1}, "label": "UP"})
    finally:
        root.handlers[:] = before
        access_log.switch(False)
    line = json.loads(stream.getvalue().splitlines()[-1])
    assert ("answered", 1, 1) == (line["event"], line["rows"], line["version"])
    assert {"body_ms", "decode_ms", "queue_ms", "append_ms", "apply_ms"} <= set(line)
    assert 0 <= line["append_ms"] <= line["ms"] + 0.1
    assert not [secret for secret in ("41.5", "UP") if secret in stream.getvalue()]


async def test_stages_of_a_long_stream_are_bounded():
    """A stream of rows goes on for ever."""
    measured = stages.Stages()
    for _ in range(1000):
        stages.Way(measured, 1).reached("append")
    assert (stages.STAGES_MAX, 1000) == (len(measured.done), measured.rows)


async def test_spans_are_sent_to_a_collector(api, monkeypatch):
    """By OTLP over HTTP to the endpoint that the variables name, with the service's name and their headers."""
    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.path, self.headers["x-key"], ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k")
        spans = otel.Spans()
        await api.ask("GET", "/version")
        spans._provider.force_flush()
        spans.close()
        server.shutdown()
    [(path, key, sent)] = got
    assert ("/v1/traces", "k") == (path, key)
    [resource] = sent.resource_spans
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert "onepass" == told["service.name"]
    assert ["GET /version"] == [span.name for scope in resource.scope_spans for span in scope.spans]


async def test_the_extra_is_named(monkeypatch):
    """Where it is not installed."""
    there = builtins.__import__

    def lacking(name, *how):
        if name.startswith("opentelemetry.sdk"):
            raise ImportError
        return there(name, *how)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(ValueError, match=r"ONEPASS_OTEL: needs the extra otel: pip install '\.\[otel\]'"):
        otel.Spans()
