"""What the snapshots of a model hold, and when the next one is due."""

import asyncio
import math
from dataclasses import dataclass, field

from service.store.states.snapshots import SnapshotInfo

REPLAY_FLOPS = 1e10
"""Work since the last snapshot, in floating-point operations, for which the next one is due however little log it is: a
second or two, for which a model that is loaded again is away."""
REST = 5.0
"""Before the next one is due for that, times the last one took: large states are not written all the time."""
FAILED_S = 30.0  # before another is tried, once one has failed


@dataclass(slots=True)
class Saved:
    """Times are those of the event loop's clock."""

    log_bytes: int = 0  # bytes of entries applied since the last snapshot
    flops: float = 0.0  # estimated work of applying them
    size: int = 0  # of the last snapshot
    rested: float = 0.0  # until then work makes no snapshot due
    retried: float = 0.0  # until then nothing does: the last one failed
    changed: int = 0  # the last version that was more than rows
    read_back: int = 0  # the version of the last snapshot that was read back
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while one is written

    def record(self, info: SnapshotInfo, log_bytes: int = 0, flops: float = 0.0) -> None:
        """Record a snapshot, which holds ``log_bytes`` and ``flops`` of what was applied."""
        self.log_bytes = max(0, self.log_bytes - log_bytes)  # the replica may have reloaded meanwhile
        self.flops = max(0.0, self.flops - flops)
        self.size, self.retried = info.bytes, 0.0

    def fail(self) -> None:
        """Note that the next one could not be written."""
        self.retried = asyncio.get_running_loop().time() + FAILED_S

    def take_over(self, loaded: "Saved", version: int) -> None:
        """Continue as a replica that was loaded, and is at ``version``."""
        self.log_bytes, self.flops, self.size = loaded.log_bytes, loaded.flops, loaded.size
        self.changed, self.read_back = version, 0

    def due_at(self, least_bytes: int) -> float:
        """From when on the next snapshot is due; infinity: nothing that was applied makes it due.

        It is due when the log is larger than the last one, and than ``least_bytes``, or takes long to replay.
        """
        if self.log_bytes > max(self.size, least_bytes):
            return self.retried
        return max(self.rested, self.retried) if self.flops > REPLAY_FLOPS else math.inf
