"""From the answer of an entry and the first answers to repeated ids to what each waiting request is sent.

A first answer is as the store or the replica remembers it, or found again in the log.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from core.contract import Label
from core.entry import Outcome
from core.problems import Problem
from service.errors import ModelDown, OnepassError, Recreated, RequestConflict
from service.runtime.commit.jobs import Job, RowJob
from service.runtime.replicas.replica import Replica, Reply
from service.runtime.threads import in_thread_if_large
from service.store.log import codec
from service.store.log.log import Log, SeenId

FIELDS = {"i:": "id", "p:": "prediction_id", "k:": "Idempotency-Key", "o:": "id", "s:": "id"}
"""The field that an id came in, by the prefix it is stored under."""
OTHER = "has been sent before with another label or body"
"""What is said of an id that is not taken for another one."""

Earlier = Sequence[tuple[int, Outcome]]
"""The rows of a request that had been sent before, and the first answer to each."""


def reply(job: Job | RowJob, now: Outcome | None, earlier: Earlier) -> Reply | OnepassError:
    """The reply to a request some of whose ids had been seen.

    Args:
        job: the request.
        now: the answer to its other rows; None where it has none.
        earlier: the first answers to those rows.
    """
    rows = len(job.segment.ids)
    return repeated(rows, earlier) if now is None else fresh(rows, now, earlier)


def fresh(rows: int, answer: Outcome, earlier: Earlier) -> Reply:
    """The reply to a segment that was committed now.

    Args:
        rows: how many rows the request has.
        answer: the answer for the rows that were not skipped.
        earlier: the other rows.
    """
    merged = _merged(rows, answer, earlier) if earlier and answer.overlap_rows is None else answer
    return Reply(merged, duplicates=len(earlier), earlier=earlier)


def repeated(rows: int, earlier: Earlier) -> Reply | OnepassError:
    """The reply to a segment of ``rows`` ids all of which had been seen before: the first answers again."""
    first = earlier[0][1]
    if all(answer.refusal is not None for _, answer in earlier):
        return RequestConflict(first.refusal or "refused")
    switched = [answer for _, answer in earlier if answer.overlap_rows is not None]
    if switched:
        return Reply(max(switched, key=_version), rows, True, earlier)
    if rows == 1:
        return Reply(first, len(first.predictions), True, earlier)
    last = max((answer for _, answer in earlier), key=_version)
    learned = all(answer.learned for _, answer in earlier)
    mapped = all(answer.mapped for _, answer in earlier)
    nothing = Outcome(last.rows, learned=learned, mapped=mapped, version=last.version)
    return Reply(_merged(rows, nothing, earlier), rows, True, earlier)


def _version(answer: Outcome) -> tuple[int, int]:
    return answer.version, answer.rows


def _merged(rows: int, now: Outcome, earlier: Earlier) -> Outcome:
    """Predictions, losses and probabilities in row order, from now and from before; the rest is that of now."""
    before = dict(earlier)
    new_rows = iter(zip(now.predictions, now.losses, _probabilities(now), strict=True))
    merged: list[tuple[Any, float | None, float]] = []
    for row in range(rows):
        if row not in before:
            merged.append(next(new_rows))
        elif before[row].refusal is not None:
            merged.append((None, None, math.nan))
        else:
            merged.append((before[row].predictions[0], before[row].losses[0], _probabilities(before[row])[0]))
    predictions, losses, p_true = ([*part] for part in zip(*merged, strict=True))
    joined = _joined(rows, now, before)
    return Outcome(now.rows, predictions, losses, now.learned, p_true, now.mapped, joined, version=now.version)


def _joined(rows: int, now: Outcome, before: Mapping[int, Outcome]) -> list[tuple[int, Label]]:
    """The classes that the rows added, now or before, each with its row of the request."""
    found = [(row, label) for row, answer in before.items() for _, label in answer.joined]
    if now.joined:
        fresh_rows = [row for row in range(rows) if row not in before]
        found += [(fresh_rows[at], label) for at, label in now.joined]
    return sorted(found, key=lambda one: one[0])


def _probabilities(answer: Outcome) -> list[float]:
    return answer.p_true or [math.nan] * len(answer.predictions)


def mismatch(job: Job | RowJob, row: int, seen: SeenId) -> RequestConflict | None:
    """The error for an id that comes back with another label (or body), or None where it is the same."""
    if seen.digest == job.digests[row]:
        return None
    return conflicting(job.segment.ids, row)


def conflicting(ids: Sequence[str], row: int) -> RequestConflict:
    """The error for an id that came before with another label (or body).

    Args:
        ids: of all rows of the request.
        row: the row, from 0.
    """
    field = f"ids[{row}]" if len(ids) > 1 else FIELDS.get(ids[0][:2], "id")
    which = f"the id of row {row + 1}" if len(ids) > 1 else f"this {field}"
    return RequestConflict(f"{which} {OTHER}; nothing was learned from this request", [Problem(field, OTHER)])


ANSWER_BYTES = 1000
"""What decoding or merging one answer is taken to be worth in bytes read."""
Again = tuple[str, SeenId]
"""An id, and what the store remembers of it."""


class FirstAnswers:
    """Finds the answers that were given to ids.

    Args:
        log: the store's logs.
        load: loads a separate replica at the head of the log, rebuilt from before a version.
    """

    def __init__(self, log: Log, load: Callable[[str, int], Awaitable[Replica]]) -> None:
        self._log, self._load = log, load

    async def find(self, replica: Replica, again: Sequence[Again]) -> list[Outcome]:
        """The first answer to each id.

        Raises:
            ModelDown: neither the store nor the log has one, which breaks the rule that snapshots follow answers.
            NotFound, Recreated: the model was deleted meanwhile.
        """
        found = await _decoded([seen.answer or replica.answers.get(identity) for identity, seen in again])
        lacking = [at for at, answer in enumerate(found) if answer is None]
        if lacking:
            for at, answer in zip(lacking, await self._rebuild(replica, [again[at] for at in lacking]), strict=True):
                found[at] = answer
        return [answer for answer in found if answer is not None]

    async def _rebuild(self, replica: Replica, again: Sequence[Again]) -> list[Outcome]:
        """The answers of entries whose writer crashed before storing them: rebuilt from the log, all at once.

        A separate replica is loaded for that, since the live one may have an append under way. It begins before the
        first of the entries: a failover may have lost the stored answer and kept the entry, and newer snapshots may
        exist. It is asked last, since only a crash leaves it anything to do: a writer may be about to store them.
        """
        found = await self._stored(replica, again)
        if None in found:
            before = min(seen.version for (_, seen), answer in zip(again, found, strict=True) if answer is None)
            try:
                aside = await self._load(replica.name, before)
                if aside.incarnation != replica.incarnation:  # its ids are others, whatever their names
                    raise Recreated(f"model {replica.name} was created again: send the request again")
                rebuilt = await _decoded([aside.answers.get(identity) for identity, _ in again])
                found = [answer or now for answer, now in zip(found, rebuilt, strict=True)]
            except ModelDown:  # the log does not reach back so far
                pass
        if None in found:  # the writer may have stored them meanwhile
            found = [answer or now for answer, now in zip(found, await self._stored(replica, again), strict=True)]
        answers = [answer for answer in found if answer is not None]
        if len(answers) < len(again):
            raise ModelDown(f"the answers of {len(again) - len(answers)} ids of {replica.name} cannot be found again")
        return answers

    async def _stored(self, replica: Replica, again: Sequence[Again]) -> list[Outcome | None]:
        known = await self._log.lookup(replica.name, replica.incarnation, [identity for identity, _ in again])
        return await _decoded([None if seen is None else seen.answer for seen in known])


async def _decoded(stored: Sequence[bytes | None]) -> list[Outcome | None]:
    """Answers from bytes, where there are any; many of them in a thread."""
    return await in_thread_if_large(ANSWER_BYTES * len(stored), _decode, stored)


def _decode(stored: Sequence[bytes | None]) -> list[Outcome | None]:
    return [None if answer is None else codec.decode_answer(answer) for answer in stored]
