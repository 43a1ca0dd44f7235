"""Metrics of the most active models: which these are, what they learn, and how well.

A scrape costs some hundred microseconds for each model shown, one after the other, so that requests are answered in
between; what is found of a model at a version is kept until the next.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import Context
from typing import NamedTuple

from prometheus_client.core import Metric

from core.metrics import Quality
from core.model import read
from service.errors import Unavailable
from service.monitor.families import counter, gauge
from service.runtime.replica import Replica
from service.store.pending import Pending

LEVEL = "0.9"
"""The level of which coverage is shown."""
PATIENCE_S = 0.5
"""How long a scrape waits for the store: what goes wrong with it has to be told while it does."""
HALF_LIFE_S = 600.0
"""Rows count half as much after so long: those shown should not change from one look to the next."""
STEP = 1000
"""Models looked at between two turns of the event loop's other tasks."""


class Gain(NamedTuple):
    """Rows and drift events of a model: all of them, or what it has gained between two looks."""

    rows: int
    drifts: int


class Activity:
    """The activity of the loaded models of one process."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, Gain, float]] = {}  # incarnation, all at the last look, rows learned, fading
        self._looked_at: float | None = None

    async def look(self, now: float, replicas: Collection[Replica]) -> dict[str, Gain]:
        """What each model has gained since the last look; nothing at the first one, or after a reset.

        Other tasks have their turn meanwhile; nobody else may look.

        Args:
            now: by any clock, in seconds.
            replicas: all that are loaded.
        """
        fades = 0.0 if self._looked_at is None else 2.0 ** (-(now - self._looked_at) / HALF_LIFE_S)
        self._looked_at, known, self._held = now, self._held, {}
        gains: dict[str, Gain] = {}
        for number, replica in enumerate(replicas, 1):
            if number % STEP == 0:
                await asyncio.sleep(0)
            total = Gain(replica.machine.rows, replica.machine.outbox.total)
            incarnation, before, activity = known.get(replica.name, ("", total, 0.0))
            if incarnation != replica.incarnation:
                before, activity = total, 0.0
            gain = Gain(max(0, total.rows - before.rows), max(0, total.drifts - before.drifts))
            self._held[replica.name] = replica.incarnation, total, fades * activity + gain.rows
            gains[replica.name] = gain
        return gains

    def most(self, count: int, names: Sequence[str]) -> list[str]:
        """The most active ones of some loaded models, in the order of their names."""
        ranked = sorted(names, key=lambda name: (-self._held[name][2], name))
        return sorted(ranked[:count])


class Shown(NamedTuple):
    """What is shown of one model.

    Attributes:
        name, incarnation, version: of which it is.
        algorithm, task, phase: what it is.
        rows: learned.
        quality: in the window of its metrics.
        coverage: of its intervals in that window; None where there are none.
        drifts: events.
        ahead: challengers that are better than the model.
    """

    name: str
    incarnation: str
    version: int
    algorithm: str
    task: str
    phase: str
    rows: int
    quality: Quality
    coverage: float | None
    drifts: int
    ahead: int

    @classmethod
    def of(cls, replica: Replica) -> "Shown":
        """A model as it is; nobody may be changing it."""
        machine = replica.machine
        summary = read.summary(machine)
        return cls(
            name=replica.name,
            incarnation=replica.incarnation,
            version=replica.version,
            algorithm=summary.algorithm,
            task=summary.task,
            phase=summary.phase,
            rows=machine.rows,
            quality=read.quality(machine.own),
            coverage=read.coverage(machine.own).get(LEVEL),
            drifts=machine.outbox.total,
            ahead=summary.ahead,
        )


class ModelMetrics:
    """Collects for one process; one scrape at a time.

    Args:
        pending: the tracked predictions of all models.
    """

    def __init__(self, pending: Pending) -> None:
        self._pending = pending
        self._known: dict[str, Shown] = {}
        self._asked: asyncio.Task[dict[tuple[str, str], tuple[int, int]]] | None = None

    async def collect(self, replicas: Sequence[Replica]) -> list[Metric]:
        """The metrics of some models as they are now."""
        shown = [await self._look(replica) for replica in replicas]
        self._known = {one.name: one for one in shown if one is not None}
        return [*_families([*self._known.values()]), *await self._awaited([*self._known.values()])]

    async def _look(self, replica: Replica) -> Shown | None:
        """A model as it is, or as it was at the last look if somebody is changing it; None: not known yet."""
        await asyncio.sleep(0)
        found = self._known.get(replica.name)
        if found is not None and found.incarnation != replica.incarnation:
            found = None
        if replica.lock.locked() or (found is not None and found.version == replica.version):
            return found
        return Shown.of(replica)

    async def _awaited(self, shown: Sequence[Shown]) -> list[Metric]:
        """Tracked predictions of the models of which the store tells within ``PATIENCE_S``.

        What it does not answer in time it may still be answering when the next scrape comes, which waits for that.
        """
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_task(self._counts(shown), context=Context())
        done, _ = await asyncio.wait({self._asked}, timeout=PATIENCE_S)
        counts = self._asked.result() if done else {}
        self._asked = None if done else self._asked
        known = [
            ((one.name,), counts[one.name, one.incarnation]) for one in shown if (one.name, one.incarnation) in counts
        ]
        waiting = [(model, count[0]) for model, count in known]
        expired = [(model, count[1]) for model, count in known]
        return [
            gauge("model_pending_labels", "Tracked predictions that wait for their labels", ("model",), waiting),
            counter("model_expired_labels", "Tracked predictions whose labels came too late", ("model",), expired),
        ]

    async def _counts(self, shown: Sequence[Shown]) -> dict[tuple[str, str], tuple[int, int]]:
        """How many wait and how many have expired, by name and incarnation; nothing of models that cannot be told."""
        models = [(one.name, one.incarnation) for one in shown]
        try:
            counts = await self._pending.counts_of(models)
        except Unavailable:
            return {}
        return {model: count for model, count in zip(models, counts, strict=True) if count is not None}


class _Figure(NamedTuple):
    """One number of every model that is shown.

    Attributes:
        name, text: of the metric.
        of: the number; None or NaN: not known, the model is left out.
        family: of what kind it is.
    """

    name: str
    text: str
    of: Callable[[Shown], float | None]
    family: Callable[..., Metric] = gauge


_FIGURES = (
    _Figure("model_rows", "Rows that the model has learned", lambda one: one.rows, counter),
    _Figure("model_unscored_rows", "Rows before any label was known", lambda one: one.quality.unscored, counter),
    _Figure("model_drift_episodes", "Drift events, challengers' included", lambda one: one.drifts, counter),
    _Figure(
        "model_score",
        "Accuracy, or the mean squared error of a regression, of the last 1000 rows",
        lambda one: one.quality.score,
    ),
    _Figure("model_baseline", "The same of the model's best baseline", lambda one: one.quality.baseline),
    _Figure(
        "model_error_ratio",
        "Errors, with class costs their costs, over the best baseline's, on the same of the last 1000 rows",
        lambda one: one.quality.error_ratio,
    ),
    _Figure(
        "model_calibration_error",
        "Distance between probabilities and what came true (ece) in the last 1000 rows",
        lambda one: one.quality.calibration_error,
    ),
    _Figure("model_challengers_ahead", "Challengers that are better than the model", lambda one: one.ahead),
)


def _families(shown: Sequence[Shown]) -> Iterator[Metric]:
    """All that this process knows without asking the store."""
    kinds = [((one.name, one.algorithm, one.task, one.phase), 1.0) for one in shown]
    yield gauge("model_info", "What a model is; the number is 1", ("model", "algorithm", "task", "phase"), kinds)
    for figure in _FIGURES:
        found = [((one.name,), figure.of(one)) for one in shown]
        known = [(labels, number) for labels, number in found if number is not None and not math.isnan(number)]
        yield figure.family(figure.name, figure.text, ("model",), known)
    text = "Share of labels within their intervals of this level, in the last 1000 rows"
    covered = [((one.name, LEVEL), one.coverage) for one in shown if one.coverage is not None]
    yield gauge("model_coverage", text, ("model", "level"), covered)
