"""The routes of the Open Inference Protocol: /v2, its health, and the models' metadata, readiness and inference."""

from functools import partial
from importlib.metadata import version as version_of
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Header, Path
from starlette.requests import Request
from starlette.responses import Response

from core.problems import Problem
from service.api import bodies, large_bodies, predict
from service.api.context import Context, Ctx, Fresh, ModelName
from service.api.inference_v2 import described, requests
from service.api.inference_v2.answers import LENGTH_HEADER, Told, rendered
from service.api.inference_v2.metadata import metadata_of
from service.api.inference_v2.requests import ToInfer
from service.api.inference_v2.schemas import InferResponse, Live, ModelMetadata, ModelReady, ServerMetadata, ServerReady
from service.api.large_answers import ROW_BYTES
from service.api.media import JSON
from service.api.problems import inference_problem
from service.api.route import READ, Route
from service.api.row_requests import Refused
from service.api.schemas import PredictedBatch, PredictRow
from service.errors import NotFound, NotReady, NotTable, RequestConflict
from service.runtime.replica import Replica
from service.runtime.threads import in_thread_if_large

DIGITS_MAX = 18
"""Of the length of the JSON before binary data."""


class InferenceRoute(Route):
    """A route whose errors are those of the protocol."""

    refusal = staticmethod(inference_problem)
    error_form = "Inference"


router = APIRouter(route_class=InferenceRoute, tags=["open inference protocol"], prefix="/v2")
Version = Annotated[str, Path(description="The present version.", openapi_examples={"demo": {"value": "10"}})]


@router.get("", dependencies=[READ])
async def inference_server() -> ServerMetadata:
    """The service as a server of the Open Inference Protocol."""
    return ServerMetadata(name="onepass", version=version_of("onepass"), extensions=["binary_tensor_data"])


@router.get("/health/live")
async def inference_live() -> Live:
    """Whether the process is alive (Open Inference Protocol)."""
    return Live(live=True)


@router.get("/health/ready")
async def inference_ready(ctx: Ctx) -> ServerReady:
    """Whether the service takes traffic (Open Inference Protocol).

    As `/readyz`, which says more.
    """
    fine, checks = ctx.engine.ready()
    if not fine:
        failing = ", ".join(name for name, good in checks.items() if good is False)
        raise NotReady(f"the service is not ready: {failing}")
    return ServerReady(ready=True)


async def _model(ctx: Ctx, name: ModelName, fresh: Fresh) -> Replica:
    return await ctx.engine.replica(name, fresh)


async def _model_at(ctx: Ctx, name: ModelName, version: Version, fresh: Fresh) -> Replica:
    """The model, of which the present version can be asked alone.

    Raises:
        NotFound: another version.
    """
    replica = await ctx.engine.replica(name, fresh)
    if version != str(replica.version):
        there = [Problem("version", "is not the present version", [str(replica.version)])]
        raise NotFound(f"model {name} has moved on, or is not there yet", there)
    return replica


Present = Annotated[Replica, Depends(_model)]
PresentAt = Annotated[Replica, Depends(_model_at)]


@router.get("/models/{name}", dependencies=[READ], response_model_exclude_none=True)
async def inference_model(replica: Present) -> ModelMetadata:
    """The tensors that a model takes and gives.

    One input `features` where all features are numbers, else one for each feature.
    """
    return await metadata_of(replica)


@router.get("/models/{name}/versions/{version}", dependencies=[READ], response_model_exclude_none=True)
async def inference_model_version(replica: PresentAt) -> ModelMetadata:
    """The same, of the present version.

    Any other one is 404.
    """
    return await metadata_of(replica)


@router.get("/models/{name}/ready", dependencies=[READ])
async def inference_model_ready(replica: Present) -> ModelReady:
    """Whether a model can be asked."""
    return await _ready(replica)


@router.get("/models/{name}/versions/{version}/ready", dependencies=[READ])
async def inference_model_version_ready(replica: PresentAt) -> ModelReady:
    """Whether the present version of a model can be asked."""
    return await _ready(replica)


async def _ready(replica: Replica) -> ModelReady:
    async with replica.held():
        return ModelReady(name=replica.name, ready=True)


