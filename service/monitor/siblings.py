"""What the workers behind one port tell Prometheus: each leaves its samples where the others find them.

    DIR/0, DIR/1, ...    the last samples of each worker: [moment, [family, ...]] in msgpack
    DIR/0.new, ...       being written; renamed when whole

The kernel picks the worker that is asked, and it answers for all. A counter must not fall because another one answers
next, so the one that is asked writes its own samples first, and a file only ever gives way to a newer one. Moments are
those of the monotonic clock, which processes of one machine share; a step of the wall clock makes nothing old.

A worker that ends takes its file along. That of one that was killed is left out when it is too old; the one that
replaces it writes under the same number, and its counters begin anew, as those of any restarted service.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric

logger = logging.getLogger(__name__)

EVERY_S = 0.5
"""How often a worker writes its samples unasked."""
AGE_S_MAX = 10.0
"""Older samples are left out. A worker that computes for so long without a pause is there again when it has done."""
BYTES_MAX = 16 * 2**20
"""Larger files are left out; a worker's samples take a few hundred kB at most."""
LABEL = "worker"
AGE = ("onepass_worker_sample_age_seconds", "How long ago the worker wrote the samples shown here")


class Family(msgspec.Struct, array_like=True, frozen=True):
    """A metric as it lies in the file; samples are name, labels and value."""

    name: str
    help: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


class Samples(msgspec.Struct, array_like=True, frozen=True):
    """All samples of one worker and when they were taken, in seconds of the monotonic clock."""

    moment: float
    families: list[Family]


class Siblings:
    """The files of the workers, seen from one of them.

    Args:
        own: the file of this one; its name is its number, and those of the others lie beside it.
    """

    def __init__(self, own: Path) -> None:
        self._own, self._new = own, own.with_name(f"{own.name}.new")
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Samples)
        self._parent = os.getppid()
        self._failing = False

    def write(self, metrics: Iterable[Metric]) -> Samples:
        """Leave these samples for the others; where that fails it is logged, once, and they do without."""
        families = [
            Family(
                metric.name, metric.documentation, metric.type, [(s.name, s.labels, s.value) for s in metric.samples]
            )
            for metric in metrics
        ]
        written = Samples(monotonic(), families)
        try:
            self._new.write_bytes(self._encoder.encode(written))
            self._new.replace(self._own)
            self._failing = False
        except OSError as error:
            if not self._failing:
                logger.warning("the other workers are not told the metrics of this one: %s", error)
            self._failing = True
        return written

    def merged(self, own: Samples) -> list[Metric]:
        """The samples of all workers, each labelled with its number, and how old they are."""
        found = {self._own.name: own} | {path.name: read for path in self._others() if (read := self._read(path))}
        now = monotonic()
        fresh = {
            name: found[name]
            for name in sorted(found, key=lambda name: (len(name), name))
            if now - found[name].moment <= AGE_S_MAX
        }
        ages = GaugeMetricFamily(*AGE, labels=[LABEL])
        for name, samples in fresh.items():
            ages.add_metric([name], max(0.0, now - samples.moment))
        return [*_joined({name: samples.families for name, samples in fresh.items()}), ages]

    def leave(self) -> None:
        """Take the file along; where the parent was killed, the directory as well, once it is empty."""
        with suppress(OSError):
            self._own.unlink()
            if os.getppid() != self._parent:
                self._own.parent.rmdir()

    def _others(self) -> list[Path]:
        try:
            return [path for path in self._own.parent.iterdir() if path.name.isdigit() and path.name != self._own.name]
        except OSError:
            return []

    def _read(self, path: Path) -> Samples | None:
        try:
            with path.open("rb") as file:
                text = file.read(BYTES_MAX + 1)
            return self._decoder.decode(text) if len(text) <= BYTES_MAX else None
        except (OSError, msgspec.DecodeError):  # it has ended meanwhile, or is of another version
            return None


def _joined(families: Mapping[str, Sequence[Family]]) -> Iterable[Metric]:
    """One metric per name, with the samples of every worker."""
    metrics: dict[str, Metric] = {}
    for worker, held in families.items():
        for family in held:
            metric = metrics.get(family.name)
            if metric is None:
                metric = metrics[family.name] = Metric(family.name, family.help, family.kind)
            for name, labels, value in family.samples:
                metric.add_sample(name, {**labels, LABEL: worker}, value)
    return metrics.values()
