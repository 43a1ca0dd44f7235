"""Plain counters of the runtime; the monitor turns them into Prometheus metrics when it is asked."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stats:
    """Counts since the process started.

    Attributes:
        ticks: pipelines the committer has sent.
        entries: log entries this process made.
        segments: requests committed in them.
        rows: rows learned, whoever committed them.
        duplicates: requests answered from an earlier one with the same id.
        refused: segments refused in apply.
        unreplicated: requests refused because too few of the store's replicas had them in time.
        store_errors: pipelines that failed.
        loads: models loaded from the store.
        evictions: models that left memory for the budget.
        snapshots: snapshots written.
        corrupt_snapshots: snapshots found corrupt and passed over.
        lost_tails: times a replica found itself ahead of its log or on a rewritten one.
        lost_entries: entries applied here that were lost so, at least.
        models_down: models taken out of service.
        switches: steps in changes of features this process committed, by action.
    """

    ticks: int = 0
    entries: int = 0
    segments: int = 0
    rows: int = 0
    duplicates: int = 0
    refused: int = 0
    unreplicated: int = 0
    store_errors: int = 0
    loads: int = 0
    evictions: int = 0
    snapshots: int = 0
    corrupt_snapshots: int = 0
    lost_tails: int = 0
    lost_entries: int = 0
    models_down: int = 0
    switches: Counter[str] = field(default_factory=Counter)
