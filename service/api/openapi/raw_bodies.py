"""The request bodies of endpoints that read them by themselves: rows and tables."""

from collections.abc import Mapping
from typing import Any

from fastapi.openapi.models import Example
from pydantic import TypeAdapter

from service.api.media import CSV, JSON, NDJSON, NPY, SVMLIGHT
from service.api.openapi import examples
from service.api.schemas import Body

REF = "#/components/schemas/{model}"
_documented: list[type[Body]] = []


def raw_body(
    *kinds: type[Body],
    shown: Mapping[str, Example],
    record: type[Body] | None = None,
    lines: str = "",
    csv: str = "",
    npy: str = "",
    svmlight: bool = False,
) -> dict[str, Any]:
    """What FastAPI is told of a body that it does not read (``openapi_extra``).

    Args:
        kinds: what its JSON may be.
        shown: examples of that.
        record: what its JSON may be a list of, and a line of NDJSON; None where the endpoint reads neither.
        lines: an example of NDJSON.
        csv: an example; "" where the endpoint reads none.
        npy: what the columns of an array are; "" where the endpoint reads none.
        svmlight: whether the endpoint reads that.
    """
    _documented.extend(kinds)
    references: list[dict[str, Any]] = [{"$ref": REF.format(model=kind.__name__)} for kind in kinds]
    if record is not None:
        _documented.append(record)
        references.append({"type": "array", "minItems": 1, "items": {"$ref": REF.format(model=record.__name__)}})
    content: dict[str, Any] = {
        JSON: {"schema": references[0] if len(references) == 1 else {"anyOf": references}, "examples": dict(shown)}
    }
    if record is not None:
        text = f"Lines of JSON, each as {REF.format(model=record.__name__)}."
        content[NDJSON] = {"schema": {"type": "string", "description": text}, "example": lines}
    if csv:
        content[CSV] = {"schema": {"type": "string"}, "example": csv}
    if svmlight:
        content[SVMLIGHT] = {"schema": {"type": "string"}, "example": examples.SVMLIGHT}
    if npy:
        text = f'a file of numpy.save("rows.npy", X), X float64 of shape (rows, columns): {npy}.'
        content[NPY] = {"schema": {"type": "string", "format": "binary", "description": text}}
    return {"requestBody": {"required": True, "content": content}}


def documented() -> dict[str, Any]:
    """The schemas that these bodies refer to."""
    adapters = [(kind, "validation", TypeAdapter(kind)) for kind in dict.fromkeys(_documented)]
    _, found = TypeAdapter.json_schemas(adapters, ref_template=REF)  # type: ignore[arg-type]
    schemas: dict[str, Any] = found["$defs"]
    return schemas
