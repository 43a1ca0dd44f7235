"""Bodies and answers as the Open Inference Protocol names them."""

from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, Field, WithJsonSchema

from service.api.schemas import Body, Name

BINARY_SIZE, BINARY, BINARY_OUTPUT, TRACK = "binary_data_size", "binary_data", "binary_data_output", "track"
"""Parameters of an input or output; of a requested output; of a request; and our own of a request."""
DATATYPES = ["BOOL", "BYTES", "FP64", "FP32", "FP16"]
DATATYPES += [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
_SHAPE = WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2})
_DATA = WithJsonSchema({"type": "array", "items": {}})
Parameters = Annotated[
    dict[str, Any] | None, Field(description="Those that mean nothing here are passed over.", examples=[{}])
]
Datatype = Annotated[str, Field(json_schema_extra={"enum": DATATYPES})]


class InputTensor(Body, forbid_unknown_fields=True):
    """An input: `features`, a row of numbers for each row of it, or one feature by its name, a value for each row."""

    name: Name
    shape: Annotated[list[int], _SHAPE, Field(examples=[[1, 2]])]
    datatype: Datatype
    parameters: Parameters = None
    data: Annotated[
        Any, _DATA, Field(description="Row by row, nested or not; left out where the tensor comes as binary data.")
    ] = None


class RequestedOutput(Body, forbid_unknown_fields=True):
    """An output that is asked for; `binary_data` among its parameters says how it is to come."""

    name: Name
    parameters: Parameters = None


class InferRequest(Body, forbid_unknown_fields=True):
    """Rows to predict, as tensors."""

    inputs: Annotated[list[InputTensor], Field(min_length=1)]
    id: Annotated[
        str | None, Field(description="Echoed; with `track` the prediction id that the label is sent with.")
    ] = None
    parameters: Annotated[
        dict[str, Any] | None,
        Field(
            description="`track`: keep the prediction of one row until its label comes. `binary_data_output`: outputs "
            "come as binary data."
        ),
    ] = None
    outputs: Annotated[list[RequestedOutput] | None, Field(description="Where not all are wanted.")] = None
    model_name: Annotated[str | None, Field(description="Sent by some clients; the path counts.")] = None
    model_version: Annotated[str | None, Field(description="Likewise.")] = None


class OutputTensor(BaseModel):
    """An output."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """Predictions, as tensors; `prediction` first. Nothing has changed."""

    model_name: str = Field(examples=["demo"])
    model_version: str = Field(examples=["18"])
    id: str | None = Field(None, description="As it was sent; or the one that a tracked prediction was given.")
    parameters: dict[str, Any] | None = None
    outputs: list[OutputTensor] = Field(
        examples=[[{"name": "prediction", "datatype": "BYTES", "shape": [1], "data": ["UP"]}]]
    )


class TensorMetadata(BaseModel):
    """One input or output of a model; -1 stands for any length."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = Field(None, description="`classes`: the columns of `probabilities`.")


class ModelMetadata(BaseModel):
    """What a model's inputs and outputs are."""

    name: str = Field(examples=["demo"])
    versions: list[str] = Field(examples=[["18"]], description="The present one; earlier ones cannot be asked.")
    platform: str = Field(examples=["onepass"])
    inputs: list[TensorMetadata] = Field(examples=[[{"name": "features", "datatype": "FP64", "shape": [-1, 2]}]])
    outputs: list[TensorMetadata] = Field(examples=[[{"name": "prediction", "datatype": "BYTES", "shape": [-1]}]])


class ServerMetadata(BaseModel):
    """The service."""

    name: str = Field(examples=["onepass"])
    version: str = Field(examples=["0.1.0"])
    extensions: list[str] = Field(examples=[["binary_tensor_data"]])


class Live(BaseModel):
    """The process answers."""

    live: bool = Field(examples=[True])


class ServerReady(BaseModel):
    """The service takes traffic."""

    ready: bool = Field(examples=[True])


class ModelReady(BaseModel):
    """The model can be asked."""

    name: str = Field(examples=["demo"])
    ready: bool = Field(examples=[True])


decoder = msgspec.json.Decoder(InferRequest)
