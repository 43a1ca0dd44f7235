"""The result of an append turned into state and answers: apply and answer, or reload and append again.

A request is answered only after it is committed and applied. Where its fate is not known, the answer says so (503), and
the client's id makes a retry safe.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from core.entry import Entry, Overlap, Rows, Segment, Switch
from service.errors import (
    IdsFull,
    ModelDown,
    OnepassError,
    Recreated,
    RequestConflict,
    StoreDown,
    Unreplicated,
    no_model,
)
from service.runtime import responses
from service.runtime.replica import PATH_MAX, Commit, Job, Replica, Reply
from service.runtime.stats import Stats
from service.store import codec
from service.store.codec import Answer
from service.store.entries import RawEntry, ReadOn
from service.store.log import Appended, Log, SeenId, SegmentOut

logger = logging.getLogger(__name__)

ATTEMPTS_MAX = 5
"""How often a request is put back because its replica had to reload."""
NOTICES_MAX = 100
"""Lost tails that are remembered, the last ones."""
SOON_BYTES_MAX = 2**20
"""Most bytes of log that a follower reads in one round trip (one entry at least, however large)."""
ENTRIES_MAX = 1000
"""Most entries read on in one round trip."""
DOWN = "the store does not answer; nothing is known to be learned: send the request again with the same id"

UNREPLICATED = (
    "committed, but not yet on as many of the store's replicas as ONEPASS_MIN_REPLICAS asks for: a failover now may "
    "lose it; send the request again with the same id"
)


class Applier:
    """Finishes what the committer has sent.

    Args:
        log: the store's logs.
        stats: counters.
        read_bytes_max: most bytes of log read in one round trip.
        load: loads a separate replica at the head of the log, rebuilt from before a version.
        reload: brings a replica back to snapshot plus log, in place.
        forget: drops a replica whose model was deleted.
        failpoint: called with the name of a point that fault tests crash at.

    Attributes:
        lost_tails: the last ones that were detected.
    """

    def __init__(
        self,
        log: Log,
        stats: Stats,
        read_bytes_max: int,
        *,
        load: Callable[[str, int], Awaitable[Replica]],
        reload: Callable[[Replica], Awaitable[None]],
        forget: Callable[[Replica], None],
        failpoint: Callable[[str], None] | None,
    ) -> None:
        self._log, self._stats, self._read_bytes_max = log, stats, read_bytes_max
        self.lost_tails: deque[LostTail] = deque(maxlen=NOTICES_MAX)
        self._load, self._reload, self._forget, self._failpoint = load, reload, forget, failpoint

    async def finish(self, commit: Commit, appended: Appended) -> None:
        """Apply what others committed, then our own entry, then answer."""
        replica = commit.replica
        try:
            await self._catch_up(replica, appended)
            if appended.made is not None and appended.made > replica.version:
                await self._apply_own(commit, appended)
            else:
                await self._answer(commit, appended, {})
            resolve(commit.syncs, None)
        except OnepassError as error:
            fail(commit, error)
        except Exception as error:
            logger.exception("model %s: a commit could not be finished", replica.name)
            fail(commit, replica.quarantine(f"a commit could not be finished: {error!r}"))

    async def _catch_up(self, replica: Replica, appended: Appended) -> None:
        """Apply what others committed before our own entry."""
        for raw in appended.entries:
            await self._apply_raw(replica, raw)
        last = appended.head if appended.made is None else appended.made - 1
        while replica.version < last:
            more = await self._more(replica)
            if more.code != "ok" or not more.entries:
                raise StoreDown(f"the log of {replica.name} could not be read on: {more.code}")
            for raw in more.entries:
                if raw.version <= last:
                    await self._apply_raw(replica, raw)

    async def _more(self, replica: Replica) -> ReadOn:
        limit = min(self._read_bytes_max, SOON_BYTES_MAX)  # it shares the connection of the rows
        return await self._log.read_soon(
            replica.name, replica.incarnation, replica.version, replica.uid, limit, ENTRIES_MAX
        )

    async def read_on(self, replica: Replica) -> None:
        """Apply everything that is on the log now, for readers who asked for the head."""
        syncs, replica.syncs = replica.syncs, []
        try:
            more = await self._more(replica)
            while more.code == "ok":
                for raw in more.entries:
                    await self._apply_raw(replica, raw)
                if more.complete or not more.entries:
                    break
                more = await self._more(replica)
            if more.code == "gone":
                self._forget(replica)
                raise gone(replica.name, more.head)
            if more.code != "ok":
                await self._reload_and_report_loss(replica, more.code, more.head)
                _reject_unfit_jobs(replica)
            replica.suspect = False
        except OnepassError as error:
            resolve(syncs, error)
        except Exception as error:
            logger.exception("model %s could not read on", replica.name)
            resolve(syncs, replica.quarantine(f"it could not read on: {error!r}"))
        else:
            resolve(syncs, None)

    async def _apply_raw(self, replica: Replica, raw: RawEntry) -> None:
        if raw.version > replica.version:
            size = sum(len(blob) for _, blob, _ in raw.segments)
            await replica.apply(codec.entry(raw), raw.uid, size)

    async def _apply_own(self, commit: Commit, appended: Appended) -> None:
        replica, added, size = commit.replica, [], 0
        segments: list[Segment] = []
        for at, (job, out) in enumerate(zip(commit.jobs, appended.segments, strict=True)):
            if out.status == "added":
                added.append(at)
                segments.append(_skipping(job.segment, out.skip) if out.skip else job.segment)
                size += len(job.sent.blob)
        entry = Entry(appended.made or 0, appended.time_ms, tuple(segments))
        flops = None if appended.entries else commit.flops
        answers = await replica.apply(entry, commit.append.new_uid, size, own=True, flops=flops)
        if self._failpoint is not None:
            self._failpoint("applied")
        self._stats.entries += 1
        self._stats.segments += len(added)
        for segment, answer in zip(segments, answers, strict=True):
            replica.fresh.extend(segment.ids)
            if isinstance(segment, Switch) and answer.switch is not None:
                self._stats.switches[segment.action] += 1
        await self._answer(commit, appended, dict(zip(added, answers, strict=True)))

    async def _answer(self, commit: Commit, appended: Appended, answers: dict[int, Answer]) -> None:
        for at, job in enumerate(commit.jobs):
            if job.reply.done():
                continue
            if not appended.safe:
                self._stats.unreplicated += 1
                reject(job.reply, Unreplicated(UNREPLICATED))
                continue
            try:
                reply = await self._reply(commit.replica, job, appended.segments[at], answers.get(at))
            except OnepassError as error:
                reply = error
            if isinstance(reply, OnepassError):
                reject(job.reply, reply)
            else:
                self._stats.duplicates += reply.duplicates
                job.reply.set_result(reply)

    async def _reply(self, replica: Replica, job: Job, out: SegmentOut, now: Answer | None) -> Reply | OnepassError:
        """What became of a request; ``now`` is the answer to those of its rows that were committed, if any were."""
        if out.status == "full":
            return IdsFull(f"model {replica.name} remembers as many ids as it may")
        rows = len(job.segment.ids)
        earlier: list[tuple[int, Answer]] = []
        for row, seen in out.seen:
            conflict = responses.mismatch(job, row, seen)
            if conflict is not None:
                return conflict
            earlier.append((row, await self.first_answer(replica, job.segment.ids[row], seen)))
        if now is None:
            return StoreDown(DOWN) if out.status == "added" else responses.repeated(rows, earlier)
        if now.refusal is not None:
            return RequestConflict(now.refusal)
        return responses.fresh(rows, now, earlier) if earlier else Reply(now)

    async def first_answer(self, replica: Replica, identity: str, seen: SeenId) -> Answer:
        """The first answer given to an id: as the store or the replica remembers it, or found again."""
        return replica.answer(identity, seen.answer) or await self.regenerate(replica, identity, seen.version)

    async def regenerate(self, replica: Replica, identity: str, version: int) -> Answer:
        """The answer of an entry whose writer crashed before storing it: rebuilt from the log.

        A separate replica is loaded for that, since the live one may have an append under way. It begins before the
        entry: a failover may have lost the stored answer and kept the entry, and newer snapshots may exist.

        Raises:
            ModelDown: neither the store nor the log has it, which breaks the rule that snapshots follow answers.
        """
        try:
            answer = (await self._load(replica.name, version)).answer(identity, None)
        except ModelDown:  # the log does not reach back so far; its writer may have stored it meanwhile
            answer = None
        if answer is None:
            (seen,) = await self._log.lookup(replica.name, replica.incarnation, [identity])
            answer = None if seen is None or seen.answer is None else codec.decode_answer(seen.answer)
        if answer is None:
            raise ModelDown(f"the answer of version {version} of {replica.name} cannot be found again")
        return answer

    async def reload_and_requeue(self, commit: Commit, appended: Appended) -> None:
        """The replica does not join its log: back to snapshot plus log, then try again."""
        replica = commit.replica
        try:
            await self._reload_and_report_loss(replica, appended.code, appended.head)
        except OnepassError as error:
            fail(commit, error)
            return
        except Exception as error:
            logger.exception("model %s could not be reloaded", replica.name)
            fail(commit, replica.quarantine(f"it could not be reloaded: {error!r}"))
            return
        for job in commit.jobs:
            job.attempts += 1
            if appended.code == "trimmed" and commit.resent and not job.segment.ids:
                # It may be in what was trimmed, and no id would tell the script so: it must not be learned twice.
                reject(job.reply, StoreDown(DOWN))
        replica.queue.extendleft(reversed(commit.jobs))
        _reject_unfit_jobs(replica)
        replica.syncs.extend(commit.syncs)

    async def _reload_and_report_loss(self, replica: Replica, code: str, head: int) -> None:
        """Reload from snapshot and log; where the log has lost its tail, report which entries were lost."""
        if code not in ("ahead", "fork"):
            await self._reload(replica)
            return
        replica.suspect = True
        self._stats.lost_tails += 1
        logger.error(
            "model %s: the log lost its tail (%s): replica at version %d, log at %d; what came after their last common "
            "version is lost; going back to snapshot plus log",
            replica.name,
            code,
            replica.version,
            head,
        )
        was, path = replica.version, {*replica.path, (replica.version, replica.uid)}
        await self._reload(replica)
        common = [version for version, uid in (*replica.path, (replica.version, replica.uid)) if (version, uid) in path]
        kept = max(common, default=None)
        lost = LostTail(replica.name, replica.incarnation, time.time(), code, was, head, kept)
        self._stats.lost_entries += lost.entries
        self.lost_tails.append(lost)
        logger.error("model %s: %s", replica.name, lost)


@dataclass(frozen=True, slots=True)
class LostTail:
    """Entries that were applied here and are not on the log any more.

    Attributes:
        model, incarnation: the model.
        time_s: when it was detected, seconds since the epoch.
        code: "ahead" or "fork".
        version: the version of the replica.
        head: the version of the log.
        kept: the last version both have; None where it is further back than the replica's path.
    """

    model: str
    incarnation: str
    time_s: float
    code: str
    version: int
    head: int
    kept: int | None

    @property
    def entries(self) -> int:
        """How many entries are lost, at least."""
        return self.version - self.kept if self.kept is not None else max(PATH_MAX, self.version - self.head)

    def __str__(self) -> str:
        if self.kept is None:
            return f"{self.entries} entries or more are lost, up to version {self.version}"
        return f"the entries of versions {self.kept + 1} to {self.version} are lost, {self.entries} in all"


def gone(name: str, others: int) -> OnepassError:
    """The error for a model that was deleted; ``others``: the name belongs to a new model now."""
    return Recreated(f"model {name} was created again: send the request again") if others else no_model(name)


def resolve(syncs: "Sequence[asyncio.Future[None]]", error: OnepassError | None) -> None:
    """Complete the readers who wait for the head, or fail them."""
    for future in syncs:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def _reject_unfit_jobs(replica: Replica) -> None:
    """After a reload: fail the requests that cannot be appended any more, keep the others in order."""
    for job in replica.queue:
        if job.attempts > ATTEMPTS_MAX:
            reject(job.reply, StoreDown(f"model {replica.name} could not catch up with its log"))
        elif not _fits(replica, job.segment):
            # apply would refuse it for good, with its id; sent again it is validated against the present features.
            reject(job.reply, StoreDown(f"model {replica.name} went back to other features: send the request again"))
    waiting = [job for job in replica.queue if not job.reply.done()]
    replica.queue.clear()
    replica.queue.extend(waiting)


def _fits(replica: Replica, segment: Segment) -> bool:
    """Whether the model accepts rows of their space; a tracked row is scored in any case."""
    machine = replica.machine
    if isinstance(segment, Overlap):
        return (
            machine.phase == "overlap"
            and machine.feedback_schema is not None
            and segment.space == machine.feedback_schema.id
        )
    if not isinstance(segment, Rows) or segment.served is not None:
        return True
    return segment.names is not None if machine.prediction_schema is None else segment.space in machine.spaces


def _skipping(segment: Segment, skip: tuple[int, ...]) -> Segment:
    return replace(segment, skip=skip) if isinstance(segment, Rows | Overlap) else segment


def fail(commit: Commit, error: OnepassError) -> None:
    """Fail everything that waits for an append."""
    for job in commit.jobs:
        reject(job.reply, error)
    resolve(commit.syncs, error)


def reject(future: "asyncio.Future[Reply]", error: OnepassError) -> None:
    """Fail one request, unless its client is gone."""
    if not future.done():
        future.set_exception(error)
