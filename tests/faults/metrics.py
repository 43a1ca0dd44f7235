"""What Prometheus would read of a service, whichever of its workers answers."""

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from tests.faults.processes import Service

Sample = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels."""


def scrape(service: Service) -> dict[Sample, float]:
    """Every sample, over a connection of its own."""
    families = text_string_to_metric_families(service.request("GET", "/metrics").body.decode())
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): float(sample.value) for sample in samples}
    assert len(samples) == len(found)  # no sample twice
    return found


def by_worker(service: Service, name: str, **labels: str) -> dict[str, float]:
    """One of the metrics, summed over all labels but the worker's and those given."""
    sums: Counter[str] = Counter()
    for (found, sample), value in scrape(service).items():
        if found == f"onepass_{name}" and labels.items() <= dict(sample).items():
            sums[dict(sample)["worker"]] += value
    return dict(sums)


def counters(samples: dict[Sample, float]) -> dict[Sample, float]:
    """Those that may only grow."""
    return {
        (name, labels): value
        for (name, labels), value in samples.items()
        if name.endswith(("_total", "_count", "_sum", "_bucket"))
    }
