"""Spans of requests: FastAPI makes them, this module sends them by OTLP over HTTP. It needs the extra ``otel``.

The variables ``OTEL_*`` configure it: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS,
OTEL_SERVICE_NAME (default: onepass), OTEL_TRACES_SAMPLER.
"""

from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

QUERY = "url.query"


class Spans(BatchSpanProcessor):
    """Sends spans without the queries of requests, which may contain labels and ids of rows."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Clear the query of a span that begins."""
        if span.attributes and QUERY in span.attributes:
            span.set_attribute(QUERY, "")
        super().on_start(span, parent_context)


def provider() -> TracerProvider:
    """The tracer provider, which makes and sends spans until its ``shutdown``."""
    own = {SERVICE_NAME: "onepass", SERVICE_VERSION: version("onepass")}
    resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(Spans(OTLPSpanExporter()))
    return made
