"""The families of metrics, in one table: kind, name, labels, help."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from service.runtime.stats import Stats

COUNTER, GAUGE, HISTOGRAM = CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
COUNTED = {one.name: one.metadata["help"] for one in fields(Stats)}  # the runtime's counters
TABLE: tuple[tuple[Any, str, str, str], ...] = (
    *((COUNTER, name, "action" if name == "switches" else "", text) for name, text in COUNTED.items()),
    (COUNTER, "requests", "route method status", "Requests answered"),
    (HISTOGRAM, "request_duration_seconds", "route method", "Time to answer"),
    (GAUGE, "store_up", "", "Whether the store answers"),
    (GAUGE, "store_full", "", "Whether the store is refusing writes because it is full"),
    (GAUGE, "hints", "", "Whether append notices arrive"),
    (GAUGE, "ready", "", "Whether the service is ready for traffic"),
    (GAUGE, "models_loaded", "", "Models in memory"),
    (GAUGE, "models_bytes", "", "Estimated memory of the models"),
    (GAUGE, "models_lost", "", "Models in memory that the store has lost"),
    (GAUGE, "models_down", "", "Models out of service"),
    (GAUGE, "queued", "", "Requests waiting to be committed"),
    (GAUGE, "models_lagging", "", "Models known to be behind their logs"),
    (GAUGE, "lag_entries", "", "Entries not yet applied by the model furthest behind"),
    (GAUGE, "model_lag_entries", "model", "Entries not yet applied, for each of the models furthest behind"),
    (GAUGE, "model_info", "model algorithm task phase", "Facts about a model as labels; the value is 1"),
    (COUNTER, "model_rows", "model", "Rows that the model has learned"),
    (COUNTER, "model_unscored_rows", "model", "Rows before any label was known"),
    (COUNTER, "model_drift_episodes", "model", "Drift events, challengers' included"),
    (GAUGE, "model_score", "model", "Accuracy, or the mean squared error of a regression, in the metrics' window"),
    (GAUGE, "model_baseline", "model", "The same for the model's best baseline"),
    (GAUGE, "model_error_ratio", "model", "Errors (or class costs) over the best baseline's, in the window"),
    (GAUGE, "model_calibration_error", "model", "Expected calibration error (ece) in the window"),
    (GAUGE, "model_challengers_ahead", "model", "Challengers that are better than the model"),
    (GAUGE, "model_served_score", "model", "model_score of the model outside whose predictions are sent as served"),
    (GAUGE, "model_served_better", "model", "1 if the model outside is better, -1 if this model is, 0 if unknown"),
    (GAUGE, "model_coverage", "model level", "Share of labels within their intervals of this level, in the window"),
    (GAUGE, "model_pending_labels", "model", "Tracked predictions waiting for their labels"),
    (COUNTER, "model_expired_labels", "model", "Tracked predictions that expired without a label"),
    (GAUGE, "tag_models", "tag value", "Loaded models with a tag"),
    (GAUGE, "tag_models_worse", "tag value", "Loaded models with a tag that are worse than their best baselines"),
    (GAUGE, "tag_challengers_ahead", "tag value", "Challengers of models with a tag that are better than their models"),
    (COUNTER, "tag_rows", "tag value", "Rows learned by models with a tag, counted while loaded here"),
    (COUNTER, "tag_drift_episodes", "tag value", "Drift events of models with a tag, counted while loaded here"),
    (COUNTER, "drift_events", "kind", "Drift events this process was the first to publish"),
    (GAUGE, "drift_streams", "", "Open streams of drift events; at most 100"),
    (COUNTER, "webhook_events", "webhook outcome", "Drift events by webhook number and outcome, and failed attempts"),
    (GAUGE, "key_expires_timestamp_seconds", "key", "When the last key with a name expires"),
)
_BY_NAME = {name: (kind, labels.split(), text) for kind, name, labels, text in TABLE}


def metric(name: str, numbers: float | Iterable[tuple[Any, ...]]) -> Metric:
    """The metric ``onepass_NAME``, from one number, or from the arguments of ``add_metric`` for each set of labels."""
    kind, labels, text = _BY_NAME[name]
    found: Metric = kind(f"onepass_{name}", text, labels=labels)
    for sample in [((), numbers)] if isinstance(numbers, int | float) else numbers:
        found.add_metric(*sample)  # type: ignore[attr-defined]  # the base class lacks what all of them have
    return found
