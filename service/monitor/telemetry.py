"""Prometheus metrics: requests as they are answered, and the runtime's counters when they are asked for."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from service.monitor.drift_monitor import DriftMonitor
from service.monitor.families import counter, gauge
from service.monitor.model_metrics import Activity, ModelMetrics
from service.monitor.tag_metrics import TagMetrics
from service.runtime.changes import ACTIONS
from service.runtime.engine import Engine

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAGS_SHOWN = 20
"""Models that have a lag of their own among the metrics: their number must not grow with that of the models."""


class Telemetry:
    """The metrics of one service, in a registry of their own.

    Args:
        engine: whose counters and gauges are shown.
        drift: likewise, of events, webhooks and streams.
        models: most models that have metrics of their own.
        expiries: when keys expire, by name, in seconds since 1970.
    """

    def __init__(
        self,
        engine: Engine,
        drift: DriftMonitor,
        models: int,
        expiries: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self._engine, self._registry, self._requests = engine, CollectorRegistry(), _Requests()
        self._registry.register(self._requests)
        self._health = _Health(engine)
        for own in (_Runtime(engine), self._health, _Drift(drift)):
            self._registry.register(own)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self.observe = self._requests.observe
        self._most, self._turn, self._expiries = models, asyncio.Lock(), expiries
        self._activity, self._models, self._tags = Activity(), ModelMetrics(engine.pending), TagMetrics()

    async def render(self, sees: Callable[[str], bool] | None = None) -> tuple[bytes, str]:
        """All metrics and their content type.

        Args:
            sees: of which models the caller may know; None: of all, and of their sums by tag. Otherwise no sums are
                told, of rows or requests, time or memory: they tell of the other models, too.
        """
        of_models = CollectorRegistry()
        of_models.register(_Collected(await self._of_models(sees)))
        if sees is None:
            return generate_latest(self._registry) + generate_latest(of_models), CONTENT_TYPE_LATEST
        of_models.register(self._health)
        return generate_latest(of_models), CONTENT_TYPE_LATEST

    async def _of_models(self, sees: Callable[[str], bool] | None) -> list[Metric]:
        async with self._turn:
            loaded = self._engine.models.loaded
            gains = await self._activity.look(asyncio.get_running_loop().time(), loaded)
            seen = {one.name: one for one in loaded if one.down is None and (sees is None or sees(one.name))}
            most = self._activity.most(self._most, [*seen])
            of_tags = await self._tags.collect(loaded, gains)
            return [
                *self._lags(sees),
                *await self._models.collect([seen[name] for name in most]),
                *((*of_tags, self._keys()) if sees is None else ()),
            ]

    def _keys(self) -> Metric:
        found = [((name,), at) for name, at in self._expiries().items()]
        return gauge("key_expires_timestamp_seconds", "When the last key of a name expires", ("key",), found)

    def _lags(self, sees: Callable[[str], bool] | None) -> Iterator[Metric]:
        """How many models are behind their logs, how far, and those that are furthest."""
        seen = [((model,), entries) for entries, model in self._engine.lags if sees is None or sees(model)]
        furthest = seen[0][1] if seen else 0
        yield gauge("models_lagging", "Models that are known to be behind their logs", (), [((), len(seen))])
        yield gauge("lag_entries", "Entries that the one furthest behind has not applied yet", (), [((), furthest)])
        yield gauge("model_lag_entries", "Of each of those furthest behind", ("model",), seen[:LAGS_SHOWN])


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
        labels = ("route", "method", "status")
        answered = [((route, method, str(status)), count) for (route, method, status), count in self._answered.items()]
        yield counter("requests", "Requests answered", labels, answered)
        name = "onepass_request_duration_seconds"
        taken = HistogramMetricFamily(name, "Time to answer", labels=("route", "method"))
        bounds = [*map(floatToGoString, (*BUCKETS, inf))]
        for of, times in self._times.items():
            buckets = [*zip(bounds, accumulate(times.counts), strict=True)]
            taken.add_metric(of, buckets, times.seconds)
        yield taken


class _Runtime(Collector):
    """Collects the runtime's plain counters on request."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """One family per counter, and the present gauges."""
        engine = self._engine
        for counted in fields(engine.stats):
            value, text = getattr(engine.stats, counted.name), counted.metadata["help"]
            if counted.name == "switches":
                yield counter(counted.name, text, ("action",), [((action,), value[action]) for action in ACTIONS])
            else:
                yield counter(counted.name, text, (), [((), value)])
        loaded = engine.models.loaded
        gauges = {
            "models_loaded": ("Models in memory", len(loaded)),
            "models_bytes": ("Memory of the models, estimated", engine.models.ledger.used),
            "queued": ("Requests waiting to be committed", sum(replica.inbox.waiting for replica in loaded)),
            "models_lost": ("Models in memory that the store has lost", len(engine.models.lost)),
        }
        for name, (text, value) in gauges.items():
            yield gauge(name, text, (), [((), value)])


class _Health(Collector):
    """How the service is; nothing of it is of any model."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Whether it and its store can be used."""
        engine = self._engine
        gauges = {
            "store_up": ("Whether the store answers", int(engine.store_ok is True and not engine.committer.store_down)),
            "store_full": ("Whether the store has refused writes for lack of room", int(engine.store.connection.full)),
            "hints": ("Whether notices of appends are received", int(engine.notices.hearing)),
            "ready": ("Whether the service takes traffic", int(engine.ready()[0])),
        }
        for name, (text, value) in gauges.items():
            yield gauge(name, text, (), [((), value)])


class _Collected(Collector):
    """What has been collected, for the library to write."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        """The same."""
        return self._metrics


class _Drift(Collector):
    """Reads the counters of the drift monitor; labels are the kinds of tests and the numbers of webhooks: few."""

    def __init__(self, drift: DriftMonitor) -> None:
        self._drift = drift

    def collect(self) -> Iterator[Metric]:
        """Events, their outcomes at the webhooks, and the open streams."""
        text = "Drift events this process was the first to publish"
        events = {**self._drift.publisher.published, self._drift.unlabelled.kind: self._drift.unlabelled.published}
        yield counter("drift_events", text, ("kind",), [((kind,), count) for kind, count in events.items()])
        text = "Drift events delivered to, dropped at and held back from a webhook, and attempts that failed; by number"
        outcomes = [
            ((str(hook.number), outcome), count)
            for hook in self._drift.hooks
            for outcome, count in hook.outcomes.items()
        ]
        yield counter("webhook_events", text, ("webhook", "outcome"), outcomes)
        text = "Open streams of drift events; 100 at most"
        yield gauge("drift_streams", text, (), [((), self._drift.broadcast.open)])
