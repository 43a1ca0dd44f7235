"""Families of metrics with labels, made in one line each."""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Sample = tuple[Sequence[str], float]
"""The values of the labels, and the number."""


def gauge(name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    """A gauge ``onepass_NAME`` with labels."""
    return _filled(GaugeMetricFamily(f"onepass_{name}", text, labels=labels), samples)


def counter(name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    """A counter ``onepass_NAME_total`` with labels."""
    return _filled(CounterMetricFamily(f"onepass_{name}", text, labels=labels), samples)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, samples: Iterable[Sample]) -> Metric:
    for values, number in samples:
        family.add_metric(values, number)
    return family
