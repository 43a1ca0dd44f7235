"""Metrics of the loaded models by tag: how many there are, what they learn, how many of them need somebody to look.

Counters count what models have gained while this process held them: a sum over models would fall whenever one leaves
memory, and a counter must not.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric

from service.monitor.families import counter, gauge
from service.monitor.model_metrics import Gain
from service.runtime.lists import errs_more
from service.runtime.replica import Replica

TAGS_SHOWN = 100
"""Tags with metrics of their own: those of most models."""
STEP = 500
"""Models looked at between two turns of the event loop's other tasks."""
_LABELS = ("tag", "value")
Tag = tuple[str, str]


@dataclass(slots=True)
class _Sums:
    """Of the loaded models with a tag: how many, worse than their baselines, challengers ahead; and their gains."""

    models: int = 0
    worse: int = 0
    ahead: int = 0
    rows: int = 0
    drifts: int = 0


class TagMetrics:
    """Collects for one process; one scrape at a time."""

    def __init__(self) -> None:
        self._gained: dict[Tag, Gain] = {}

    async def collect(self, replicas: Sequence[Replica], gains: Mapping[str, Gain]) -> list[Metric]:
        """The metrics as they are now.

        Args:
            replicas: all that are loaded.
            gains: of each of them by name, since the last time.
        """
        sums = await _sums(replicas, gains)
        largest = sorted(sums, key=lambda tag: (-sums[tag].models, tag))[:TAGS_SHOWN]
        before, self._gained = self._gained, {}
        for tag in largest:
            rows, drifts = before.get(tag, Gain(0, 0))
            self._gained[tag] = Gain(rows + sums[tag].rows, drifts + sums[tag].drifts)
        return _families({tag: sums[tag] for tag in sorted(largest)}, self._gained)


async def _sums(replicas: Iterable[Replica], gains: Mapping[str, Gain]) -> dict[Tag, _Sums]:
    found: dict[Tag, _Sums] = {}
    for at, replica in enumerate(replicas):
        if at % STEP == STEP - 1:
            await asyncio.sleep(0)
        config = replica.machine.config
        if not config.tags or replica.down is not None:
            continue
        summary = replica.summary.shown(replica)
        gain = gains[replica.name]
        for tag in config.tags.items():
            of_tag = found.setdefault(tag, _Sums())
            of_tag.models += 1
            of_tag.worse += summary is not None and errs_more(summary)
            of_tag.ahead += 0 if summary is None else summary.figures.ahead
            of_tag.rows += gain.rows
            of_tag.drifts += gain.drifts
    return found


def _families(sums: Mapping[Tag, _Sums], gained: Mapping[Tag, Gain]) -> list[Metric]:
    return [
        gauge("tag_models", "Loaded models with a tag", _LABELS, [(tag, one.models) for tag, one in sums.items()]),
        gauge(
            "tag_models_worse",
            "Those of them that err, or with class costs cost, more than their best baselines, over all rows",
            _LABELS,
            [(tag, one.worse) for tag, one in sums.items()],
        ),
        gauge(
            "tag_challengers_ahead",
            "Challengers that are better than their models",
            _LABELS,
            [(tag, one.ahead) for tag, one in sums.items()],
        ),
        counter(
            "tag_rows",
            "Rows that they have learned while this process held them",
            _LABELS,
            [(tag, gain.rows) for tag, gain in gained.items()],
        ),
        counter(
            "tag_drift_episodes",
            "Their drift events while this process held them",
            _LABELS,
            [(tag, gain.drifts) for tag, gain in gained.items()],
        ),
    ]
