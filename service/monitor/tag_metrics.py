"""Metrics of the loaded models by tag: how many there are, what they learn, how many need attention.

Counters count what models have gained while this process held them: a sum over models would fall whenever one leaves
memory, and a counter must not.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from prometheus_client.core import Metric

from service.monitor.families import metric
from service.monitor.model_metrics import Gain
from service.runtime.lists import errs_more
from service.runtime.replicas.replica import Replica

TAGS_SHOWN = 100  # most tags that have metrics: those with the most models
STEP = 200  # models looked at between two turns of the event loop's other tasks
Tag = tuple[str, str]


class TagMetrics:
    """Collects the tags' metrics for one process; one scrape at a time."""

    def __init__(self) -> None:
        self._gained: dict[Tag, Gain] = {}

    async def collect(self, replicas: Sequence[Replica], gains: Mapping[str, Gain]) -> list[Metric]:
        """The metrics of all loaded models as they are now; ``gains`` is what each has gained since the last time."""
        sums = await _sums(replicas, gains)
        shown = sorted(sorted(sums, key=lambda tag: (-sums[tag]["tag_models"], tag))[:TAGS_SHOWN])
        for tag in shown:
            rows, drifts = self._gained.get(tag, Gain(0, 0))
            sums[tag].update(tag_rows=rows, tag_drift_episodes=drifts)
        self._gained = {tag: Gain(sums[tag]["tag_rows"], sums[tag]["tag_drift_episodes"]) for tag in shown}
        return [metric(name, [(tag, sums[tag][name]) for tag in shown]) for name in (sums[shown[0]] if shown else ())]


async def _sums(replicas: Sequence[Replica], gains: Mapping[str, Gain]) -> dict[Tag, Counter[str]]:
    """The sums by tag and by the name of the metric."""
    found: defaultdict[Tag, Counter[str]] = defaultdict(Counter)
    for at, replica in enumerate(replicas):
        if at % STEP == STEP - 1:
            await asyncio.sleep(0)
        tags = replica.model.config.tags
        if not tags or replica.down is not None:
            continue
        gain, summary = gains[replica.name], replica.shown_summary()
        own = {
            "tag_models": 1,
            "tag_models_worse": int(summary is not None and errs_more(summary)),
            "tag_challengers_ahead": 0 if summary is None else summary.figures.ahead,
            "tag_rows": gain.rows,
            "tag_drift_episodes": gain.drifts,
        }
        for tag in tags.items():
            found[tag].update(own)
    return found
