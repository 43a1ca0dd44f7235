"""Answers the requests of an append once its entry is applied, each with its own outcome.

A request with repeated ids gets their first answers: from the replica, from the store, or rebuilt from the log.

Answers to ids are stored separately from the appends: collected for a moment, many models in one round trip. Clients
already have them; until the store has one, a retry is answered from memory.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

from core.contract import Label
from core.entry import Outcome, Switch
from core.problems import Problem
from service.errors import (
    IdsFull,
    ModelDown,
    OnepassError,
    Recreated,
    RequestConflict,
    StoreDown,
    Unavailable,
    Unreplicated,
)
from service.runtime.commit.committer import DOWN
from service.runtime.commit.jobs import Commit, Job, JoinedRows, RowJob
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.stats import Stats
from service.runtime.threads import in_thread_if_large
from service.store.log import codec
from service.store.log.appends import ITEMS_MAX, UNREPLICATED, Answers, Appended, SeenId, SegmentOut
from service.store.log.codec import Item
from service.store.log.log import Log
from service.store.redis.connection import Safety

logger = logging.getLogger(__name__)

ANSWER_BYTES = 1000  # assumed cost of decoding or merging one answer, in bytes read
FIELDS = {"i:": "id", "p:": "prediction_id", "k:": "Idempotency-Key", "o:": "id", "s:": "id"}
"""The request field of an id, by the prefix under which it is stored."""
OTHER = "was sent before with a different label or body"  # the problem text of a conflicting id
DUE = "due"  # the digest of a label that ``labels_due`` set: no label that a client sends has it
LATE = "has its label already: it was overdue, and the model has learned the label of labels_due"
"""The problem text of a label that arrives after that."""

Seen = Sequence[tuple[int, SeenId]]
"""The rows of a request whose ids had been seen, each with its record in the store."""
Earlier = Sequence[tuple[int, Outcome]]
"""The rows of a request that had been sent before, and the first answer to each."""
Again = Sequence[tuple[str, SeenId]]
"""Ids, each with its record in the store."""


class Refused(RequestConflict):
    """The model has refused what this request appended, not what an earlier one with the same id did."""


class Answerer:
    """Answers requests.

    ``load`` loads a separate replica at the head of the log, rebuilt from before a version; ``failpoint`` is called
    with the name of a point where fault tests crash; ``safety``: the replicas that acknowledged rows must have reached.
    """

    def __init__(
        self,
        log: Log,
        load: Callable[[str, int], Awaitable[Replica]],
        stats: Stats,
        failpoint: Callable[[str], None] | None = None,
        safety: Safety | None = None,
    ) -> None:
        self._log, self._load, self._stats, self._failpoint, self._safety = log, load, stats, failpoint, safety
        self._looking: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        """Whether no first answer is being looked up."""
        return not self._looking

    def answer(self, replica: Replica, commit: Commit, appended: Appended, answers: Sequence[Outcome]) -> None:
        """Answer every request of an append; ``answers`` are to the segments that were added, in order, or none if the
        entry was not applied here.
        """
        if answers:
            if self._failpoint is not None:
                self._failpoint("applied")
            self._stats.entries += 1
        left = iter(answers)
        for job, out in zip(commit.jobs, appended.segments, strict=True):
            now = next(left, None) if out.status == "added" else None
            members: Sequence[Job | RowJob] = job.members if isinstance(job, JoinedRows) else (job,)
            if now is not None:
                self._stats.segments += len(members)
                if now.overlap_rows is not None and isinstance(job.segment, Switch):
                    self._stats.switches[job.segment.action] += 1
            if not appended.safe:
                self._stats.unreplicated += len(members)
                job.reject(Unreplicated(UNREPLICATED))
            elif not isinstance(job, JoinedRows):
                self._answer(replica, commit, job, out, now)
            elif now is not None and now.refusal is None and not (out.seen or out.skip):
                for one, learned in zip(members, codec.of_rows(now), strict=True):
                    if not one.reply.done():
                        one.reply.set_result(Reply(learned))
            else:
                for one, own, found in job.sort(out, now):
                    self._answer(replica, commit, one, own, found)

    def _answer(
        self, replica: Replica, commit: Commit, job: Job | RowJob, out: SegmentOut, now: Outcome | None
    ) -> None:
        """Answer one request; ``now``: the outcome of the rows that were learned now."""
        if job.reply.done():
            return
        if out.status == "full":
            ids = out.remembered
            count, wait_ms = (0, 0) if ids is None else (ids.count, ids.wait_ms)
            job.reject(IdsFull(replica.name, commit.append.id_cap, count, wait_ms))
        elif out.status == "stateless":
            job.reject(StoreDown("parts of the request are missing in the store: send it again"))
        elif out.status == "added" and now is None:
            job.reject(StoreDown(DOWN))
        elif out.seen:
            self._answer_again(replica, job, out.seen, now)
        elif now is not None and now.refusal is not None:
            job.reject(Refused(now.refusal))
        elif now is not None:
            job.reply.set_result(Reply(now))

    # ---------------------------------------------------------------- ids that come again

    def _answer_again(self, replica: Replica, job: Job | RowJob, seen: Seen, now: Outcome | None) -> None:
        """Answer a request with repeated ids; ``now``: the answer to its other rows, if it has any."""
        ids, digests = job.segment.ids, job.digests
        for row, known in seen:
            if known.digest != digests[row]:
                job.reject(conflicting(ids, row, known))
                return
        if now is not None and now.refusal is not None:
            job.reject(RequestConflict(now.refusal))
            return
        task = asyncio.get_running_loop().create_task(self._look(replica, job, seen, now))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, replica: Replica, job: Job | RowJob, seen: Seen, now: Outcome | None) -> None:
        """Look up the first answers in a task, so that no other request waits."""
        ids, rows = job.segment.ids, [row for row, _ in seen]
        try:
            found = await self.first_answers(replica, [(ids[row], known) for row, known in seen])
            earlier = [*zip(rows, found, strict=True)]
            reply = await in_thread_if_large(ANSWER_BYTES * len(rows), combined, len(ids), now, earlier)
        except OnepassError as error:
            job.reject(error)
        except Exception as error:
            logger.exception("model %s: could not find the answer to a repeated id", replica.name)
            job.reject(ModelDown(f"model {replica.name}: cannot find the first answer: {type(error).__name__}"))
        else:
            if not job.reply.done():
                self._stats.duplicates += reply.duplicates
                job.reply.set_result(reply)

    async def confirmed(self, replica: Replica, again: Again = ()) -> Again:
        """Wait for the replicas, if they are required, before a repeat is acknowledged without an append.

        Returns the ids as another lookup finds them. ``Unreplicated`` if too few replicas have everything, or if a
        failover has just lost one of the ids.
        """
        if self._safety is None:
            return again
        ids = [identity for identity, _ in again]
        try:
            known = await self._log.lookup(replica.name, replica.incarnation, ids, self._safety)
            for (_, before), now in zip(again, known, strict=True):
                if now is None or (now.version, now.digest) != (before.version, before.digest):
                    raise Unreplicated(UNREPLICATED)
        except Unreplicated:
            self._stats.unreplicated += 1
            raise
        return [(identity, now) for identity, now in zip(ids, known, strict=True) if now is not None]

    async def first_answers(self, replica: Replica, again: Again) -> list[Outcome]:
        """The first answer to each id.

        The log is read only for answers that the store lacks because their writer crashed. The store is asked again
        after that: a slow writer may have stored its answers meanwhile.

        Raises:
            ModelDown: neither the store nor the log has one, although snapshots are published after answers.
            NotFound, Recreated: the model was deleted meanwhile.
        """
        found = await _decoded([seen.answer or replica.answers.get(identity) for identity, seen in again])
        for ask in (self._stored, self._rebuilt, self._stored):
            lacking = [at for at, answer in enumerate(found) if answer is None]
            if not lacking:
                break
            for at, answer in zip(lacking, await ask(replica, [again[at] for at in lacking]), strict=True):
                found[at] = answer
        answers = [answer for answer in found if answer is not None]
        if len(answers) < len(again):
            raise ModelDown(f"cannot find the first answers to {len(again) - len(answers)} ids of {replica.name}")
        return answers

    async def _stored(self, replica: Replica, again: Again) -> list[Outcome | None]:
        known = await self._log.lookup(replica.name, replica.incarnation, [identity for identity, _ in again])
        return await _decoded([None if seen is None else seen.answer for seen in known])

    async def _rebuilt(self, replica: Replica, again: Again) -> list[Outcome | None]:
        """The answers of entries whose writer crashed before storing them, from a separate replica.

        The live replica may have an append under way. The separate one starts before the first of the entries: a
        failover may have lost the stored answer but kept the entry, and newer snapshots may exist.
        """
        try:
            aside = await self._load(replica.name, min(seen.version for _, seen in again))
        except ModelDown:  # the log does not reach back that far
            return [None] * len(again)
        if aside.incarnation != replica.incarnation:  # its ids are different ones, even if they are equal
            raise Recreated(f"model {replica.name} was created again: send the request again")
        return await _decoded([aside.answers.get(identity) for identity, _ in again])


async def _decoded(stored: Sequence[bytes | None]) -> list[Outcome | None]:
    """Decode the answers that are not None; many of them in a thread."""
    return await in_thread_if_large(ANSWER_BYTES * len(stored), _decode, stored)


def _decode(stored: Sequence[bytes | None]) -> list[Outcome | None]:
    return [None if answer is None else codec.decode_answer(answer) for answer in stored]


def combined(rows: int, now: Outcome | None, earlier: Earlier) -> Reply:
    """The reply to a request with repeated ids; ``rows`` is its number of rows, or 1 if one id covers all of them.

    ``now`` answers the rows that were learned now, None if all had been seen; ``earlier`` has the first answers to the
    others. ``RequestConflict`` if these were refusals.
    """
    if now is None:
        return repeated(rows, earlier)
    answer = now if now.overlap_rows is not None else _merged(rows, now, earlier)
    return Reply(answer, duplicates=len(earlier), earlier=earlier)


def repeated(rows: int, earlier: Earlier) -> Reply:
    """The reply to a segment of ``rows`` ids that had all been seen before: their first answers, ``RequestConflict`` if
    these were refusals.
    """
    answers = [answer for _, answer in earlier]
    first, last = answers[0], max(answers, key=_version)
    if all(answer.refusal is not None for answer in answers):
        raise RequestConflict(first.refusal or "refused")
    switched = [answer for answer in answers if answer.overlap_rows is not None]
    if switched:
        return Reply(max(switched, key=_version), rows, True, earlier)
    if rows == 1:
        return Reply(first, len(first.predictions), True, earlier)
    return Reply(_merged(rows, Outcome(last.rows, version=last.version), earlier), rows, True, earlier)


def _version(answer: Outcome) -> tuple[int, int]:
    return answer.version, answer.rows


def _merged(rows: int, now: Outcome, earlier: Earlier) -> Outcome:
    """The answers to all rows, learned now or before, in row order; ``rows`` and ``version`` are from ``now``."""
    before, new = dict(earlier), iter(codec.of_rows(now))
    answers = [before[row] if row in before else next(new) for row in range(rows)]
    predictions = [None if one.refusal is not None else one.predictions[0] for one in answers]
    losses = [None if one.refusal is not None else one.losses[0] for one in answers]
    p_true = [one.p_true[0] if one.p_true else math.nan for one in answers]
    joined: dict[tuple[type, Label], tuple[int, Label]] = {}  # rows with one id have one answer, which counts once
    for row, one in enumerate(answers):
        for _, label in one.joined:
            joined.setdefault((type(label), label), (row, label))
    learned, mapped, added = all(one.learned for one in answers), all(one.mapped for one in answers), [*joined.values()]
    return Outcome(now.rows, predictions, losses, learned, p_true, mapped, added, version=now.version)


def conflicting(ids: Sequence[str], row: int, seen: SeenId) -> RequestConflict:
    """The error for a row whose id was sent before with another label or body, from the record of the id."""
    why = OTHER
    if seen.digest == DUE:
        refusal = codec.decode_answer(seen.answer).refusal if seen.answer else None
        why = LATE if refusal is None else f"was overdue, and the label of labels_due was not learned: {refusal}"
    field = f"ids[{row}]" if len(ids) > 1 else FIELDS.get(ids[0][:2], "id")
    which = f"the id of row {row + 1}" if len(ids) > 1 else f"this {field}"
    return RequestConflict(f"{which} {why}; nothing was learned from this request", [Problem(field, why)])


RECORD_S = 0.1  # how long answers are collected before they are sent
TAKEN_MAX = 10_000  # most answers of one model that are taken at once
AGAIN_S = 1.0  # pause after the store failed to take some


class AnswerWriter:
    """Stores the answers of all loaded models."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[Replica, None] = {}
        self._due = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether no answers wait to be taken to the store."""
        return not self._waiting

    def enqueue(self, replica: Replica) -> None:
        """Schedule the unstored answers of a model."""
        if replica.answers.fresh:
            self._waiting[replica] = None
            self._due.set()

    async def run(self) -> None:
        """Store answers forever; the supervisor restarts it if it dies."""
        while True:
            await self._due.wait()
            self._due.clear()
            await asyncio.sleep(RECORD_S)
            if not await self._write([*self._waiting]):
                await asyncio.sleep(AGAIN_S)

    async def _write(self, replicas: Sequence[Replica]) -> bool:
        """Store answers of some models; returns whether the store took them. A model's other answers go next time."""
        taken = [(one, answers) for one in replicas for answers in _sets(one, one.answers.take_fresh(TAKEN_MAX))]
        for replica in replicas:  # before the write: answers that come meanwhile enqueue it again
            del self._waiting[replica]
        try:
            results = await self._log.record_answers([answers for _, answers in taken])
        except BaseException:
            self._waiting |= dict.fromkeys(replicas)
            raise
        for (replica, answers), known in zip(taken, results, strict=True):
            if known is True:
                replica.answers.stored(answers.items)
            if known is not False:  # else the replica does not join its log: reading on regenerates the answers
                self.enqueue(replica)
        return not any(isinstance(known, Unavailable) for known in results)

    async def record(self, replica: Replica, version: int) -> None:
        """Write every answer up to a version to the store, so that a snapshot may follow.

        ``Unavailable`` if the store cannot take them; ``RequestConflict`` if the replica does not join its log.
        """
        held, place = replica.answers, (replica.name, replica.incarnation, replica.version, replica.uid)
        identities = held.up_to(version)
        for at in range(0, len(identities), ITEMS_MAX):
            items = held.of(identities[at : at + ITEMS_MAX])
            items = [item for item in items if item[1] <= version]  # the others were learned again meanwhile
            (known,) = await self._log.record_answers([Answers(*place, items)])
            if isinstance(known, Unavailable):
                raise known
            if not known:
                raise RequestConflict(f"version {version} is not on the log any more")
            held.stored(items)


def _sets(replica: Replica, items: Sequence[Item]) -> list[Answers]:
    """Answers of a model, in sets small enough to be stored at once."""
    parts = [items[at : at + ITEMS_MAX] for at in range(0, len(items), ITEMS_MAX)]
    return [Answers(replica.name, replica.incarnation, replica.version, replica.uid, part) for part in parts]
