"""The streams of documents: GET /models/{name}/stream."""

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from service.api.context import Ctx
from service.api.event_stream import EventStream
from service.api.live.model_live import ModelProducer
from service.api.models import ReadModel
from service.api.route import READ, Route

router = APIRouter(route_class=Route)
EXAMPLE = (
    'event: model\ndata: {"name":"demo","incarnation":"5f3a9c0d1e2b4a68","version":18,...}\nid: 18\n\n'
    'event: metrics\ndata: {"rows":18,...}\nid: 18\n\n'
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

    Swagger UI waits for the end of the answer, and this one has none: use `curl -N` instead of *Execute*.

    Server-sent events, the JSON of each the answer of a GET: `model` (`/models/{name}`), `metrics`, `features`,
    `challengers`, `drift` (`?order=newest&limit=100`), `pending` (`?limit=20`), `snapshots` and
    `log` (`?limit=50`). All of them come first, then each that has changed, at most once a second; the `id` is
    the model's version. A busy service sends them less often, drift excepted. The stream ends with an event `end` and a
    `reason`: `deleted`, `recreated`, `down` (the model is out of service), `stopped` (the service is), `slow` (the
    client has not read for half a minute) or `failed`. A comment comes after 15 s without a change.
    """
    return ctx.live.open((replica.name, replica.incarnation), partial(ModelProducer, ctx.live, ctx, replica))
