"""Prometheus metrics: requests are counted as they are answered, everything else is collected by a scrape."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.utils import floatToGoString

from core.model.unlabelled_watch import KIND
from service.monitor.drift_monitor import DriftMonitor
from service.monitor.families import COUNTED, TABLE, metric
from service.monitor.model_metrics import Activity, ModelSeries
from service.monitor.tag_metrics import TagMetrics
from service.runtime.engine import Engine
from service.runtime.replicas.changes import ACTIONS

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAGS_SHOWN = 20  # most models whose lag is shown: the number of metrics must not grow with the number of models


class Telemetry:
    """The metrics of one service: of its engine, its drift events, and at most ``models`` models.

    ``expiries`` returns when keys expire, by name, in seconds since 1970.
    """

    def __init__(
        self, engine: Engine, drift: DriftMonitor, models: int, expiries: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        self._engine, self._drift, self._most, self._expiries = engine, drift, models, expiries
        self._process, self._requests, self._turn = CollectorRegistry(), Requests(), asyncio.Lock()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)
        self.observe = self._requests.observe
        self._activity, self._models, self._tags = Activity(), ModelSeries(engine.pending), TagMetrics()

    async def render(self, sees: Callable[[str], bool] | None = None) -> tuple[bytes, str]:
        """All metrics and their content type; with ``sees``, only those of models that it allows.

        Sums of rows, requests, time or memory, and those by tag, are then left out: they would reveal other models.
        """
        found = [*self._health(), *await self._of_models(sees)]
        if sees is None:
            found += [*self._requests.collect(), *self._runtime(), *self._events(), *self._process.collect()]
            names = {one.name for one in found}  # families without samples are announced, too
            found += [metric(name, ()) for _, name, *_ in TABLE if f"onepass_{name}" not in names]
        collected: Any = SimpleNamespace(collect=lambda: found)  # all that generate_latest needs of a registry
        return generate_latest(collected), CONTENT_TYPE_LATEST

    async def _of_models(self, sees: Callable[[str], bool] | None) -> list[Metric]:
        async with self._turn:
            loaded = self._engine.models.loaded
            gains = await self._activity.look(asyncio.get_running_loop().time(), loaded)
            seen = {one.name: one for one in loaded if one.down is None and (sees is None or sees(one.name))}
            most = self._activity.most(self._most, [*seen])
            of_tags = await self._tags.collect(loaded, gains)
            found = [*self._lags(sees), *await self._models.collect([seen[name] for name in most])]
            if sees is None:
                keys = [((name,), at) for name, at in self._expiries().items()]
                found += [*of_tags, metric("key_expires_timestamp_seconds", keys)]
            return found

    def _lags(self, sees: Callable[[str], bool] | None) -> Iterator[Metric]:
        """How many models are behind their logs, how far, and which are furthest."""
        seen = [((model,), entries) for entries, model in self._engine.lags if sees is None or sees(model)]
        yield metric("models_lagging", len(seen))
        yield metric("lag_entries", seen[0][1] if seen else 0)
        yield metric("model_lag_entries", seen[:LAGS_SHOWN])

    def _health(self) -> Iterator[Metric]:
        """Whether the service and its store work; reveals nothing about models."""
        ready, checks = self._engine.ready()
        found = (("store_up", checks["store"]), ("store_full", not checks["room"]), ("hints", checks["hints"]))
        yield from (metric(name, int(bool(value))) for name, value in (*found, ("ready", ready)))

    def _runtime(self) -> Iterator[Metric]:
        """The runtime's counters, and what it holds."""
        models, stats = self._engine.models, self._engine.stats
        for name in COUNTED:
            value = getattr(stats, name)
            yield metric(name, [((action,), value[action]) for action in ACTIONS] if name == "switches" else value)
        yield metric("models_loaded", len(models.loaded))
        yield metric("models_bytes", models.ledger.used)
        yield metric("models_lost", len(models.lost))
        yield metric("models_down", models.down)
        yield metric("queued", sum(replica.inbox.waiting for replica in models.loaded))

    def _events(self) -> Iterator[Metric]:
        """Drift events by kind of test, their outcomes at the webhooks by number, the open streams."""
        drift = self._drift
        events = {**drift.publisher.published, KIND: drift.unlabelled.published}
        yield metric("drift_events", [((kind,), count) for kind, count in events.items()])
        outcomes = [((str(hook.number), what), count) for hook in drift.hooks for what, count in hook.outcomes.items()]
        yield metric("webhook_events", outcomes)
        yield metric("drift_streams", drift.broadcast.open)


@dataclass(slots=True)
class _Times:
    """The times of one route's requests: their number per bucket, of which the last is unbounded, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0


class Requests:
    """Counts requests as they are answered, on the event loop only, in plain numbers: the library's need locks."""

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
        answered = self._answered.items()
        yield metric("requests", [((route, method, str(status)), n) for (route, method, status), n in answered])
        bounds = [*map(floatToGoString, (*BUCKETS, inf))]
        taken = [
            (labels, [*zip(bounds, accumulate(times.counts), strict=True)], times.seconds)
            for labels, times in self._times.items()
        ]
        yield metric("request_duration_seconds", taken)
