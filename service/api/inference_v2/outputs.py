"""What a model's tensors are; its predictions as those of an answer, in JSON or as binary data behind it."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from core.features import Feature, SparseSchema
from core.features.labels import Label, key
from core.model import Model
from service.api.inference_v2 import schemas as v2
from service.api.inference_v2.requests import ToInfer
from service.api.large_answers import in_parts, list_parts
from service.api.schemas import PredictedBatch
from service.runtime.replica import Replica

ANY = -1  # in a shape: any length
_encode = msgspec.json.Encoder().encode


async def metadata_of(replica: Replica) -> v2.ModelMetadata:
    """The metadata of a model as it is now; ModelDown where it is out of service."""
    async with replica.held():
        own = {"inputs": _inputs(replica.machine), "outputs": _outputs(replica.machine)}
        return v2.ModelMetadata(name=replica.name, versions=[str(replica.version)], platform="onepass", **own)


def _inputs(machine: Model) -> list[v2.NamedTensor]:
    """One matrix where all features are numbers, else one input for each; none where rows hold any names."""
    space = machine.prediction_schema
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


def _outputs(machine: Model) -> list[v2.NamedTensor]:
    if machine.config.task == "regression":
        return [_tensor(v2.PREDICTION, "FP64")]
    classes = [*map(key, machine.own.answers.said.labels)]
    shares = _tensor(v2.PROBABILITIES, "FP64", len(classes) or ANY, parameters={"classes": classes})
    return [_tensor(v2.PREDICTION, v2.BYTES), shares]


def _tensor(name: str, datatype: str, *width: int, **more: Any) -> v2.NamedTensor:
    return v2.NamedTensor(name=name, datatype=datatype, shape=[ANY, *width], **more)


def rendered(model: str, batch: PredictedBatch, asked: ToInfer, prediction_id: str | None = None) -> Response:
    """The predictions of a model, by its name; ``prediction_id`` of one that is tracked."""
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
    return in_parts([*parts, *blobs], "application/octet-stream", {v2.LENGTH_HEADER: str(sum(map(len, parts)))})


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
