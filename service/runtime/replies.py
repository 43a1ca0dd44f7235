"""From outcomes and remembered answers to what each waiting request is told."""

from collections.abc import Sequence

from core.entry import Learned, Outcome, Refused
from core.problems import Problem
from service.errors import Clash, OnepassError
from service.runtime.replica import Job, Reply
from service.store import codec
from service.store.codec import Answer
from service.store.log import Seen

OTHER = "an id has been sent before with another label or body; nothing was learned from this request"


def fresh(job: Job, version: int, outcome: Outcome, earlier: Sequence[tuple[int, Answer]]) -> Reply | OnepassError:
    """The reply to a segment that was committed now.

    Args:
        job: the request.
        version: the version its entry made.
        outcome: what apply said of the rows that were not skipped.
        earlier: answers of its rows that had been seen before, by row.
    """
    if isinstance(outcome, Refused):
        return Clash(outcome.detail)
    answer = codec.whole_answer(version, outcome)
    if not earlier:
        return Reply(version, answer.rows, answer.predictions, answer.losses, answer.learned, answer.statistics)
    predictions, losses = _merged(len(job.segment.ids), answer, earlier)
    statistics = outcome.statistics if isinstance(outcome, Learned) else None
    return Reply(version, answer.rows, predictions, losses, answer.learned, statistics, len(earlier))


def repeated(rows: int, earlier: Sequence[tuple[int, Answer]]) -> Reply | OnepassError:
    """The reply to a segment all of which had been seen before: the first answer again."""
    first = earlier[0][1]
    last = max((answer for _, answer in earlier), key=lambda answer: answer.version)
    if all(answer.refusal is not None for _, answer in earlier):
        return Clash(first.refusal or "refused")
    if rows == 1:
        return _again(first, len(first.predictions))
    empty = Answer(codec.FORMAT, last.version, last.rows, [], [])
    predictions, losses = _merged(rows, empty, earlier)
    learned = all(answer.learned for _, answer in earlier)
    return Reply(last.version, last.rows, predictions, losses, learned, None, rows, whole=True)


def _again(first: Answer, rows: int) -> Reply:
    return Reply(
        first.version, first.rows, first.predictions, first.losses, first.learned, first.statistics, rows, whole=True
    )


def _merged(rows: int, now: Answer, earlier: Sequence[tuple[int, Answer]]) -> tuple[list[object], list[float | None]]:
    """Predictions and losses in row order, from now and from before."""
    before = dict(earlier)
    fresh_rows = iter(zip(now.predictions, now.losses, strict=True))
    predictions: list[object] = []
    losses: list[float | None] = []
    for row in range(rows):
        if row not in before:
            prediction, loss = next(fresh_rows)
        elif before[row].refusal is not None:
            prediction, loss = None, None
        else:
            prediction, loss = before[row].predictions[0], before[row].losses[0]
        predictions.append(prediction)
        losses.append(loss)
    return predictions, losses


def mismatch(job: Job, row: int, seen: Seen) -> Clash | None:
    """The error for an id that comes back with another label (or body), or None where it is the same."""
    if seen.digest == job.sent.digests[row]:
        return None
    field = f"ids[{row}]" if len(job.sent.ids) > 1 else "id"
    return Clash(OTHER, [Problem(field, "has been sent before with another label or body")])
