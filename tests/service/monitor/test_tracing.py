"""Requests as spans of OpenTelemetry, where a collector is named; nothing of what requests hold."""

import json
import sys

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from service import app as service_app
from service.api import tracing
from service.errors import StoreDown
from tests.service.api_fixtures import columnar
from tests.service.client.fixtures import answering

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
COLLECTOR = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def exporter(monkeypatch):
    """Keeps the spans of a service that is started next."""
    made = InMemorySpanExporter()
    monkeypatch.setenv(COLLECTOR, "http://127.0.0.1:9")
    monkeypatch.setattr(tracing, "OTLPSpanExporter", lambda: made)
    return made


async def spans_of(api, exporter, method, path, **how):
    """The answer to a request, and its spans."""
    flush = api.app._telemetry["tracer_provider"].force_flush
    flush()
    exporter.clear()
    answer = await api.ask(method, path, **how)
    flush()
    return answer, exporter.get_finished_spans()


@pytest.mark.parametrize("root", ["", "/ml"])
async def test_rows_and_batches(start, exporter, root):
    """A span below the client's, with route and status; nothing of the row, its id or the query is in it."""
    api = await start(root_path=root)
    path = root + await api.new()
    row = {"features": {"a": 41.5, "b": 1}, "label": "UP", "id": "secret-id"}
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "r-1"}
    answer, (span,) = await spans_of(api, exporter, "POST", f"{path}/feedback", json=row, headers=headers)
    assert (200, "r-1") == (answer.status_code, answer.headers["x-request-id"])
    assert path.rpartition("/")[2] == answer.headers["x-onepass-model"]
    assert f"POST {root}/models/{{name}}/feedback" == span.name
    assert (TRACE, PARENT) == (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}")
    assert f"{root}/models/{{name}}/feedback" == span.attributes["http.route"]
    assert 200 == span.attributes["http.response.status_code"]
    told = json.dumps([*map(str, span.attributes.values())])
    assert not [secret for secret in ("41.5", "UP", "secret-id") if secret in told]
    url = f"{path}/predict/batch?min_version=0"
    answer, (span,) = await spans_of(api, exporter, "POST", url, json=columnar(2))
    assert (200, "") == (answer.status_code, span.attributes["url.query"])
    assert f"{root}/models/{{name}}/predict/batch" == span.attributes["http.route"]


async def test_refusals_and_probes(start, exporter, monkeypatch):
    """A refusal is no error of the service, 503 is one; what the client does not sample and probes are no spans."""
    api = await start()
    _, (span,) = await spans_of(api, exporter, "GET", "/models/none/metrics?label=secret")
    assert ("GET /models/{name}/metrics", StatusCode.UNSET) == (span.name, span.status.status_code)
    assert (422, "") == (span.attributes["http.response.status_code"], span.attributes["url.query"])
    assert () == (await spans_of(api, exporter, "GET", "/healthz"))[1]
    unsampled = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    assert () == (await spans_of(api, exporter, "GET", "/version", headers=unsampled))[1]

    async def gone(*_, **__):
        raise StoreDown("away")

    monkeypatch.setattr(api.engine, "replica", gone)
    _, (span,) = await spans_of(api, exporter, "GET", "/models/m/metrics")
    assert (503, StatusCode.ERROR) == (span.attributes["http.response.status_code"], span.status.status_code)


async def test_spans_are_sent_to_a_collector(start, monkeypatch):
    """By OTLP over HTTP to the endpoint that the variables name, with the service's name and their headers."""
    got = []
    with answering(lambda _: (200, b""), got) as url:
        monkeypatch.setenv(COLLECTOR, url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k")
        api = await start()
        await api.ask("GET", "/version")
        api.app._telemetry["tracer_provider"].force_flush()
    [(path, headers, body)] = got
    assert ("/v1/traces", "k") == (path, headers["x-key"])
    sent = ExportTraceServiceRequest.FromString(body)
    [resource] = sent.resource_spans
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert "onepass" == told["service.name"]
    assert ["GET /version"] == [span.name for scope in resource.scope_spans for span in scope.spans]


async def test_without_a_collector_nothing_makes_spans(api):
    """FastAPI is told so."""
    assert not api.app._telemetry["tracing"]


async def test_the_extra_is_named(monkeypatch, caplog):
    """Where a collector is named, but the extra is not installed: a machine may name one for all of its programs."""
    monkeypatch.setenv(COLLECTOR, "http://127.0.0.1:9")
    monkeypatch.delattr("service.api.tracing")
    monkeypatch.setitem(sys.modules, "service.api.tracing", None)
    assert service_app._spans() is None
    assert [f"{COLLECTOR}: spans need the extra otel: pip install '.[otel]' in a checkout"] == caplog.messages
