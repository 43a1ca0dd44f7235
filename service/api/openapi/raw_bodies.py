"""The request bodies of endpoints that read them by themselves: rows and tables."""

from collections.abc import Mapping
from typing import Any

from fastapi.openapi.models import Example
from pydantic import TypeAdapter

from service.api.media import ARROW_TABLES, CSV, JSON, NDJSON, NPY, SVMLIGHT
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
    arrow: str = "",
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
        arrow: what the columns of Parquet and Arrow are; "" where the endpoint reads neither.
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
    if arrow:
        text = f"Needs the extra onepass[arrow]. {arrow}"
        binary = {"schema": {"type": "string", "format": "binary", "description": text}}
        content |= dict.fromkeys(ARROW_TABLES, binary)
    return {"requestBody": {"required": True, "content": content}}


def lines_body(kind: type[Body], *answers: type[Body], sent: str, told: str) -> dict[str, Any]:
    """What FastAPI is told of a stream: a body of lines, and an answer of lines.

    Args:
        kind: what a line is.
        answers: what a line of the answer may be.
        sent: an example of the body.
        told: one of the answer.
    """
    _documented.extend((kind, *answers))
    line = REF.format(model=kind.__name__)
    schema = {"type": "string", "description": f"Lines of JSON, each as {line}."}
    names = ", ".join(REF.format(model=answer.__name__) for answer in answers)
    answer = {"type": "string", "description": f"Lines of JSON, each as one of {names}; blank ones keep it open."}
    headers = {
        "Onepass-Durability": {"description": "As in an answer.", "schema": {"type": "string"}},
        "Onepass-Incarnation": {"description": "As in an answer.", "schema": {"type": "string"}},
    }
    return {
        "response_description": "A line for every line, for as long as the client sends",
        "responses": {200: {"content": {NDJSON: {"schema": answer, "example": told}}, "headers": headers}},
        "openapi_extra": {"requestBody": {"required": True, "content": {NDJSON: {"schema": schema, "example": sent}}}},
    }


def documented() -> dict[str, Any]:
    """The schemas that these bodies refer to."""
    adapters = [(kind, "validation", TypeAdapter(kind)) for kind in dict.fromkeys(_documented)]
    _, found = TypeAdapter.json_schemas(adapters, ref_template=REF)  # type: ignore[arg-type]
    schemas: dict[str, Any] = found["$defs"]
    return schemas
