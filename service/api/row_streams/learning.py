"""The rows of a segment, learned: rows that are alike as one segment of the log, every other by itself.

Rows are alike where all of them have an id or none has, and the same of a discount and of a weight. They are committed
together, and learned one after the other as they came. A refusal concerns all rows of a segment of the log, and nothing
of it has been learned, so its rows are sent again by halves until the one at fault stands alone. By itself a row takes
the way of ``POST /feedback``: the log is read on, a repeated id is answered first, fields are named.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, groupby

import numpy as np

from core.entry import Rows
from core.features import SparseSchema
from core.problems import Conflict, Invalid
from service.api import feedback
from service.api.context import Context
from service.api.identity import ID, digests_of, identity_of
from service.api.row_requests import REFUSED
from service.api.row_streams import answers, decoding
from service.api.row_streams.decoding import Segment
from service.api.row_streams.intake import SEGMENT_ROWS
from service.api.schemas import FeedbackRow
from service.errors import BadBody, Denied, NotFound, QueueFull, Recreated
from service.runtime.jobs import Reply
from service.runtime.replica import Replica
from service.runtime.rows.named_rows import columns_of
from service.runtime.rows.row_rules import validator_of
from service.runtime.rows.row_validation import RowValidator
from service.runtime.rows.table import Table

ALONE = -1
LINE_ERRORS = (Invalid, Conflict, BadBody, Denied)
"""What concerns one line; anything else ends the stream."""
QUEUE_PAUSE_S = 0.02
"""How long a segment waits that finds the queue of its model full."""
Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds, less where the stream ends."""


class Learning:
    """Learns what one stream brings.

    Args:
        ctx: the handler's.
        name: the model.
        incarnation: the one that the client was told.
        pause: how to wait.
    """

    form = decoding.FEEDBACK
    most = SEGMENT_ROWS

    def __init__(self, ctx: Context, name: str, incarnation: str, pause: Pause) -> None:
        self._ctx, self._name, self._incarnation, self._pause = ctx, name, incarnation, pause

    async def settle(self, segment: Segment[FeedbackRow], out: list[answers.Answer]) -> None:
        """Add the answer to every row; where it raises, those that are not there have none.

        Raises:
            OnepassError: why the stream cannot go on.
        """
        asks, at = segment.asks, 0
        for kind, run in groupby(asks, _kind):
            end = at + sum(1 for _ in run)
            if kind == ALONE:
                for own in range(at, end):
                    await self._alone(segment, own, out)
            else:
                await self._together(segment, at, end, out)
            at = end

    async def _together(self, segment: Segment[FeedbackRow], at: int, end: int, out: list[answers.Answer]) -> None:
        """Rows that are alike."""
        if end == at + 1:
            await self._alone(segment, at, out)
            return
        try:
            reply = await self._learned(segment.asks[at:end])  # type: ignore[arg-type]  # alike: no exceptions
        except REFUSED:
            middle = (at + end) // 2
            await self._together(segment, at, middle, out)
            await self._together(segment, middle, end, out)
        else:
            out += answers.learnt(reply, segment.first + at, self._ctx.engine.durability, self._incarnation)

    async def _learned(self, asks: Sequence[FeedbackRow]) -> Reply:
        while True:
            replica = await self._replica()
            rows = _rows(validator_of(self._ctx.engine.models, replica), asks)
            digests = digests_of(rows.y) if rows.ids else ()
            try:
                return await replica.inbox.submit(rows, digests)
            except QueueFull:
                await self._pause(QUEUE_PAUSE_S)

    async def _alone(self, segment: Segment[FeedbackRow], at: int, out: list[answers.Answer]) -> None:
        """One row by itself, or what is wrong with its line."""
        ask, line = segment.asks[at], segment.first + at
        try:
            if isinstance(ask, Exception):
                raise ask
            reply = await self._learned_alone(ask, segment.size)
        except (*LINE_ERRORS, NotFound) as error:
            if isinstance(error, NotFound) and not _of_prediction(error):
                raise
            out.append(answers.refused(line, error))
        else:
            out += answers.learnt(reply, line, self._ctx.engine.durability, self._incarnation)

    async def _learned_alone(self, ask: FeedbackRow, size: int) -> Reply:
        identity = feedback.identity_of_row(ask)
        while True:
            replica = await self._replica()
            try:
                return await feedback.learn_row(self._ctx, replica, ask, identity, size)
            except QueueFull:
                await self._pause(QUEUE_PAUSE_S)

    async def _replica(self) -> Replica:
        return await same_replica(self._ctx, self._name, self._incarnation)


async def same_replica(ctx: Context, name: str, incarnation: str) -> Replica:
    """The model that a stream was opened for.

    Raises:
        NotFound, Recreated: it was deleted, or is another one now.
        ModelDown, StoreDown: it cannot be had.
    """
    replica = await ctx.engine.replica(name)
    if replica.incarnation != incarnation:
        raise Recreated(f"model {name} was created again: open a stream to the new one")
    return replica


def _of_prediction(error: NotFound) -> bool:
    return any(problem.field == "prediction_id" for problem in error.problems)


def _kind(ask: FeedbackRow | Exception) -> int:
    """Which rows a row can go with."""
    if isinstance(ask, Exception) or ask.features is None or ask.prediction_id is not None:
        return ALONE
    return (ask.id is not None) + 2 * (ask.discount is not None) + 4 * (ask.weight is not None)


def _rows(validator: RowValidator, asks: Sequence[FeedbackRow]) -> Rows:
    """Rows that are alike as one segment of the log.

    Raises:
        Invalid, Conflict: one of them is refused, or they are not of one space.
    """
    ids = [ask.id for ask in asks if ask.id is not None] or None
    identity = identity_of(None, ids, ID, (), len(asks))
    by_column = columns_of([ask.features or {} for ask in asks], isinstance(validator.space, SparseSchema))
    if by_column is None:
        return _joined([_rows_of_one(validator, ask) for ask in asks], identity.ids)
    columns, data = by_column
    discounts = None if asks[0].discount is None else [ask.discount for ask in asks]
    weights = None if asks[0].weight is None else [ask.weight for ask in asks]
    labels = [ask.label for ask in asks]
    table = Table(data, len(asks), columns, labels=labels, discounts=discounts, weights=weights)
    return validator.feedback(table, identity.ids)


def _rows_of_one(validator: RowValidator, ask: FeedbackRow) -> Rows:
    return validator.feedback(feedback.table_of_row(ask), ())


def _joined(rows: Sequence[Rows], ids: tuple[str, ...]) -> Rows:
    """Single rows as one segment.

    Raises:
        Conflict: they are not of one space, or the first of them fixes the features of the model.
    """
    first = rows[0]
    if first.features is not None or any(own.space != first.space for own in rows):
        raise Conflict("these rows go one by one")
    X = np.concatenate([own.X for own in rows])
    numbers = isinstance(first.y, np.ndarray)
    y = np.concatenate([own.y for own in rows]) if numbers else [*chain.from_iterable(own.y for own in rows)]
    discounts = None if first.discounts is None else np.concatenate([own.discounts for own in rows])
    weights = None if first.weights is None else np.concatenate([own.weights for own in rows])
    return Rows(first.space, None, X, y, discounts, None, ids, weights=weights)
