"""The streams of documents: GET /models/{name}/stream, of one model, and GET /stream, of a list of models."""

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from service.api.context import Caller, Ctx
from service.api.event_stream import EventStream
from service.api.live.list_live import ListProducer
from service.api.live.model_live import ModelProducer
from service.api.model_list import ListAsked, model_page
from service.api.models import ReadModel
from service.api.route import READ, Route

router = APIRouter(route_class=Route)
EXAMPLE = (
    'event: model\ndata: {"name":"demo","incarnation":"5f3a9c0d1e2b4a68","version":18,...}\nid: 18\n\n'
    'event: metrics\ndata: {"rows":18,...}\nid: 18\n\n'
)

LIST_EXAMPLE = (
    'event: models\ndata: {"models":[{"name":"demo","algorithm":"dfop","rows":18,"score":0.83,...}],"next":null}\n\n'
    'event: service\ndata: {"ready":true,"store":"up",...,"models":1,"rows_per_s":12.5,"streams":1}\n\n'
)


def _streamed(example: str) -> dict[str, Any]:
    """How a stream of events is described."""
    content = {"text/event-stream": {"schema": {"type": "string"}, "example": example}}
    return {
        "status_code": 200,
        "response_class": EventStream,
        "response_description": "Documents for as long as the client stays",
        "responses": {200: {"content": content}},
    }


@router.get("/models/{name}/stream", tags=["models"], dependencies=[READ], **_streamed(EXAMPLE))
async def stream_model(ctx: Ctx, replica: ReadModel) -> Response:
    """A model, live.

    Server-sent events, the JSON of each the answer of a GET: `model` (`/models/{name}`), `metrics`, `features`,
    `challengers`, `drift` (`?order=newest&limit=100`), `pending` (`?limit=20`), `snapshots` and
    `log` (`?limit=50`). All of them come first, then each that has changed, at most once a second; the `id` is
    the model's version. A busy service sends them less often, drift excepted. The stream ends with an event `end` and a
    `reason`: `deleted`, `recreated`, `down` (the model is out of service), `stopped` (the service is), `slow` (the
    client has not read for half a minute) or `failed`. A comment comes after 15 s without a change.
    """
    return ctx.live.open((replica.name, replica.incarnation), partial(ModelProducer, ctx.live, ctx, replica))


@router.get("/stream", tags=["models"], dependencies=[READ], **_streamed(LIST_EXAMPLE))
async def stream_list(ctx: Ctx, caller: Caller, asked: ListAsked) -> Response:
    """A list of models, live.

    Swagger UI waits for the end of the answer, and this one has none: use `curl -N` instead of *Execute*.

    Server-sent events: `models`, the answer of `GET /models` to the same queries, whenever it is another one, at most
    once a second; and `service`, the answer of `GET /readyz` with `models` (how many there are, of those that the key
    may touch), `rows_per_s` (that these models learn on this replica) and `streams` (open ones; null for a key of some
    models only). Lists other than by name are up to five seconds old. The stream ends with an event `end` and a
    `reason`: `stopped`, `slow` or `failed`.
    """
    await model_page(ctx, caller, asked)  # what cannot be answered is refused here
    seen = caller.models if caller is not None else ()
    return ctx.live.open(("models", asked, seen), partial(ListProducer, ctx.live, ctx, caller, asked))
