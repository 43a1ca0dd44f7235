"""Prometheus metrics: requests as they are answered, and the runtime's counters when they are asked for."""

from collections.abc import Iterator
from dataclasses import fields

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from service.monitor.drift_monitor import DriftMonitor
from service.runtime.engine import Engine
from service.runtime.feature_switch import ACTIONS

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAGS_SHOWN = 20
"""Models that have a lag of their own among the metrics: their number must not grow with that of the models."""
HELP = {
    "ticks": "Pipelines sent to the store",
    "entries": "Log entries this process made",
    "segments": "Requests committed in log entries",
    "rows": "Rows learned, whoever committed them",
    "duplicates": "Rows answered from an earlier request with the same id",
    "refused": "Segments refused in apply",
    "unreplicated": "Requests refused because too few of the store's replicas had them in time",
    "store_errors": "Pipelines to the store that failed",
    "loads": "Models loaded from the store",
    "evictions": "Models that left memory for the budget",
    "snapshots": "Snapshots written",
    "corrupt_snapshots": "Snapshots found corrupt and passed over",
    "lost_tails": "Times a replica found the tail of its log gone or rewritten",
    "lost_entries": "Entries applied here that were lost so, at least",
    "models_down": "Models taken out of service",
    "switches": "Steps in changes of features that this process committed, by action",
}


class Telemetry:
    """The metrics of one service, in a registry of their own.

    Args:
        engine: whose counters are shown.
        drift: likewise.
    """

    def __init__(self, engine: Engine, drift: DriftMonitor) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "onepass_requests", "Requests answered", ("route", "method", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "onepass_request_seconds", "Time to answer", ("route", "method"), buckets=BUCKETS, registry=self._registry
        )
        self._registry.register(_Runtime(engine))
        self._registry.register(_Drift(drift))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._counted: dict[tuple[str, str, int], Counter] = {}
        self._timed: dict[tuple[str, str], Histogram] = {}

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request; children are looked up once, since labels() is slow."""
        counted = self._counted.get((route, method, status))
        if counted is None:
            counted = self._counted[route, method, status] = self._requests.labels(route, method, str(status))
        counted.inc()
        timed = self._timed.get((route, method))
        if timed is None:
            timed = self._timed[route, method] = self._seconds.labels(route, method)
        timed.observe(seconds)

    def render(self) -> tuple[bytes, str]:
        """All metrics and their content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


class _Runtime(Collector):
    """Reads the runtime's plain counters when Prometheus asks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """One family per counter, and the gauges of the moment."""
        engine = self._engine
        for field in fields(engine.stats):
            if field.name != "switches":
                yield CounterMetricFamily(f"onepass_{field.name}", HELP[field.name], getattr(engine.stats, field.name))
        switches = CounterMetricFamily("onepass_switches", HELP["switches"], labels=("action",))
        for action in ACTIONS:
            switches.add_metric((action,), engine.stats.switches[action])
        yield switches
        loaded, lags = engine.models.loaded, engine.lags
        gauges = {
            "models_loaded": ("Models in memory", len(loaded)),
            "models_bytes": ("Memory of the models, estimated", engine.models.ledger.used),
            "queued": ("Requests waiting to be committed", sum(len(replica.queue) for replica in loaded)),
            "store_up": ("Whether the store answers", int(engine.store_ok is True and not engine.committer.store_down)),
            "models_lagging": ("Models that are known to be behind their logs", len(lags)),
            "lag_entries": ("Entries that the one furthest behind has not applied yet", lags[0][0] if lags else 0),
            "hints": ("Whether hints of appends are heard", int(engine.notices.hearing)),
            "ready": ("Whether the service takes traffic", int(engine.ready()[0])),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"onepass_{name}", text, value)
        by_model = GaugeMetricFamily("onepass_model_lag_entries", "Of each of those furthest behind", labels=["model"])
        for entries, model in lags[:LAGS_SHOWN]:
            by_model.add_metric([model], entries)
        yield by_model


class _Drift(Collector):
    """Reads the counters of the drift monitor; labels are the kinds of tests and the numbers of webhooks: few."""

    def __init__(self, drift: DriftMonitor) -> None:
        self._drift = drift

    def collect(self) -> Iterator[Metric]:
        """Events, what became of them at the webhooks, and the open streams."""
        events = CounterMetricFamily(
            "onepass_drift_events", "Drift events this process was the first to publish", labels=["kind"]
        )
        for kind, count in self._drift.publisher.published.items():
            events.add_metric([kind], count)
        yield events
        hooks = CounterMetricFamily(
            "onepass_webhook_events",
            "Drift events delivered to and dropped at a webhook, and attempts that failed; webhooks by number",
            labels=["webhook", "outcome"],
        )
        for hook in self._drift.hooks:
            for outcome, count in hook.outcomes.items():
                hooks.add_metric([str(hook.number), outcome], count)
        yield hooks
        yield GaugeMetricFamily("onepass_drift_streams", "Open streams of drift events", self._drift.broadcast.open)
