"""Spans sent by OTLP over HTTP, as the variables ``OTEL_*`` say; the extra ``otel`` brings what that needs.

OTEL_EXPORTER_OTLP_ENDPOINT     where to; default: a collector on this machine, http://localhost:4318
OTEL_EXPORTER_OTLP_HEADERS      what it asks for, such as a key
OTEL_SERVICE_NAME               default: onepass
OTEL_TRACES_SAMPLER             default: all, but what its client does not sample
"""

import threading
from importlib.metadata import version
from typing import Any

from service import stages
from service.api import tracing

CLOSE_S = 1.0
"""What spans that wait have to be sent in when the service stops."""


def look_for_extra() -> None:
    """Refuse to go on without the extra.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: PLC0415  the extra
        import opentelemetry.sdk.trace  # noqa: F401, PLC0415  likewise
    except ImportError:
        raise ValueError("ONEPASS_OTEL: needs the extra otel: pip install '.[otel]' in a checkout") from None


class Spans:
    """Makes and sends spans until it is closed.

    Args:
        exporter: what sends them; None: OTLP over HTTP.

    Raises:
        ValueError: the extra is not installed.
    """

    def __init__(self, exporter: Any = None) -> None:
        look_for_extra()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  the extra
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource  # noqa: PLC0415  likewise
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  likewise
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  likewise

        known = Resource.create()  # with what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say
        own = {SERVICE_VERSION: version("onepass")}
        if str(known.attributes[SERVICE_NAME]).startswith("unknown_service"):
            own[SERVICE_NAME] = "onepass"
        self._provider = TracerProvider(resource=known.merge(Resource(own)), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        tracing.switch(self._provider.get_tracer("onepass", version("onepass")))
        self._measured = stages.on
        stages.switch(True)

    def close(self) -> None:
        """Make no more, and send what waits, within CLOSE_S: a collector that does not answer holds nobody up."""
        tracing.switch(None)
        stages.switch(self._measured)
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(CLOSE_S)
