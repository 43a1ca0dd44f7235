"""The rows of a segment, predicted: together where they have the same names, else one by one; nothing changes."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import groupby

from core.features import SparseSchema
from core.machine import Machine
from service.api import predict
from service.api.context import Context
from service.api.interval import level_of
from service.api.large_answers import VALUES_AT_ONCE
from service.api.row_requests import REFUSED
from service.api.row_streams import answers, decoding
from service.api.row_streams.decoding import Segment
from service.api.row_streams.intake import SEGMENT_ROWS
from service.api.row_streams.learning import LINE_ERRORS, same_replica
from service.api.schemas import Predicted, PredictRow
from service.runtime.rows.named_rows import columns_of
from service.runtime.rows.row_rules import validator_of
from service.runtime.rows.table import Table

Flush = Callable[[list[answers.Answer]], Awaitable[None]]
_LEVELS = (type(None), float, int)


class Predicting:
    """Predicts what one stream brings.

    Args:
        ctx: the handler's.
        name: the model.
        incarnation: the one that the client was told.
        headers: of the request; its key decides whether a row may be tracked.
        flush: sends what is answered so far.
    """

    form = decoding.PREDICT

    def __init__(self, ctx: Context, name: str, incarnation: str, headers: Mapping[str, str], flush: Flush) -> None:
        self._ctx, self._name, self._incarnation, self._headers = ctx, name, incarnation, headers
        self._flush = flush

    @property
    def most(self) -> int:
        """Rows in one go: fewer where each is answered with the probabilities of many classes."""
        replica = self._ctx.engine.models.peek(self._name)
        classes = 0 if replica is None else len(replica.machine.answers.said)
        return min(SEGMENT_ROWS, max(1, VALUES_AT_ONCE // max(1, classes)))

    async def settle(self, segment: Segment[PredictRow], out: list[answers.Answer]) -> None:
        """Add the answer to every row; where it raises, those that are not there have none.

        Raises:
            OnepassError: why the stream cannot go on.
        """
        asks, at = segment.asks, 0
        for common, run in groupby(asks, _in_common):
            end = at + sum(1 for _ in run)
            if common is None:
                for own in range(at, end):
                    await self._one(segment, own, out)
            else:
                await self._together(segment, at, end, out)
            at = end

    async def _together(self, segment: Segment[PredictRow], at: int, end: int, out: list[answers.Answer]) -> None:
        """Rows of which nothing is asked but their predictions, and intervals of one level."""
        if end == at + 1:
            await self._one(segment, at, out)
            return
        try:
            found = await self._predicted(segment.asks[at:end])  # type: ignore[arg-type]  # no exceptions
        except REFUSED:
            found = None
        if found is not None:
            out += found
            return
        middle = (at + end) // 2
        await self._together(segment, at, middle, out)
        await self._together(segment, middle, end, out)

    async def _predicted(self, asks: "list[PredictRow]") -> list[Predicted] | None:
        """The answers; None where the rows have different names, or the features changed meanwhile."""
        replica = await same_replica(self._ctx, self._name, self._incarnation)
        validator = validator_of(self._ctx.engine.models, replica)
        table = columns_of([ask.features for ask in asks], isinstance(validator.space, SparseSchema))
        if table is None:
            return None
        space, raw = validator.prediction(Table(table[1], len(asks), table[0]))
        level = level_of(asks[0].interval, replica.machine.config.task)
        prediction = await predict.predict_in(replica, space, raw, Machine.predict)
        return None if prediction is None else predict.answers(replica, prediction, level)

    async def _one(self, segment: Segment[PredictRow], at: int, out: list[answers.Answer]) -> None:
        """One row by itself, or what is wrong with its line."""
        ask = segment.asks[at]
        try:
            if isinstance(ask, Exception):
                raise ask
            if ask.track:
                self._ctx.keys.allow(self._headers, "learn", self._name)
            replica = await same_replica(self._ctx, self._name, self._incarnation)
            out.append(await predict.predict_asked(self._ctx, replica, ask, segment.size))
            if ask.explain:  # may be as long as the model has columns
                await self._flush(out)
        except LINE_ERRORS as error:
            out.append(answers.refused(segment.first + at, error))


def _in_common(ask: PredictRow | Exception) -> tuple[float | None] | None:
    """What rows that are predicted together have in common, the level of their intervals; None: it goes by itself."""
    if isinstance(ask, Exception) or ask.track or ask.explain or type(ask.interval) not in _LEVELS:
        return None
    return (ask.interval,)
