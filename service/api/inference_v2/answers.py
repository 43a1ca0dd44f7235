"""Predictions as the tensors of an answer, in JSON or as binary data behind it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from core.features.labels import key
from service.api.inference_v2.requests import PREDICTION, PROBABILITIES, How
from service.api.inference_v2.schemas import BINARY_SIZE
from service.api.inference_v2.tensors import LENGTH_BYTES
from service.api.large_answers import in_parts, list_parts
from service.api.schemas import PredictedBatch

LENGTH_HEADER = "Inference-Header-Content-Length"
OCTETS = "application/octet-stream"
ELEMENTS_AT_ONCE = 4096
"""Texts that are joined in one call."""
_encode = msgspec.json.Encoder().encode


class Told(NamedTuple):
    """Predictions, and what stands beside them.

    Attributes:
        model: its name.
        batch: the predictions; of a classification, ``probabilities`` are an array.
        how: what is asked.
        prediction_id: of a tracked prediction, or None.
    """

    model: str
    batch: PredictedBatch
    how: How
    prediction_id: str | None = None


class _Output(NamedTuple):
    """One tensor: FP64 as an array, BYTES as texts."""

    head: dict[str, Any]
    values: NDArray[np.float64] | list[str]
    binary: bool


def rendered(told: Told) -> Response:
    """The answer: the protocol's JSON, and behind it what is asked for as binary data."""
    head: dict[str, Any] = {"model_name": told.model, "model_version": str(told.batch.version)}
    if (identity := told.prediction_id or told.how.id) is not None:
        head["id"] = identity
    head["parameters"] = {"incarnation": told.batch.incarnation}
    if told.prediction_id is not None:
        head["parameters"]["prediction_id"] = told.prediction_id
    parts, blobs = [_encode(head)[:-1] + b',"outputs":['], list[bytes]()
    for at, output in enumerate(_outputs(told)):
        own = [*_binary(output.values)] if output.binary else []
        blobs += own
        parts += [b"," if at else b"", *_json(output, sum(map(len, own)))]
    parts.append(b"]}")
    if not any(told.how.outputs.values()):
        return in_parts(parts)
    return in_parts([*parts, *blobs], OCTETS, {LENGTH_HEADER: str(sum(map(len, parts)))})


def _outputs(told: Told) -> Iterator[_Output]:
    batch, wanted = told.batch, told.how.outputs
    rows = len(batch.predictions)
    if PREDICTION in wanted:
        values: Any = batch.predictions
        kind, values = ("FP64", np.array(values, np.float64)) if batch.classes is None else ("BYTES", _keys(values))
        yield _Output({"name": PREDICTION, "datatype": kind, "shape": [rows]}, values, wanted[PREDICTION])
    if PROBABILITIES in wanted:
        shares = np.asarray(batch.probabilities, np.float64).reshape(rows, -1)
        head: dict[str, Any] = {"name": PROBABILITIES, "datatype": "FP64", "shape": [*shares.shape]}
        head["parameters"] = {"classes": _keys(batch.classes or [])}
        yield _Output(head, shares.ravel(), wanted[PROBABILITIES])


def _keys(labels: Sequence[Any]) -> list[str]:
    return [*map(key, labels)]


def _json(output: _Output, size: int) -> Iterator[bytes]:
    """A tensor as JSON, in parts; ``size``: bytes of its binary data."""
    head = output.head
    if output.binary:
        yield _encode({**head, "parameters": {**head.get("parameters", {}), BINARY_SIZE: size}})
        return
    yield _encode(head)[:-1] + b',"data":'
    yield from list_parts(output.values)
    yield b"}"


def _binary(values: NDArray[np.float64] | list[str]) -> Iterator[bytes]:
    if isinstance(values, np.ndarray):
        yield values.astype("<f8").tobytes()
        return
    lengths: dict[str, bytes] = {}
    for begin in range(0, len(values), ELEMENTS_AT_ONCE):
        some = values[begin : begin + ELEMENTS_AT_ONCE]
        lengths |= {text: _element(text) for text in {*some} - lengths.keys()}
        yield b"".join(map(lengths.__getitem__, some))


def _element(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(LENGTH_BYTES, "little") + data
