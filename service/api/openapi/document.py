"""/openapi.json: what FastAPI derives from the routes, plus keys, raw bodies and shared error answers."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.models import Example
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field, TypeAdapter

from core.problems import FILLED
from service.api.http.media import CSV, JSON, NDJSON, NPY, SVMLIGHT
from service.api.http.problems import MEDIA
from service.api.http.route import PROBED, Route
from service.api.openapi import examples
from service.api.schemas import Body

TITLE = "Onepass"
INTRO = """
A prediction service that learns from every label, one row at a time, while the data drift and the feature set changes.
The [guide](guide) explains it in ten short pages.

**Try it, top to bottom.** `PUT /models/demo` creates a model; `POST /models/demo/feedback` sends a labelled row, which
is first predicted, then learned; `POST /models/demo/predict` predicts; `GET /models/demo/metrics` compares the
predictions with simple baselines. The first example of each request works as it is if you execute each once, in the
order of this page; only the import needs a file, which comes from the export before it. Examples called `mail` need a
model of that name, created from the example `mail` (named sparse rows).

Errors are `application/problem+json` and name the field; their `type` is the address of a [page](problems) that says
what to do. Feedback with an `id` can safely be sent again. Every body may be sent with `Content-Encoding: gzip`.
"""
TAGS = [
    {"name": "one row", "description": "Create a model, then the test-then-train loop."},
    {"name": "batches", "description": "Several rows, each predicted, then learned, in order."},
    {"name": "models", "description": "Models, their metrics and their weights."},
    {"name": "challengers", "description": "Learners that compete with a model's own on every row."},
    {"name": "drift", "description": "Changes in the data: events, listed and live."},
    {"name": "features", "description": "A change of features: both sets for a while, then only the new one."},
    {"name": "state", "description": "Snapshots, export and import, reset."},
    {
        "name": "open inference protocol",
        "description": "The same predictions for clients of KServe, Triton and MLServer.",
    },
    {"name": "deletion", "description": "Delete a challenger, and a model."},
    {"name": "service", "description": "Algorithms, health and metrics."},
]
ERRORS = {
    400: ("not-json", "The body does not match its media type or content encoding, or is not UTF-8"),
    401: ("unauthorized", "No key, or an unknown one"),
    403: ("forbidden", "The key's scopes or models do not allow it"),
    404: ("not-found", "Unknown model, prediction id or snapshot version"),
    408: ("too-late", "The body arrived too slowly"),
    409: ("clash", "Conflicts with the model's state, or repeats an id with a different label"),
    413: ("too-large", "The body, the batch or the answer is too large"),
    415: ("wrong-media", "A media type or content encoding that this route does not accept"),
    422: ("invalid", "Invalid values; the errors name the fields"),
    429: ("too-many-requests", "Over the key's rate limit"),
    503: ("store-down", "A queue is full, or the store is full or down; Retry-After says when to try again"),
    504: ("not-reached", "min_version, or the head of the log, was not reached in time"),
}


class FieldProblem(BaseModel):
    """One problem with one field."""

    field: str
    problem: str
    allowed: Any


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    version: int | None = Field(None, description="504: the version that was reached.")
    errors: list[FieldProblem]


class InferenceError(BaseModel):
    """An error of the Open Inference Protocol."""

    error: str


SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
"""The two ways to send a key."""
WAIT = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "The number of seconds to wait."}}
HEADERS = {
    "X-Request-ID": "The id of the request, as in the service's log: the one that the client sent, or a new one.",
    "X-Onepass-Model": "The name of the model.",
    "WWW-Authenticate": "`Bearer`: how to send a key; `X-API-Key` will do, too.",
}
"""Headers that many answers have, with what they say."""
IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "The `ETag` of an earlier answer: 304 if that is still the answer.",
}
STREAM = "x-stream"  # marks an operation whose answer does not end: Swagger UI would wait for the end
STREAM_NOTE = "A stream, so use `curl -N`: *Try it out* waits for the end of an answer."


def document(app: FastAPI, routes: Iterable[Route], *, keys: bool) -> dict[str, Any]:
    """The document of an app with its routes installed; ``keys``: the service requires keys."""
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        separate_input_output_schemas=False,
    )
    schemas = found["components"]["schemas"] | documented()
    for unused in ("HTTPValidationError", "ValidationError", "Feature"):  # no body or answer refers to these
        schemas.pop(unused, None)
    found["components"] = {
        "headers": {name: {"schema": {"type": "string"}, "description": text} for name, text in HEADERS.items()},
        "schemas": dict(sorted(schemas.items())),
        "responses": {_key(code): _error(code) for code in ERRORS}
        | {_key(code, "Inference"): _inference_error(code) for code in ERRORS},
    }
    if keys:
        found["components"]["securitySchemes"] = SCHEMES
        found["security"] = [{name: []} for name in SCHEMES]
    for route in routes:
        _complete(found["paths"][route.path][route.method.lower()], route, keys=keys)
    return found


def _complete(operation: dict[str, Any], route: Route, *, keys: bool) -> None:
    """Add errors by reference, remove the key from public routes, fix text parameters, and mark streams."""
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    if keys and route.scope == "public":
        operation["security"] = []
    if route.path.endswith("/stream"):
        operation[STREAM] = True
        operation["description"] = f"{STREAM_NOTE}\n\n{operation['description']}"
    sent = _headers(*(["X-Onepass-Model"] if "{name}" in route.path else []))
    fine = {
        code: {**answer, "headers": sent | answer.get("headers", {})}
        for code, answer in operation["responses"].items()
        if code in route.answers
    }
    shared = {
        str(code): {"$ref": f"#/components/responses/{_key(code, route.error_form)}"}
        for code in _errors(operation, route)
    }
    operation["responses"] = fine | shared
    if "304" in fine:
        operation["parameters"].append(IF_NONE_MATCH)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a parameter: it is a text or absent."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return schema if len(kinds) != 1 else {**{k: v for k, v in schema.items() if k != "anyOf"}, **kinds[0]}


def _errors(operation: dict[str, Any], route: Route) -> list[int]:
    codes = set() if route.path in PROBED else {422}  # an unknown query parameter
    if route.scope == "public":
        return sorted(codes | {503}) if route.path == "/v2/health/ready" else [*codes]
    given = {parameter["name"] for parameter in operation.get("parameters", ())}
    codes |= {401, 403, 429}
    if "requestBody" in operation:
        codes |= {400, 408, 413, 415, 503}
    if "name" in given:
        whole = route.method == "DELETE" and "challenger" not in given  # cannot conflict with an earlier request
        codes |= {404, 503} if whole else {404, 409, 503}
    if given - {"name"}:
        codes.add(503)
    change = "Idempotency-Key" in given and "/feedback" not in route.path  # it is planned at the head of the log
    if change or "min_version" in given:
        codes.add(504)
    if given & {"diagonal", "sparsity"}:  # reads whose answers may be too large
        codes.add(413)
    if "model" in given:
        codes.add(404)
    return sorted(codes)


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-ID", *names)}


def _error_headers(code: int) -> dict[str, Any]:
    return _headers(*(["WWW-Authenticate"] if code == 401 else [])) | (WAIT if code in (429, 503) else {})


def _key(code: int, form: str = "") -> str:
    return form + HTTPStatus(code).phrase.replace(" ", "")


def _error(code: int) -> dict[str, Any]:
    slug, text = ERRORS[code]
    example = {
        "type": f"/problems/{slug}",
        "title": HTTPStatus(code).phrase,
        "status": code,
        "detail": text,
        "errors": [],
    }
    if code == 422:
        problem = f"is missing; {FILLED}"
        example["detail"] = f"features.price: {problem}"
        example["errors"] = [{"field": "features.price", "problem": problem, "allowed": None}]
    return {
        "description": text,
        "headers": _error_headers(code),
        "content": {MEDIA: {"schema": {"$ref": REF.format(model="ProblemDocument")}, "example": example}},
    }


def _inference_error(code: int) -> dict[str, Any]:
    _, text = ERRORS[code]
    schema = {"$ref": REF.format(model="InferenceError")}
    headers = _error_headers(code)
    return {"description": text, "headers": headers, "content": {JSON: {"schema": schema, "example": {"error": text}}}}


REF = "#/components/schemas/{model}"
_documented: list[type[Body | BaseModel]] = [ProblemDocument, InferenceError]


def raw_body(
    *kinds: type[Body],
    shown: Mapping[str, Example],
    record: type[Body] | None = None,
    lines: str = "",
    csv: str = "",
    npy: str = "",
    svmlight: bool = False,
) -> dict[str, Any]:
    """The documentation of a body that FastAPI does not read (``openapi_extra``).

    Args:
        kinds: the models that its JSON may follow.
        shown: examples of the JSON.
        record: the model of an item of a JSON list and of a line of NDJSON; None if the endpoint reads neither.
        lines: an example of NDJSON.
        csv: an example of CSV; "" if the endpoint does not read it.
        npy: the meaning of an array's columns; "" if the endpoint does not read arrays.
        svmlight: whether the endpoint reads SVMlight.
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
    """The schemas that these bodies and the errors refer to."""
    adapters = [(kind, "validation", TypeAdapter(kind)) for kind in dict.fromkeys(_documented)]
    _, found = TypeAdapter.json_schemas(adapters, ref_template=REF)  # type: ignore[arg-type]
    schemas: dict[str, Any] = found["$defs"]
    return schemas
