"""Bodies of inference in /openapi.json, which the endpoints read and write by themselves."""

from typing import Any

from service.api.inference_v2.schemas import InferRequest
from service.api.openapi import examples
from service.api.openapi.raw_bodies import raw_body

OCTETS = "application/octet-stream"
_BINARY = {"type": "string", "format": "binary"}
_SENT = (
    "The JSON, then the binary data of the inputs that have `binary_data_size` among their parameters, in their order; "
    "the header `Inference-Header-Content-Length` says how long the JSON is."
)
_TOLD = "The JSON, whose length the header `Inference-Header-Content-Length` says, then the binary data of the outputs."


def _request() -> dict[str, Any]:
    found = raw_body(InferRequest, shown=examples.INFER)
    found["requestBody"]["content"][OCTETS] = {"schema": {**_BINARY, "description": _SENT}}
    return found


REQUEST = _request()
ANSWER: dict[str, Any] = {"content": {OCTETS: {"schema": {**_BINARY, "description": _TOLD}}}}
