"""Metrics of the most active models: which these are, what they learn, and how well.

Each model shown costs a scrape some hundred microseconds. Models are read one after the other, so that requests are
answered in between; a model's figures are cached until its version changes.
"""

import asyncio
import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from prometheus_client.core import Metric

from core.metrics.outside import OutsideScores
from core.model import read
from service.errors import Unavailable
from service.monitor.families import metric
from service.runtime.replicas.replica import Replica
from service.store.pending import Pending

LEVEL = "0.9"  # the level whose coverage is shown
PATIENCE_S = 0.5  # how long a scrape waits for the store: it must work even while the store does not
PendingCounts = dict[tuple[str, str], tuple[int, int]]
"""How many tracked predictions wait and how many have expired, by name and incarnation."""
HALF_LIFE_S = 600.0
"""After this time a row counts half as much: the models shown should not change from one scrape to the next."""
STEP = 1000  # models looked at between two turns of the event loop's other tasks


class Gain(NamedTuple):
    """Rows and drift events of a model: all of them, or those gained between two looks."""

    rows: int
    drifts: int


class Activity:
    """The activity of the loaded models of one process."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, Gain, float]] = {}  # incarnation, totals at the last look, rows with fading
        self._looked_at: float | None = None

    async def look(self, now: float, replicas: Collection[Replica]) -> dict[str, Gain]:
        """What each loaded model has gained since the last look; nothing at the first one, or after a reset.

        ``now`` is in seconds, by any clock. Lets other tasks run in between; only one look at a time.
        """
        fades = 0.0 if self._looked_at is None else 2.0 ** (-(now - self._looked_at) / HALF_LIFE_S)
        self._looked_at, known, self._held = now, self._held, {}
        gains: dict[str, Gain] = {}
        for number, replica in enumerate(replicas, 1):
            if number % STEP == 0:
                await asyncio.sleep(0)
            total = Gain(replica.learned, replica.model.outbox.total)
            incarnation, before, activity = known.get(replica.name, ("", total, 0.0))
            if incarnation != replica.incarnation:
                before, activity = total, 0.0
            gain = Gain(max(0, total.rows - before.rows), max(0, total.drifts - before.drifts))
            self._held[replica.name] = replica.incarnation, total, fades * activity + gain.rows
            gains[replica.name] = gain
        return gains

    def most(self, count: int, names: Sequence[str]) -> list[str]:
        """The ``count`` most active of some loaded models, in the order of their names."""
        ranked = sorted(names, key=lambda name: (-self._held[name][2], name))
        return sorted(ranked[:count])


class _Look(NamedTuple):
    """What is shown of one model: what it is (the labels of ``model_info``), and its numbers by metric."""

    incarnation: str
    version: int
    labels: tuple[str, str, str, str]
    numbers: dict[str, float]
    coverage: float | None


def _look(replica: Replica) -> _Look:
    """What is shown of a model as it is; it must not be changing."""
    model = replica.model
    summary, quality = read.summary(model), read.quality(model.own)
    numbers = {
        "model_rows": replica.learned,
        "model_unscored_rows": quality.unscored,
        "model_drift_episodes": model.outbox.total,
        "model_score": quality.score,
        "model_baseline": quality.baseline,
        "model_error_ratio": quality.error_ratio,
        "model_calibration_error": quality.calibration_error,
        "model_challengers_ahead": summary.ahead,
        **({} if model.outside is None else _outside(model.outside, model.regression)),
    }
    labels = (replica.name, summary.algorithm, summary.task, summary.phase)
    return _Look(replica.incarnation, replica.version, labels, numbers, read.coverage(model.own).get(LEVEL))


def _outside(scores: OutsideScores, regression: bool) -> dict[str, float]:
    """The score of a model outside, and whether it is better; NaN before it has predicted a row of the window."""
    score = scores.figures(regression)["window"]["mse" if regression else "accuracy"]
    better = {"served": 1.0, "model": -1.0}.get(scores.report()["better"], 0.0)
    return {"model_served_score": math.nan if score is None else score, "model_served_better": better}


class ModelSeries:
    """Collects the models' metrics for one process; one scrape at a time."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._known: dict[str, _Look] = {}

    async def collect(self, replicas: Sequence[Replica]) -> list[Metric]:
        """The metrics of some models as they are now."""
        looks = [(replica.name, await self._at(replica)) for replica in replicas]
        shown = self._known = {name: look for name, look in looks if look is not None}
        counts = await self._counts([(name, look.incarnation) for name, look in shown.items()])
        covered = [((name, LEVEL), look.coverage) for name, look in shown.items() if look.coverage is not None]
        found = [
            metric("model_info", [(look.labels, 1) for look in shown.values()]),
            metric("model_coverage", covered),
            metric("model_pending_labels", [((name,), waiting) for (name, _), (waiting, _) in counts.items()]),
            metric("model_expired_labels", [((name,), expired) for (name, _), (_, expired) in counts.items()]),
        ]
        for figure in dict.fromkeys(figure for look in shown.values() for figure in look.numbers):
            numbers = [(name, look.numbers.get(figure, math.nan)) for name, look in shown.items()]
            found.append(metric(figure, [((name,), number) for name, number in numbers if not math.isnan(number)]))
        return found

    async def _at(self, replica: Replica) -> _Look | None:
        """A model as it is, or as it was at the last look if it is being changed; None: not known yet."""
        await asyncio.sleep(0)
        look = self._known.get(replica.name)
        found = look if look is not None and look.incarnation == replica.incarnation else None
        if replica.lock.locked() or (found is not None and found.version == replica.version):
            return found
        return _look(replica)

    async def _counts(self, models: Sequence[tuple[str, str]]) -> PendingCounts:
        """The counts that the store returns within ``PATIENCE_S``."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                counts = await self._pending.counts_of(models)
        except (Unavailable, TimeoutError):
            return {}
        return {model: count for model, count in zip(models, counts, strict=True) if count is not None}
