"""What the snapshots of a model cover, and when the next one is due."""

import asyncio
import math
from dataclasses import dataclass, field

from service.store.states.snapshots import SnapshotInfo

REPLAY_FLOPS = 1e10
"""Floating-point operations since the last snapshot that make the next one due, however short the log: to replay them
takes a second or two, during which a model that is being loaded is unavailable."""
REST = 5.0
"""Work makes no snapshot due for this many times as long as the last one took: large states are written less often."""
FAILED_S = 30.0  # pause before another attempt after one has failed


@dataclass(slots=True)
class Saved:
    """The snapshots of one model; times are by the event loop's clock."""

    log_bytes: int = 0  # bytes of entries applied since the last snapshot
    flops: float = 0.0  # estimated work of applying them
    size: int = 0  # bytes of the last snapshot
    rested: float = 0.0  # until then, work makes no snapshot due
    retried: float = 0.0  # until then, nothing does: the last attempt failed
    changed: int = 0  # the last version that applied something other than rows
    read_back: int = 0  # the version of the last snapshot that was read back
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while a snapshot is written

    def record(self, info: SnapshotInfo, log_bytes: int = 0, flops: float = 0.0) -> None:
        """Record a snapshot, which covers ``log_bytes`` and ``flops`` of what was applied."""
        self.log_bytes = max(0, self.log_bytes - log_bytes)  # the replica may have reloaded meanwhile
        self.flops = max(0.0, self.flops - flops)
        self.size, self.retried = info.bytes, 0.0

    def fail(self) -> None:
        """Note that a snapshot could not be written."""
        self.retried = asyncio.get_running_loop().time() + FAILED_S

    def take_over(self, loaded: "Saved", version: int) -> None:
        """Continue from a replica that was loaded and is at ``version``."""
        self.log_bytes, self.flops, self.size = loaded.log_bytes, loaded.flops, loaded.size
        self.changed, self.read_back = version, 0

    def due_at(self, least_bytes: int) -> float:
        """When the next snapshot becomes due; infinity if nothing that was applied makes it due.

        It is due when the log since the last one is larger than that one and ``least_bytes``, or takes long to replay.
        """
        if self.log_bytes > max(self.size, least_bytes):
            return self.retried
        return max(self.rested, self.retried) if self.flops > REPLAY_FLOPS else math.inf