JsonLength = Annotated[
    str | None,
    Header(alias=LENGTH_HEADER, description="Bytes of JSON at the beginning of a body that binary data follow."),
]


@router.post(
    "/models/{name}/infer",
    dependencies=[READ],
    response_model=InferResponse,
    responses={200: described.ANSWER},
    openapi_extra=described.REQUEST,
)
async def infer(ctx: Ctx, request: Request, replica: Present, json_length: JsonLength = None) -> Response:
    """Predict rows that come as tensors.

    One input `features` of shape [rows, columns] in the order of the model, or one for each feature of shape [rows],
    named as the feature, where some are not numbers. Numbers are FP64, FP32, FP16, INT or UINT; categories are BYTES,
    or INT or BOOL as they were declared; times BYTES or numbers. Outputs are `prediction`, FP64 of a regression and
    BYTES of a classification, and then `probabilities`, a column for each of `classes`. Tensors may come, and be asked
    for, as binary data behind the JSON; the media type of the body does not matter.

    With `"parameters": {"track": true}` the prediction of one row is kept until its label comes, under the `id` of the
    request or one that is made; that needs the scope `learn`. An id that is pending or was seen is 409.
    """
    return await _infer(ctx, request, replica, json_length)


@router.post(
    "/models/{name}/versions/{version}/infer",
    dependencies=[READ],
    response_model=InferResponse,
    responses={200: described.ANSWER},
    openapi_extra=described.REQUEST,
)
async def infer_version(ctx: Ctx, request: Request, replica: PresentAt, json_length: JsonLength = None) -> Response:
    """Predict rows by the present version.

    Any other one is 404.
    """
    return await _infer(ctx, request, replica, json_length)


async def _infer(ctx: Context, request: Request, replica: Replica, json_length: str | None) -> Response:
    body = await bodies.read_body(request, ctx.engine.bounds.body_bytes_max)
    form = partial(requests.infer, _length(json_length))
    given = large_bodies.sent(ctx, request, JSON, body)
    while True:
        found, validator = await large_bodies.read(ctx, replica, form, given)
        if isinstance(found, Refused):
            raise found.error
        if found.how.track:
            ctx.keys.allow(request.headers, "learn", replica.name)
            return rendered(await _tracked(ctx, replica, found, len(body)))
        batch = await predict.predict_many(replica, validator.space, found.raw)
        if batch is not None:
            told = Told(replica.name, _labelled(replica.name, batch), found.how)
            return await in_thread_if_large(ROW_BYTES * len(found.raw), rendered, told)


def _length(given: str | None) -> int | None:
    """How many bytes of a body are JSON; None: all.

    Raises:
        NotTable: not a number of bytes.
    """
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= DIGITS_MAX):
        raise NotTable(f"{LENGTH_HEADER} is not a number of bytes")
    return int(given)


async def _tracked(ctx: Context, replica: Replica, found: ToInfer, size: int) -> Told:
    """Predict one row and keep it until its label comes."""
    if replica.machine.config.task == "classification" and not replica.machine.answers.said.labels:
        raise _nothing_to_say(replica.name)
    ask = PredictRow(features=found.values, track=True)
    answer = await predict.predict_asked(ctx, replica, ask, size, found.how.id)
    batch = PredictedBatch(predictions=[answer.prediction], version=answer.version, incarnation=answer.incarnation)
    if answer.probabilities is not None:
        batch.classes = [*answer.probabilities]
        batch.probabilities = _array([[*answer.probabilities.values()]])
    return Told(replica.name, batch, found.how, answer.prediction_id)


def _labelled(name: str, batch: PredictedBatch) -> PredictedBatch:
    """Predictions, none of which is null: a tensor has no such element.

    Raises:
        RequestConflict: the model knows no label yet.
    """
    if batch.predictions and batch.predictions[0] is None:
        raise _nothing_to_say(name)
    return batch


def _nothing_to_say(name: str) -> RequestConflict:
    return RequestConflict(f"model {name} knows no label yet: the first feedback row has one, or declare labels")


def _array(values: list[list[float]]) -> Any:
    return np.array(values)
