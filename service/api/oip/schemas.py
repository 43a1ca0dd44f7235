"""Bodies and answers of the Open Inference Protocol."""

from typing import Annotated, Any

import msgspec
import numpy as np
from pydantic import BaseModel, Field, WithJsonSchema

from service.api.schemas import Body, Name

BINARY_SIZE, LENGTH_HEADER = "binary_data_size", "Inference-Header-Content-Length"
MATRIX, PREDICTION, PROBABILITIES = "features", "prediction", "probabilities"
"""The input with all features of a row (any other name is that of one feature), and the outputs."""
BOOL, BYTES, LENGTH_BYTES = "BOOL", "BYTES", 4  # size of the length before an element of BYTES
NUMBERS = {BOOL: np.dtype("?")} | {
    f"{name}{8 * size}": np.dtype(f"<{kind}{size}")
    for name, kind, sizes in (("FP", "f", (8, 4, 2)), ("INT", "i", (1, 2, 4, 8)), ("UINT", "u", (1, 2, 4, 8)))
    for size in sizes
}
FLOATS = frozenset(name for name, kind in NUMBERS.items() if kind.kind == "f")
DATATYPES = [BYTES, *NUMBERS]
_SHAPE = WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2})
_DATA = WithJsonSchema(
    {"type": "array", "items": {}, "description": "Row by row, nested or flat; absent for binary data."}
)
Parameters = Annotated[dict[str, Any] | None, Field(examples=[{}], description="Unknown parameters are ignored.")]


class InputTensor(Body, forbid_unknown_fields=True):
    """An input: `features` with all numbers of each row, or one feature by its name with one value per row."""

    name: Name
    shape: Annotated[list[int], _SHAPE, Field(examples=[[1, 2]])]
    datatype: Annotated[str, Field(json_schema_extra={"enum": [*DATATYPES]})]
    parameters: Parameters = None
    data: Annotated[Any, _DATA] = None


class RequestedOutput(Body, forbid_unknown_fields=True):
    """A requested output; its parameter `binary_data` selects the encoding."""

    name: Name
    parameters: Parameters = None


class InferRequest(Body, forbid_unknown_fields=True):
    """Rows to predict, as tensors; `track` and `binary_data_output` are parameters."""

    inputs: Annotated[list[InputTensor], Field(min_length=1)]
    id: Annotated[str | None, Field(description="Returned unchanged; with `track`, the prediction id.")] = None
    parameters: Parameters = None
    outputs: Annotated[list[RequestedOutput] | None, Field(description="The wanted outputs; all by default.")] = None
    model_name: Annotated[str | None, Field(description="Ignored; the path names the model.")] = None
    model_version: Annotated[str | None, Field(description="Likewise.")] = None


class NamedTensor(BaseModel):
    """An output with its data, or the description of an input or output, where -1 stands for any length."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = Field(None, description="`classes`: the columns of `probabilities`.")
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """Predictions as tensors, `prediction` first. The model has not changed."""

    model_name: str = Field(examples=["demo"])
    model_version: str = Field(examples=["18"])
    id: str | None = Field(None, description="The id of the request, or the generated one of a tracked prediction.")
    parameters: dict[str, Any] | None = None
    outputs: list[NamedTensor] = Field(examples=[[{"name": "prediction", "datatype": "BYTES", "shape": [1]}]])


class ModelMetadata(BaseModel):
    """A model's inputs and outputs; only the current version answers requests."""

    name: str = Field(examples=["demo"])
    versions: list[str] = Field(examples=[["18"]])
    platform: str = Field(examples=["onepass"])
    inputs: list[NamedTensor] = Field(examples=[[{"name": "features", "datatype": "FP64", "shape": [-1, 2]}]])
    outputs: list[NamedTensor] = Field(examples=[[{"name": "prediction", "datatype": "BYTES", "shape": [-1]}]])


decoder = msgspec.json.Decoder(InferRequest)
