"""What a stream is answered: rows, refused lines, and the last line of a stream that ends before its client ends it.

{"prediction": ..., "loss": ..., "version": ..., "rows": ..., "duplicate": ..., "learned": ..., ...}
{"prediction": ..., "probabilities": ..., "version": ..., ...}
{"line": 17, "error": {a problem document}}
{"end": {"reason": "store-down", "answered": 16}}
"""

from collections.abc import Iterator

import msgspec

from service.api.problems import problem, slug_of
from service.api.schemas import Learnt, LineRefused, StreamEnd, StreamEnded
from service.errors import RequestConflict
from service.runtime.jobs import Reply

Answer = msgspec.Struct
"""One line of what is answered."""


def refused(line: int, error: Exception) -> LineRefused:
    """The answer to a line that was not taken."""
    return LineRefused(line, msgspec.Raw(problem(error).body))


def status(line: LineRefused) -> int:
    """The status that a request would have had which is refused so."""
    return _refusal.decode(line.error).status


class _Problem(msgspec.Struct):
    status: int


_refusal = msgspec.json.Decoder(_Problem)


def ended(reason: str, answered: int) -> StreamEnded:
    """The last line of a stream."""
    return StreamEnded(StreamEnd(reason, answered))


def reason_of(error: Exception) -> str:
    """Why a stream ends: the last part of the type of its problem."""
    return slug_of(error)


def learnt(reply: Reply, line: int, durability: str, incarnation: str) -> Iterator[Answer]:
    """The answers to rows that were learned together, the same as each would have had by itself.

    Args:
        reply: to all of them.
        line: the number of the first one.
        durability: as it is now.
        incarnation: the model's.
    """
    answer, earlier = reply.answer, dict(reply.earlier)
    version, learned, after = answer.version, answer.learned, answer.rows
    if learned:  # each says how many rows there were after itself
        after -= len(answer.predictions) - len(earlier)
    joined = {at: [label] for at, label in answer.joined}
    for at, (prediction, loss) in enumerate(zip(answer.predictions, answer.losses, strict=True)):
        first = earlier.get(at)
        if first is None:
            after += learned
            own = version, after, False, learned
            yield Learnt(prediction, loss, *own, durability, incarnation, answer.mapped, joined.get(at))
        elif first.refusal is not None:
            yield refused(line + at, RequestConflict(first.refusal))
        else:
            own = first.version, first.rows, True, first.learned
            yield Learnt(prediction, loss, *own, durability, incarnation, first.mapped, first.new_labels)
