"""/openapi.json as a whole: what FastAPI derives from the routes, with keys, raw bodies and shared error answers."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field, TypeAdapter

from core.problems import FILLED
from service.api.media import JSON
from service.api.openapi.raw_bodies import REF, documented
from service.api.problems import MEDIA
from service.api.route import Route

TITLE = "Onepass"
INTRO = """
A prediction service that learns from every label, one row at a time, while the data drift and the feature set changes.

**Try it, top to bottom.** `PUT /models/demo` creates a model; `POST /models/demo/feedback` sends a labelled row, which
is first predicted, then learned; `POST /models/demo/predict` predicts; `GET /models/demo/metrics` shows how good the
predictions were, beside simple baselines. The examples work as they stand; those called `mail` need a model of that
name, created from the example `mail` (named sparse rows). A restore needs a version that `GET /models/demo/snapshots`
lists, an import a file that was exported.

Errors are `application/problem+json` and name the field. Feedback with an `id` can be sent again safely. Every body but
a stream may be sent with `Content-Encoding: gzip`.
"""
TAGS = [
    {"name": "one row", "description": "Create a model, then the test-then-train loop."},
    {"name": "batches", "description": "Rows in order, each tested, then trained."},
    {"name": "streams of rows", "description": "A line in, a line out, for as long as the client sends."},
    {"name": "models", "description": "Models, their metrics and their weights."},
    {"name": "challengers", "description": "Learners beside a model's own, compared with it on every row."},
    {"name": "drift", "description": "Changes in the data: events, listed and live."},
    {"name": "features", "description": "A change of features: both sets for a while, then the new one."},
    {"name": "state", "description": "Snapshots, export and import, reset."},
    {"name": "deletion", "description": "The end of a model."},
    {
        "name": "open inference protocol",
        "description": "The same predictions for clients of KServe, Triton and MLServer.",
    },
    {"name": "service", "description": "The catalogue, health and metrics."},
]
ERRORS = {
    400: ("not-json", "The body is not what its media type says, or not UTF-8, or not gzip where it is announced so"),
    401: ("unauthorized", "No key, or an unknown one"),
    403: ("forbidden", "The key's scopes or models do not allow it"),
    404: ("not-found", "Unknown model, prediction id or snapshot version"),
    408: ("too-late", "The body did not come in time"),
    409: ("clash", "In conflict with the model's state, or the same id with another label"),
    413: ("too-large", "The body or the batch is too large"),
    415: ("wrong-media", "A media type, or a content encoding, this route does not read"),
    422: ("invalid", "Semantically wrong; the fields are named"),
    429: ("too-many-requests", "Over the key's rate"),
    503: ("store-down", "A queue is full, or the store is full or down; Retry-After says when to try again"),
    504: ("not-reached", "min_version was not reached in time"),
}


class FieldProblem(BaseModel):
    """One thing that is wrong."""

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


def document(app: FastAPI, routes: Iterable[Route]) -> dict[str, Any]:
    """The document.

    Args:
        app: with the routes installed.
        routes: those that are documented.
    """
    found = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        separate_input_output_schemas=False,
    )
    problem = TypeAdapter(ProblemDocument).json_schema(ref_template=REF)
    schemas = {**found["components"]["schemas"], **documented(), **problem.pop("$defs"), "ProblemDocument": problem}
    schemas["InferenceError"] = TypeAdapter(InferenceError).json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own, of errors that nobody gets here
        schemas.pop(unused, None)
    found["components"] = {
        "schemas": dict(sorted(schemas.items())),
        "responses": {_key(code): _error(code) for code in ERRORS}
        | {_key(code, "Inference"): _inference_error(code) for code in ERRORS},
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        },
    }
    found["security"] = [{}, {"bearer": []}, {"key": []}]
    for route in routes:
        _complete(found["paths"][route.path][route.method.lower()], route)
    return found


def _complete(operation: dict[str, Any], route: Route) -> None:
    """Errors by reference, and no key for public routes."""
    if route.scope == "public":
        operation["security"] = []
    fine = {code: answer for code, answer in operation["responses"].items() if code in route.answers}
    shared = {
        str(code): {"$ref": f"#/components/responses/{_key(code, route.error_form)}"}
        for code in _errors(operation, route)
    }
    operation["responses"] = fine | shared


def _errors(operation: dict[str, Any], route: Route) -> list[int]:
    if route.scope == "public":
        return [503] if route.path == "/v2/health/ready" else []
    given = {parameter["name"] for parameter in operation.get("parameters", ())}
    codes = {401, 403, 429, 503} if route.path == "/refill" else {401, 403, 429}
    if "requestBody" in operation:
        codes |= {400, 408, 413, 415, 422, 503}
    if "name" in given:
        codes |= {404, 503} if route.method == "DELETE" else {404, 409, 422, 503}
    if given - {"name"}:
        codes |= {422, 503}
    if "min_version" in given:
        codes.add(504)
    if "model" in given:
        codes.add(404)
    return sorted(codes)


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
        "content": {MEDIA: {"schema": {"$ref": REF.format(model="ProblemDocument")}, "example": example}},
    }


def _inference_error(code: int) -> dict[str, Any]:
    _, text = ERRORS[code]
    schema = {"$ref": REF.format(model="InferenceError")}
    return {"description": text, "content": {JSON: {"schema": schema, "example": {"error": text}}}}
