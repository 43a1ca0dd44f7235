"""The requests of one model that wait for its next append."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from core.entry import Overlap, Rows, Segment
from core.model import Model
from service.errors import OnepassError, QueueFull, StoreDown
from service.runtime.jobs import WAITING_BYTES_MAX, Job, Reply, Waiting
from service.store.log import SegmentIn

TICK_SEGMENTS_MAX = 1000
"""Most requests of one model that go with one append, as one entry of its log."""
TICK_BYTES_MAX = 4 * 2**20
"""Most bytes of one model that go with one append, which the store works on at once; a larger request goes alone."""
TICK_FLOPS_MAX = 1e10
"""Most work that goes with one append, some seconds; a larger request goes alone."""
ATTEMPTS_MAX = 5
"""How often a request is put back because its replica had to reload."""


class JobQueue:
    """Requests in the order in which they came.

    Args:
        name: the model.
        waiting: bytes of all queues of the process, and of what is in flight.
        most: requests of this model that may wait.

    Attributes:
        jobs: the requests.
    """

    __slots__ = ("_loop", "_most", "_name", "_waiting", "jobs")

    def __init__(self, name: str, waiting: Waiting, most: int) -> None:
        self._name, self._waiting, self._most = name, waiting, most
        self._loop = asyncio.get_running_loop()  # asking for it is a system call, for each row
        self.jobs: deque[Job] = deque()

    def check_room(self, size: int) -> None:
        """Refuse a request that would exceed a bound; one request is taken however large it is.

        Raises:
            QueueFull: as many requests of this model, or bytes of all models, wait as may.
        """
        if len(self.jobs) >= self._most:
            raise QueueFull(f"model {self._name} has {len(self.jobs)} requests waiting (ONEPASS_QUEUE_MAX)")
        used = self._waiting.used
        if used and used + size > WAITING_BYTES_MAX:
            raise QueueFull(f"{used} bytes of requests wait, of at most {WAITING_BYTES_MAX} for all models")

    def put(self, segment: Segment, sent: SegmentIn, size: int, flops: float) -> "asyncio.Future[Reply]":
        """Queue a request of ``size`` bytes that takes ``flops`` to apply; what it will be answered."""
        job = Job(segment, sent, size, flops, self._loop.create_future())
        self._waiting.used += size
        self.jobs.append(job)
        return job.reply

    def take(self, most: int) -> tuple[list[Job], int]:
        """Up to ``most`` requests for the next append, and their bytes, which count as waiting until released."""
        taken: list[Job] = []
        size, flops = 0, 0.0
        while self.jobs and len(taken) < most:
            job = self.jobs[0]
            if taken and (size + job.size > TICK_BYTES_MAX or flops + job.flops > TICK_FLOPS_MAX):
                break
            size += job.size
            flops += job.flops
            taken.append(self.jobs.popleft())
        return taken, size

    def release(self, size: int) -> None:
        """Requests of so many bytes, which were taken, are answered."""
        self._waiting.used -= size

    def put_back(self, jobs: Sequence[Job]) -> None:
        """Requests that were taken have to be appended again, before all others."""
        for job in jobs:
            job.attempts += 1
        self.jobs.extendleft(reversed(jobs))

    def fail(self, error: OnepassError) -> None:
        """Fail everything that waits."""
        self._keep(lambda job: job.reject(error))

    def reject_unfit(self, machine: Model) -> None:
        """After a reload: fail the requests that cannot be appended any more, keep the others in order."""

        def reject(job: Job) -> None:
            if job.attempts > ATTEMPTS_MAX:
                job.reject(StoreDown(f"model {self._name} could not catch up with its log"))
            elif not _fits(machine, job.segment):
                # apply would refuse it for good, with its id; sent again it is validated against the present features.
                job.reject(StoreDown(f"model {self._name} went back to other features: send the request again"))

        self._keep(reject)

    def _keep(self, reject: Callable[[Job], None]) -> None:
        """Let requests be rejected; those that are not stay."""
        jobs, self.jobs = self.jobs, deque()
        for job in jobs:
            reject(job)
            if job.reply.done():
                self._waiting.used -= job.size
            else:
                self.jobs.append(job)


def _fits(machine: Model, segment: Segment) -> bool:
    """Whether the model accepts rows of their space; a tracked row is scored in any case."""
    if isinstance(segment, Overlap):
        return (
            machine.phase == "overlap"
            and machine.feedback_schema is not None
            and segment.space == machine.feedback_schema.id
        )
    if not isinstance(segment, Rows) or segment.served is not None:
        return True
    return (
        segment.features is not None
        if machine.prediction_schema is None
        else segment.space in machine.own.switching.routes
    )
