"""The routes of the Open Inference Protocol: /v2, its health, and the models' metadata, readiness and inference.

The functions at the end describe a model's tensors and encode predictions, in JSON or as binary data after it.
"""

from collections.abc import Iterator
from functools import partial
from importlib.metadata import version as version_of
from typing import Annotated, Any, cast

import msgspec
import numpy as np
from fastapi import APIRouter, Depends, Header, Path
from numpy.typing import NDArray
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from core.contract import Label
from core.features import Feature, SparseSchema
from core.features.labels import key
from core.model import Model, read
from core.problems import Problem
from service.api.http import bodies
from service.api.http.context import Context, Ctx, Fresh, ModelName
from service.api.http.headers import LINES
from service.api.http.media import JSON
from service.api.http.problems import inference_problem
from service.api.http.route import READ, Route
from service.api.models.models import ReadModel
from service.api.oip import schemas as v2
from service.api.oip.requests import ToInfer, decoded_bytes, read_tensors, rows_of
from service.api.openapi.document import raw_body
from service.api.openapi.examples import INFER
from service.api.rows import predict
from service.api.rows.formats.tables import Sent
from service.api.rows.idempotency import read_rows
from service.api.rows.large_answers import answered, in_parts, list_parts, predicted_bytes, reserve
from service.api.schemas import PredictedBatch, PredictRow
from service.errors import NotFound, NotReady, RequestConflict
from service.runtime.engine import DECISIVE
from service.runtime.replicas.replica import Replica
from service.runtime.threads import in_thread_if_large

ANY = -1  # in a shape: any length
BINARY = "application/octet-stream"
_encode = msgspec.json.Encoder().encode


class InferenceRoute(Route):
    """A route whose errors have the protocol's form; the operation ids of versioned routes end in ``_version``."""

    refusal = staticmethod(inference_problem)
    error_form = "Inference"

    def __init__(self, path: str, endpoint: Any, **how: Any) -> None:
        super().__init__(path, endpoint, **how)
        self.operation_id = endpoint.__name__ + ("_version" if "{version}" in path else "")


router = APIRouter(route_class=InferenceRoute, tags=["open inference protocol"], prefix="/v2")


PresentVersion = Annotated[str, Path(description="The current version.", openapi_examples={"10": {"value": "10"}})]


async def _present_version(replica: ReadModel, version: PresentVersion) -> None:
    if version != str(replica.version):
        there = [Problem("version", "is not the current version", [str(replica.version)])]
        raise NotFound(f"model {replica.name} is past this version, or has not reached it yet", there)


SERVER = {"name": "onepass", "version": version_of("onepass"), "extensions": ["binary_tensor_data"]}
NO_LABEL = "knows no label yet: send a feedback row, or declare labels"
READY = {"name": "demo", "ready": True}
MODEL, AT, PRESENT = "/models/{name}", "/models/{name}/versions/{version}", [READ, Depends(_present_version)]


@router.get("", dependencies=[READ], response_description="The service")
async def inference_server() -> Annotated[dict[str, Any], Field(examples=[SERVER])]:
    """The service as a server of the Open Inference Protocol."""
    return SERVER


@router.get("/health/live", response_description="The process answers")
async def inference_live() -> Annotated[dict[str, bool], Field(examples=[{"live": True}])]:
    """Whether the process is alive (Open Inference Protocol)."""
    return {"live": True}


@router.get("/health/ready", response_description="The service is ready for traffic")
async def inference_ready(ctx: Ctx) -> Annotated[dict[str, bool], Field(examples=[{"ready": True}])]:
    """Whether the service is ready for traffic (Open Inference Protocol)."""
    fine, checks = ctx.engine.ready()
    if not fine:
        raise NotReady(f"the service is not ready: {', '.join(name for name in DECISIVE if not checks[name])}")
    return {"ready": True}


