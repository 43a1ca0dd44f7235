"""From the answer of an entry and the answers stored for repeated ids to what each waiting request is sent."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from core.entry import Outcome
from core.features.labels import Label
from core.problems import Problem
from service.errors import OnepassError, RequestConflict
from service.runtime.jobs import Job, Reply
from service.store.log import SeenId

FIELDS = {"i:": "id", "p:": "prediction_id", "k:": "Idempotency-Key", "o:": "id", "s:": "id"}
"""The field that an id came in, by the prefix it is stored under."""
OTHER = "has been sent before with another label or body"
"""What is said of an id that is not taken for another one."""

Earlier = Sequence[tuple[int, Outcome]]
"""The rows of a request that had been sent before, and the first answer to each."""


def reply(job: Job, now: Outcome | None, earlier: Earlier) -> Reply | OnepassError:
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


def mismatch(job: Job, row: int, seen: SeenId) -> RequestConflict | None:
    """The error for an id that comes back with another label (or body), or None where it is the same."""
    if seen.digest == job.sent.digests[row]:
        return None
    return conflicting(job.sent.ids, row)


def conflicting(ids: Sequence[str], row: int) -> RequestConflict:
    """The error for an id that came before with another label (or body).

    Args:
        ids: of all rows of the request.
        row: the row, from 0.
    """
    field = f"ids[{row}]" if len(ids) > 1 else FIELDS.get(ids[0][:2], "id")
    which = f"the id of row {row + 1}" if len(ids) > 1 else f"this {field}"
    return RequestConflict(f"{which} {OTHER}; nothing was learned from this request", [Problem(field, OTHER)])
