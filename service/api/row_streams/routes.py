"""POST /models/{name}/feedback/stream and /predict/stream: what is checked before a stream begins.

Both stand beside the routes of single rows, whose bodies their lines are.
"""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request

from core.problems import Invalid
from service.api import bodies, content_encoding
from service.api.context import Context, Ctx, Fresh, ModelName
from service.api.media import NDJSON
from service.api.openapi import examples
from service.api.openapi.raw_bodies import lines_body
from service.api.route import LEARN, READ, Route
from service.api.row_streams.exchange import RowStream
from service.api.row_streams.learning import Learning
from service.api.row_streams.predicting import Predicting
from service.api.schemas import FeedbackRow, Learnt, LineRefused, Predicted, PredictRow, StreamEnded
from service.runtime.replica import Replica

router = APIRouter(route_class=Route, tags=["streams of rows"])
FEEDBACK, PREDICT = "/models/{name}/feedback/stream", "/models/{name}/predict/stream"


@router.post(
    FEEDBACK,
    dependencies=[LEARN],
    status_code=200,
    response_class=RowStream,
    **lines_body(
        FeedbackRow, Learnt, LineRefused, StreamEnded, sent=examples.FEEDBACK_LINES, told=examples.LEARNT_LINES
    ),
)
async def stream_feedback(ctx: Ctx, name: ModelName, request: Request) -> RowStream:
    """Learn rows as they come.

    Swagger UI sends everything before it shows anything: use a client that reads while it sends. A line is the body of
    `POST .../feedback`, and is answered by a line, in order, once it is committed; `version` and `rows` are those after
    the row itself. A line that is refused is answered `{"line": n, "error": {...}}`, and the stream goes on. Blank
    lines are passed over; one is sent after 15 s without an answer.

    Where the service ends the stream the last line is `{"end": {"reason", "answered"}}`: no line came for 60 s
    (`idle`), the service stops (`stop`), or the store or the model is away (`store-down`, `not-found`, `recreated`).
    Open another one and send the lines behind `answered` again: with the same `id` each is learned once. A client that
    does not read its answers for 10 s is cut off. `ONEPASS_BODY_LIMIT_MB` bounds a line; nothing bounds their number.
    """
    replica = await _opened(ctx, name, request)
    return RowStream(
        ctx,
        FEEDBACK,
        lambda stream: Learning(ctx, name, replica.incarnation, stream.pause),
        request.headers,
        _told(ctx, replica),
    )


@router.post(
    PREDICT,
    dependencies=[READ],
    status_code=200,
    response_class=RowStream,
    **lines_body(
        PredictRow, Predicted, LineRefused, StreamEnded, sent=examples.PREDICT_LINES, told=examples.PREDICTED_LINES
    ),
)
async def stream_predictions(ctx: Ctx, name: ModelName, request: Request, fresh: Fresh) -> RowStream:
    """Predict rows as they come.

    A line is the body of `POST .../predict`, and is answered by a line, in order, by the model as it is then; the
    queries are waited for once, before the first. Everything else is as with `.../feedback/stream`.
    """
    replica = await _opened(ctx, name, request, fresh)
    return RowStream(
        ctx,
        PREDICT,
        lambda stream: Predicting(ctx, name, replica.incarnation, request.headers, stream.flush),
        request.headers,
        _told(ctx, replica),
    )


async def _opened(ctx: Context, name: str, request: Request, fresh: Any = None) -> Replica:
    """The model of a stream.

    Raises:
        WrongMedia, Invalid: this is none.
        OnepassError: the model cannot be had.
    """
    bodies.media_type(request, (NDJSON,))
    content_encoding.refuse_encoded(request.headers.get("content-encoding"))
    if "idempotency-key" in request.headers:
        raise Invalid.of("Idempotency-Key", "does not go with a stream", "an id in each line")
    return await ctx.engine.replica(name, fresh)


def _told(ctx: Context, replica: Replica) -> dict[str, str]:
    return {"Onepass-Durability": ctx.engine.durability, "Onepass-Incarnation": replica.incarnation}
