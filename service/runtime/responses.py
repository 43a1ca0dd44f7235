"""From outcomes and remembered answers to what each waiting request is told."""

import math
from collections.abc import Sequence
from typing import Any

from core.entry import Mapped, Outcome, Refused, Switched
from core.problems import Problem
from service.errors import OnepassError, RequestConflict
from service.runtime.replica import Job, Reply
from service.store import codec
from service.store.codec import Answer
from service.store.log import SeenId

FIELDS = {"i:": "id", "p:": "prediction_id", "k:": "Idempotency-Key", "o:": "id", "s:": "id"}
"""The field that an id came in, by the prefix it is remembered under."""
OTHER = "an id has been sent before with another label or body; nothing was learned from this request"


def fresh(
    job: Job, version: int, outcome: Outcome, earlier: Sequence[tuple[int, Answer]], feature_state: bytes = b""
) -> Reply | OnepassError:
    """The reply to a segment that was committed now.

    Args:
        job: the request.
        version: the version its entry made.
        outcome: what apply said of the rows that were not skipped.
        earlier: answers of its rows that had been seen before, by row.
        feature_state: where the model stands after a switch.
    """
    if isinstance(outcome, Refused):
        return RequestConflict(outcome.detail)
    now = codec.outcome_answer(version, outcome, feature_state)
    if isinstance(outcome, Switched | Mapped):
        return _changed(now, duplicates=len(earlier))
    if not earlier:
        return Reply(version, now.rows, now.predictions, now.losses, now.learned, now.p_true)
    return Reply(version, now.rows, *_merged(len(job.segment.ids), now, earlier), duplicates=len(earlier))


def repeated(rows: int, earlier: Sequence[tuple[int, Answer]]) -> Reply | OnepassError:
    """The reply to a segment all of which had been seen before: the first answer again."""
    first = earlier[0][1]
    last = max((answer for _, answer in earlier), key=lambda answer: answer.version)
    if all(answer.refusal is not None for _, answer in earlier):
        return RequestConflict(first.refusal or "refused")
    changed = [answer for _, answer in earlier if answer.switch is not None]
    if changed:
        return _changed(max(changed, key=lambda answer: answer.version), duplicates=rows, all_duplicate=True)
    if rows == 1:
        own = (first.predictions, first.losses, first.learned, first.p_true)
        return Reply(first.version, first.rows, *own, duplicates=len(first.predictions), all_duplicate=True)
    learned = all(answer.learned for _, answer in earlier)
    nothing = Answer(codec.FORMAT, last.version, last.rows, [], [], learned)
    return Reply(last.version, last.rows, *_merged(rows, nothing, earlier), duplicates=rows, all_duplicate=True)


def _changed(answer: Answer, duplicates: int, all_duplicate: bool = False) -> Reply:
    """The reply to a step in a change of features, or to overlap rows."""
    _, overlap_rows, warning = answer.switch or (None, 0, None)
    return Reply(
        answer.version,
        answer.rows,
        (),
        (),
        duplicates=duplicates,
        all_duplicate=all_duplicate,
        overlap_rows=overlap_rows,
        warning=warning,
        feature_state=answer.feature_state,
    )


def _merged(
    rows: int, now: Answer, earlier: Sequence[tuple[int, Answer]]
) -> tuple[list[Any], list[float | None], bool, list[float]]:
    """Predictions, losses, whether learned, and probabilities in row order, from now and from before."""
    before = dict(earlier)
    fresh_rows = iter(zip(now.predictions, now.losses, _probabilities(now), strict=True))
    told: list[tuple[Any, float | None, float]] = []
    for row in range(rows):
        if row not in before:
            told.append(next(fresh_rows))
        elif before[row].refusal is not None:
            told.append((None, None, math.nan))
        else:
            told.append((before[row].predictions[0], before[row].losses[0], _probabilities(before[row])[0]))
    return [one[0] for one in told], [one[1] for one in told], now.learned, [one[2] for one in told]


def _probabilities(answer: Answer) -> list[float]:
    return answer.p_true or [math.nan] * len(answer.predictions)


def mismatch(job: Job, row: int, seen: SeenId) -> RequestConflict | None:
    """The error for an id that comes back with another label (or body), or None where it is the same."""
    if seen.digest == job.sent.digests[row]:
        return None
    field = f"ids[{row}]" if len(job.sent.ids) > 1 else FIELDS.get(job.sent.ids[0][:2], "id")
    return RequestConflict(OTHER, [Problem(field, "has been sent before with another label or body")])