@router.get(AT, dependencies=PRESENT, response_model_exclude_none=True)
@router.get(MODEL, dependencies=[READ], response_model_exclude_none=True)
async def inference_model(replica: ReadModel) -> v2.ModelMetadata:
    """The input and output tensors of a model."""
    async with replica.held():
        own = {"inputs": _inputs(replica.model), "outputs": _outputs(replica.model)}
        return v2.ModelMetadata(name=replica.name, versions=[str(replica.version)], platform="onepass", **own)


@router.get(f"{AT}/ready", dependencies=PRESENT, response_description="The model is ready for requests")
@router.get(f"{MODEL}/ready", dependencies=[READ], response_description="The model is ready for requests")
async def inference_model_ready(replica: ReadModel) -> Annotated[dict[str, Any], Field(examples=[READY])]:
    """Whether a model is ready for requests."""
    async with replica.held():
        return READY | {"name": replica.name}


JsonLength = Annotated[
    int | None, Header(alias=v2.LENGTH_HEADER, ge=0, description="Length in bytes of the JSON before the binary data.")
]
_PARTS = {"type": "string", "format": "binary", "description": "The JSON, then the outputs requested as binary data."}
_HOW: dict[str, Any] = {
    "response_model": v2.InferResponse,
    "responses": {200: {"content": {BINARY: {"schema": _PARTS}}}},
    "openapi_extra": raw_body(v2.InferRequest, shown=INFER),
}


@router.post(f"{AT}/infer", dependencies=PRESENT, **_HOW)
@router.post(f"{MODEL}/infer", dependencies=[READ], **_HOW)
async def infer(ctx: Ctx, request: Request, name: ModelName, fresh: Fresh, json_length: JsonLength = None) -> Response:
    """Predict rows that are sent as tensors.

    One input `features` of shape [rows, columns] in the model's order; or, if some features are not numbers, one input
    of shape [rows] per feature, with the feature's name. Numbers are FP, INT or UINT; categories BYTES, INT or BOOL;
    times BYTES or numbers. The outputs are `prediction` (FP64 for regression, BYTES for classification) and
    `probabilities`, with a column for each of `classes`. Tensors may be binary data after the JSON, whatever the media
    type of the body.

    With `"parameters": {"track": true}` the prediction of one row is kept until its label arrives, under the `id` of
    the request or a generated one; that needs the scope `learn`. An id that is waiting or was used is 409.
    """
    bounds = ctx.engine.bounds
    body = await bodies.read_body(request, bounds.body_bytes_max)
    replica = await ctx.engine.replica(name, fresh)  # after the body: the model may change while it arrives
    sent = Sent(body, JSON, {}, bounds.batch_rows_max, bounds.body_bytes_max)
    await ctx.budget.decode(request.scope, body, await in_thread_if_large(len(body), decoded_bytes, json_length, sent))
    asked = await ctx.reader.call_if_large(len(body), read_tensors, json_length, sent, replica.model)
    if asked.track:
        ctx.keys.allow(request.scope[LINES], "learn", name)
    replicas = predict.attempts(ctx, replica)
    while True:  # until the rows are read with the features that the model has when it predicts them
        replica = next(replicas)
        space, raw, first = await read_rows(ctx, replica, len(body), partial(rows_of, asked))
        if asked.track:
            return await _tracked(ctx, replica, asked, first, len(body))
        reserve(ctx, request, len(raw), predicted_bytes(replica.model))
        found = await predict.predict_many(replica, space, raw)
        if found is not None:
            batch, _ = found
            if batch.predictions[0] is None:
                raise RequestConflict(f"model {replica.name} {NO_LABEL}")
            return await answered(ctx, request, len(raw), rendered, replica.name, batch, asked)


async def _tracked(ctx: Context, replica: Replica, asked: ToInfer, row: dict[str, Any], size: int) -> Response:
    """Predict one row and keep it until its label arrives."""
    if replica.model.config.task == "classification" and not replica.model.own.answers.labels.labels:
        raise RequestConflict(f"model {replica.name} {NO_LABEL}")
    answer = await predict.predict_asked(ctx, replica, PredictRow(features=row, track=True), size, asked.id)
    batch = PredictedBatch(predictions=[answer.prediction], version=answer.version, incarnation=answer.incarnation)
    if answer.probabilities is not None:
        batch.classes, batch.probabilities = [*answer.probabilities], [[*answer.probabilities.values()]]
    return rendered(replica.name, batch, asked, answer.prediction_id)


