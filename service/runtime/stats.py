"""Plain counters of the runtime; each is a metric with its name and help text, collected on request."""

from collections import Counter
from dataclasses import dataclass, field


def _counter(text: str) -> int:
    counter: int = field(default=0, metadata={"help": text})
    return counter


@dataclass(slots=True)
class Stats:
    """Counts since the process started."""

    ticks: int = _counter("Pipelines sent to the store")
    entries: int = _counter("Log entries this process made")
    segments: int = _counter("Requests committed in log entries")
    rows: int = _counter("Rows learned, from entries of any process")
    duplicates: int = _counter("Rows answered from an earlier request with the same id")
    refused: int = _counter("Segments refused when they were applied")
    unreplicated: int = _counter("Requests refused because too few of the store's replicas had them in time")
    store_errors: int = _counter("Pipelines to the store that failed")
    store_restarts: int = _counter("Times the private store died and was restarted")
    loads: int = _counter("Models loaded from the store")
    evictions: int = _counter("Models evicted from memory to stay within the budget")
    snapshots: int = _counter("Snapshots written")
    diverged: int = _counter("Snapshots that differ from the one another replica published")
    corrupt_snapshots: int = _counter("Corrupt snapshots that were skipped")
    lost_tails: int = _counter("Times a replica found the tail of its log gone or rewritten")
    lost_entries: int = _counter("Entries applied here that were lost with those tails (lower bound)")
    swept: int = _counter("Expired ids and tracked predictions removed by the sweeper")
    lost_models: int = _counter("Models in memory that the store lost although they were not deleted")
    down_models: int = _counter("Models taken out of service")
    switches: Counter[str] = field(
        default_factory=Counter, metadata={"help": "Steps of changes of features committed by this process, by action"}
    )
