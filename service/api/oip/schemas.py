"""Bodies and answers as the Open Inference Protocol names them."""

from typing import Annotated, Any

import msgspec
import numpy as np
from pydantic import BaseModel, Field, WithJsonSchema

from service.api.schemas import Body, Name

BINARY_SIZE, LENGTH_HEADER = "binary_data_size", "Inference-Header-Content-Length"
MATRIX, PREDICTION, PROBABILITIES = "features", "prediction", "probabilities"
"""The input that holds all features of a row (another name is that of one feature); the outputs."""
BOOL, BYTES, LENGTH_BYTES = "BOOL", "BYTES", 4  # of the length before an element of BYTES
NUMBERS = {BOOL: np.dtype("?")} | {
    f"{name}{8 * size}": np.dtype(f"<{kind}{size}")
    for name, kind, sizes in (("FP", "f", (8, 4, 2)), ("INT", "i", (1, 2, 4, 8)), ("UINT", "u", (1, 2, 4, 8)))
    for size in sizes
}
DATATYPES = [BYTES, *NUMBERS]
_SHAPE = WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2})
_DATA = WithJsonSchema({"type": "array", "items": {}, "description": "Row by row, nested or not; none of binary data."})
Parameters = Annotated[dict[str, Any] | None, Field(examples=[{}], description="Unknown ones are passed over.")]


class InputTensor(Body, forbid_unknown_fields=True):
    """An input: `features`, a row of numbers for each row of it, or one feature by its name, a value for each row."""

    name: Name
    shape: Annotated[list[int], _SHAPE, Field(examples=[[1, 2]])]
    datatype: Annotated[str, Field(json_schema_extra={"enum": [*DATATYPES]})]
    parameters: Parameters = None
    data: Annotated[Any, _DATA] = None


class RequestedOutput(Body, forbid_unknown_fields=True):
    """An output that is asked for; `binary_data` among its parameters says how it is to come."""

    name: Name
    parameters: Parameters = None


class InferRequest(Body, forbid_unknown_fields=True):
    """Rows to predict, as tensors; `track` and `binary_data_output` are parameters."""

    inputs: Annotated[list[InputTensor], Field(min_length=1)]
    id: Annotated[str | None, Field(description="Echoed; with `track` the prediction id.")] = None
    parameters: Parameters = None
    outputs: Annotated[list[RequestedOutput] | None, Field(description="Where not all are wanted.")] = None
    model_name: Annotated[str | None, Field(description="Sent by some clients; the path counts.")] = None
    model_version: Annotated[str | None, Field(description="Likewise.")] = None


class NamedTensor(BaseModel):
    """An output with its data, or what an input or output of a model is: there -1 stands for any length."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = Field(None, description="`classes`: the columns of `probabilities`.")
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """Predictions, as tensors; `prediction` first. Nothing has changed."""

    model_name: str = Field(examples=["demo"])
    model_version: str = Field(examples=["18"])
    id: str | None = Field(None, description="As it was sent; or the one that a tracked prediction was given.")
    parameters: dict[str, Any] | None = None
    outputs: list[NamedTensor] = Field(examples=[[{"name": "prediction", "datatype": "BYTES", "shape": [1]}]])


class ModelMetadata(BaseModel):
    """What a model's inputs and outputs are; the present version alone can be asked."""

    name: str = Field(examples=["demo"])
    versions: list[str] = Field(examples=[["18"]])
    platform: str = Field(examples=["onepass"])
    inputs: list[NamedTensor] = Field(examples=[[{"name": "features", "datatype": "FP64", "shape": [-1, 2]}]])
    outputs: list[NamedTensor] = Field(examples=[[{"name": "prediction", "datatype": "BYTES", "shape": [-1]}]])


decoder = msgspec.json.Decoder(InferRequest)