# ------------------------------------------------------------------------------------------------ tensors


def _inputs(model: Model) -> list[v2.NamedTensor]:
    """One matrix if all features are numbers, else one input each; none for models of named sparse rows."""
    space = model.prediction_schema
    if isinstance(space, SparseSchema):
        return []
    if space is None or all(feature.type == "numeric" for feature in space.features):
        return [_tensor(v2.MATRIX, "FP64", ANY if space is None else space.raw_width)]
    return [_tensor(own.name, _datatype(own)) for own in space.features]


def _datatype(feature: Feature) -> str:
    if feature.type == "categorical":
        kinds = {*map(type, feature.categories)}
        return v2.BOOL if kinds == {bool} else "INT64" if kinds == {int} else v2.BYTES
    return v2.BOOL if feature.type == "boolean" else "FP64"


def _outputs(model: Model) -> list[v2.NamedTensor]:
    if model.config.task == "regression":
        return [_tensor(v2.PREDICTION, "FP64")]
    classes = read.labels_in_use(model.own).keys
    shares = _tensor(v2.PROBABILITIES, "FP64", len(classes) or ANY, parameters={"classes": classes})
    return [_tensor(v2.PREDICTION, v2.BYTES), shares]


def _tensor(name: str, datatype: str, *width: int, **more: Any) -> v2.NamedTensor:
    return v2.NamedTensor(name=name, datatype=datatype, shape=[ANY, *width], **more)


def rendered(model: str, batch: PredictedBatch, asked: ToInfer, prediction_id: str | None = None) -> Response:
    """The predictions of a model as an answer; ``prediction_id`` if one is tracked."""
    tracked = {} if prediction_id is None else {"prediction_id": prediction_id}
    named = {} if (identity := prediction_id or asked.id) is None else {"id": identity}
    parameters = {"incarnation": batch.incarnation, **tracked}
    head = {"model_name": model, "model_version": str(batch.version), **named, "parameters": parameters}
    parts, blobs = [_encode(head)[:-1] + b',"outputs":['], list[bytes]()
    for at, (output, values) in enumerate(own for own in _said(batch) if own[0]["name"] in asked.outputs):
        parts.append(b"," if at else b"")
        if asked.outputs[output["name"]]:
            blobs.append(_binary(values))
            output["parameters"] = {**output.get("parameters", {}), v2.BINARY_SIZE: len(blobs[-1])}
            parts.append(_encode(output))
        else:
            parts += [_encode(output)[:-1] + b',"data":', *list_parts(values), b"}"]
    parts.append(b"]}")
    if not any(asked.outputs.values()):
        return in_parts(parts)
    return in_parts([*parts, *blobs], BINARY, {v2.LENGTH_HEADER: str(sum(map(len, parts)))})


def _said(batch: PredictedBatch) -> Iterator[tuple[dict[str, Any], NDArray[np.float64] | list[str]]]:
    """The outputs, and their elements: FP64 as an array, BYTES as texts."""
    head = {"name": v2.PREDICTION, "datatype": v2.BYTES, "shape": [len(batch.predictions)]}
    if batch.classes is None:
        yield head | {"datatype": "FP64"}, np.array(batch.predictions, np.float64)
        return
    yield head, [*map(key, cast("list[Label]", batch.predictions))]
    shares = np.array(batch.probabilities, np.float64)
    head = {"name": v2.PROBABILITIES, "datatype": "FP64", "shape": [*shares.shape]}
    yield head | {"parameters": {"classes": [*map(key, batch.classes)]}}, shares.ravel()


def _binary(values: NDArray[np.float64] | list[str]) -> bytes:
    if isinstance(values, np.ndarray):
        return values.astype("<f8").tobytes()
    elements = {text: len(text.encode()).to_bytes(v2.LENGTH_BYTES, "little") + text.encode() for text in {*values}}
    return b"".join(map(elements.__getitem__, values))
