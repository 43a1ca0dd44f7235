"""Lines to rows to be learned or predicted, or to what is wrong with a line.

The lines of a segment are decoded one after the other, and what makes JSON strict is looked at for all of them
together: a line has as many colons as its row has names, or more. Only where the sum is another, or a line is none, is
each looked at by itself.
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from core.problems import Invalid, Problem
from service.api import feedback, json_body, predict, row_requests
from service.api.row_streams.intake import SEGMENT_BYTES, Line
from service.api.schemas import FeedbackRow, PredictRow
from service.errors import BadBody, TooLarge
from service.runtime import threads
from service.runtime.rows.reader_process import ReaderProcess
from service.runtime.threads import in_process, in_thread_if_large

A = TypeVar("A", bound=msgspec.Struct)


class Form(NamedTuple, Generic[A]):
    """How the lines of a route are read.

    Attributes:
        decoder: of a line.
        names: how many names a line holds that decodes to this row.
        large: reads a very long line; the reader's process can import it.
    """

    decoder: "msgspec.json.Decoder[A]"
    names: Callable[[A], int]
    large: Callable[[bytes], A]


FEEDBACK = Form(msgspec.json.Decoder(FeedbackRow), feedback.names_in_row, row_requests.feedback_row)
PREDICT = Form(msgspec.json.Decoder(PredictRow), predict.names_in_row, row_requests.predict_row)


class Segment(NamedTuple, Generic[A]):
    """Rows that are answered together.

    Attributes:
        first: the number of the first line, from 1; blank lines have none.
        asks: each row, or what is wrong with its line.
        size: bytes of the lines.
    """

    first: int
    asks: Sequence[A | Exception]
    size: int


async def decoded(form: Form[A], first: int, lines: Sequence[Line], limit: int, reader: ReaderProcess) -> Segment[A]:
    """The rows of some lines.

    Args:
        form: how they are read.
        first: the number of the first one.
        lines: the lines.
        limit: most bytes of a line.
        reader: reads very long ones.
    """
    whole = [line for line in lines if line is not None]
    size = sum(map(len, whole))
    if size > SEGMENT_BYTES or len(whole) < len(lines):
        return Segment(first, [await _long(form, line, limit, reader) for line in lines], size)
    try:
        asks = [*map(form.decoder.decode, whole)]
        if sum([line.count(b":") for line in whole]) == sum(map(form.names, asks)):
            return Segment(first, asks, size)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    return Segment(first, [_one(form, line) for line in whole], size)


def _one(form: Form[A], line: bytes) -> A | Exception:
    try:
        return json_body.decode(line, form.decoder, form.names)
    except (BadBody, Invalid) as error:
        return error


async def _long(form: Form[A], line: Line, limit: int, reader: ReaderProcess) -> A | Exception:
    """A line that is read by itself."""
    if line is None or len(line) > limit:
        return _too_long(limit)
    if len(line) <= threads.PROCESS_BYTES:
        return await in_thread_if_large(len(line), _one, form, line)
    try:
        return await in_process(reader, form.large, line)
    except (BadBody, Invalid) as error:
        return error


def _too_long(limit: int) -> TooLarge:
    return TooLarge(f"the line is larger than {limit} bytes", [Problem("line", "is too large", f"<= {limit} bytes")])
