"""Prometheus metrics: requests as they are answered, and the runtime's counters when they are asked for."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry, Counter, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from service.monitor.drift_monitor import DriftMonitor
from service.runtime.engine import Engine
from service.runtime.feature_switch import ACTIONS

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAGS_SHOWN = 20
"""Models that have a lag of their own among the metrics: their number must not grow with that of the models."""


class Telemetry:
    """The metrics of one service, in a registry of their own.

    Args:
        engine: whose counters and gauges are shown.
        drift: likewise, of events, webhooks and streams.
    """

    def __init__(self, engine: Engine, drift: DriftMonitor) -> None:
        self._engine, self._registry, self._requests = engine, CollectorRegistry(), _Requests()
        self._registry.register(self._requests)
        self._rows = Counter(
            "onepass_stream_rows", "Rows of streams answered", ("route", "status"), registry=self._registry
        )
        self._registry.register(_Runtime(engine))
        self._registry.register(_Drift(drift))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._streamed: dict[tuple[str, int], Counter] = {}
        self.observe = self._requests.observe

    def count_rows(self, route: str, status: int, rows: int) -> None:
        """Count the answered rows of a stream, each by the status that a request would have had."""
        counted = self._streamed.get((route, status))
        if counted is None:
            counted = self._streamed[route, status] = self._rows.labels(route, str(status))
        counted.inc(rows)

    def render(self, sees: Callable[[str], bool] = lambda _: True) -> tuple[bytes, str]:
        """All metrics and their content type; of single models those only whose names ``sees`` allows."""
        of_models = CollectorRegistry()
        of_models.register(_Models(self._engine, sees))
        return generate_latest(self._registry) + generate_latest(of_models), CONTENT_TYPE_LATEST


@dataclass(slots=True)
class _Times:
    """How long the requests of one route took: how many of them by bucket, the last one without end; and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0


class _Requests(Collector):
    """Requests as they are answered, on the event loop alone: plain numbers, since the library's take locks."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str, int], int] = {}
        self._times: dict[tuple[str, str], _Times] = {}

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        answered = (route, method, status)
        self._answered[answered] = self._answered.get(answered, 0) + 1
        times = self._times.get((route, method))
        if times is None:
            times = self._times[route, method] = _Times()
        times.counts[bisect_left(BUCKETS, seconds)] += 1
        times.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """The number of answers, and the times they took."""
        answered = CounterMetricFamily("onepass_requests", "Requests answered", labels=("route", "method", "status"))
        for (route, method, status), count in self._answered.items():
            answered.add_metric((route, method, str(status)), count)
        yield answered
        taken = HistogramMetricFamily("onepass_request_seconds", "Time to answer", labels=("route", "method"))
        bounds = [*map(floatToGoString, (*BUCKETS, inf))]
        for labels, times in self._times.items():
            buckets = [*zip(bounds, accumulate(times.counts), strict=True)]
            taken.add_metric(labels, buckets, times.seconds)
        yield taken


class _Runtime(Collector):
    """Collects the runtime's plain counters on request."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """One family per counter, and the present gauges."""
        engine = self._engine
        for counter in fields(engine.stats):
            name, text = f"onepass_{counter.name}", counter.metadata["help"]
            value = getattr(engine.stats, counter.name)
            if counter.name == "switches":
                yield _labelled(CounterMetricFamily, name, text, "action", {key: value[key] for key in ACTIONS})
            else:
                yield CounterMetricFamily(name, text, value)
        loaded, lags = engine.models.loaded, engine.lags
        gauges = {
            "models_loaded": ("Models in memory", len(loaded)),
            "models_bytes": ("Memory of the models, estimated", engine.models.ledger.used),
            "queued": ("Requests waiting to be committed", sum(replica.inbox.waiting for replica in loaded)),
            "store_up": ("Whether the store answers", int(engine.store_ok is True and not engine.committer.store_down)),
            "store_full": ("Whether the store has refused writes for lack of room", int(engine.store.connection.full)),
            "models_lost": ("Models in memory that the store has lost", len(engine.models.lost)),
            "models_lagging": ("Models that are known to be behind their logs", len(lags)),
            "lag_entries": ("Entries that the one furthest behind has not applied yet", lags[0][0] if lags else 0),
            "hints": ("Whether notices of appends are received", int(engine.notices.hearing)),
            "ready": ("Whether the service takes traffic", int(engine.ready()[0])),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"onepass_{name}", text, value)


class _Models(Collector):
    """What is told of single models; a key that may touch some models only is shown nothing of the others."""

    def __init__(self, engine: Engine, sees: Callable[[str], bool]) -> None:
        self._engine, self._sees = engine, sees

    def collect(self) -> Iterator[Metric]:
        """The lags of the models that are furthest behind."""
        seen = [(model, entries) for entries, model in self._engine.lags if self._sees(model)]
        yield _labelled(
            GaugeMetricFamily,
            "onepass_model_lag_entries",
            "Of each of those furthest behind",
            "model",
            dict(seen[:LAGS_SHOWN]),
        )


class _Drift(Collector):
    """Reads the counters of the drift monitor; labels are the kinds of tests and the numbers of webhooks: few."""

    def __init__(self, drift: DriftMonitor) -> None:
        self._drift = drift

    def collect(self) -> Iterator[Metric]:
        """Events, their outcomes at the webhooks, and the open streams."""
        text = "Drift events this process was the first to publish"
        events = {**self._drift.publisher.published, self._drift.unlabelled.kind: self._drift.unlabelled.published}
        yield _labelled(CounterMetricFamily, "onepass_drift_events", text, "kind", events)
        hooks = CounterMetricFamily(
            "onepass_webhook_events",
            "Drift events delivered to, dropped at and held back from a webhook, and attempts that failed; by number",
            labels=["webhook", "outcome"],
        )
        for hook in self._drift.hooks:
            for outcome, count in hook.outcomes.items():
                hooks.add_metric([str(hook.number), outcome], count)
        yield hooks
        yield GaugeMetricFamily("onepass_drift_streams", "Open streams of drift events", self._drift.broadcast.open)
        yield GaugeMetricFamily(
            "onepass_streams",
            "Open streams of events, documents and rows; ONEPASS_STREAMS_MAX is the most",
            self._drift.broadcast.all_open,
        )


def _labelled(
    family: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, float],
) -> Metric:
    """A family with one label: a sample for each of its values."""
    made = family(name, text, labels=[label])
    for value, number in values.items():
        made.add_metric([value], number)
    return made
