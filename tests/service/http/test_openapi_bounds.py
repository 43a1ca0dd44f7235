"""What the document behind /docs allows is taken, and what it refuses is refused: at the bounds of every field."""

import copy
import itertools
import json

import jsonschema
import pytest

from tests.service.api_fixtures import DFOP, RLS
from tests.service.openapi_document import operations, resolved
from tests.service.route_table import API

ANYTHING = [None, True, 0, 1.5, 2**64, "", "a" * 201, [], [1], {"a": 1}]
"""Values of every kind, tried for every field."""
WRONG = [None, True, "", 2**64]
"""Those tried for fields inside others."""
TRIED_MAX = 3000
"""Longer values are not tried."""
REFUSED = (400, 413, 422)


def edges(schema, document):
    """Values at the bounds of a schema, and just beyond them, or just inside those that exclude themselves."""
    if "$ref" in schema:
        return edges(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    found = [value for kind in schema.get("anyOf", ()) for value in edges(kind, document)]
    whole = schema.get("type") == "integer"
    for name, way in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 1), ("exclusiveMaximum", -1)):
        if name in schema:
            bound = int(schema[name]) if whole else schema[name]
            found += [bound, bound + way * (1 if whole else max(1e-9, abs(bound) * 1e-9))]
    for least, most, of_length in (
        ("minLength", "maxLength", lambda length: "x" * length),
        ("minItems", "maxItems", lambda length: [f"n{at}" for at in range(length)]),
    ):
        for name, way in ((least, -1), (most, 1)):
            if schema.get(name, TRIED_MAX) < TRIED_MAX:
                found += [of_length(schema[name]), of_length(schema[name] + way)]
    items = edges(schema["items"], document) if "items" in schema else []
    return [*found, *([item, "other"] for item in items), *schema.get("enum", ())]


def fields(schema, document):
    """Paths of the fields of a body, and of those inside them, with their schemas."""
    if "$ref" in schema:
        return fields(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    found = []
    for name, part in schema.get("properties", {}).items():
        found.append(((name,), part))
        found += [((name, *path), inner) for path, inner in fields(part, document)]
    if "items" in schema:
        found += [((0, *path), inner) for path, inner in fields(schema["items"], document)]
    return found + [entry for kind in schema.get("anyOf", ()) for entry in fields(kind, document)]


def replaced(body, path, value):
    """A body with another value at a path; None where the path leads nowhere in it."""
    body = at = copy.deepcopy(body)
    for step in path[:-1]:
        if isinstance(at, dict) and at.get(step) is None:
            at[step] = {}
        if isinstance(at, list) and (not isinstance(step, int) or not at):
            return None
        at = at[step]
    if not isinstance(at, dict):
        return None
    at[path[-1]] = value
    return body


async def disagreements(api, document, route, path, body, undo=None):
    """Fields, values and what the service says, where the document says otherwise."""
    schema = operations(document)[route]["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator(resolved(document, schema))
    numbers, seen, found = itertools.count(), set(), []
    for at, part in fields(schema, document):
        for value in [*edges(part, document), *(ANYTHING if len(at) == 1 else WRONG)]:
            sent = replaced(body, at, value)
            if sent is None or json.dumps(sent) in seen:
                continue
            seen.add(json.dumps(sent))
            answer = await api.ask(route.split()[0], path.replace("*", str(next(numbers))), json=sent)
            assert answer.status_code < 500, (sent, answer.text)
            if undo is not None and answer.is_success:
                await api.ask("POST", path, json=undo)
            if (answer.status_code in REFUSED) == validator.is_valid(sent):
                said = answer.json().get("detail", "taken")[:100]
                found.append((".".join(map(str, at)), json.dumps(value)[:40], said))
    return found


ROW = {"a": 0.1, "b": 0.2}
COLUMNS = {"columns": ["a", "b"], "data": [[1, 2], [2, 3]]}
MODEL = {
    "algorithm": "dfop",
    "task": "classification",
    "features": [{"name": "x", "min": 0}, "y"],
    "watch": {"error_rate": {"delta": 0.1}},
}
CLASSES = {**DFOP, "algorithm": "gdfop", "labels": None, "missing": "zero", "watch": None}
NUMBERS = {**RLS, "missing": "zero"}
BEGIN, ABORT = {"action": "begin", "features": ["c"]}, {"action": "abort"}
CASES = [
    ("PUT /models/{name}", None, "/models/bounds-*", MODEL),
    ("PATCH /models/{name}", DFOP, "", {"on_drift": "report", "watch": {"error_rate": {"delta": 0.1}}}),
    ("POST /models/{name}/predict", NUMBERS, "/predict", {"features": ROW}),
    ("POST /models/{name}/feedback", CLASSES, "/feedback", {"features": ROW, "label": "UP"}),
    ("POST /models/{name}/predict/batch", NUMBERS, "/predict/batch", COLUMNS),
    ("POST /models/{name}/predict/batch", NUMBERS, "/predict/batch", {"rows": [{"features": ROW}]}),
    ("POST /models/{name}/feedback/batch", CLASSES, "/feedback/batch", {**COLUMNS, "labels": ["UP", "DOWN"]}),
    ("POST /models/{name}/feedback/batch", CLASSES, "/feedback/batch", {"rows": [{"features": ROW, "label": "UP"}]}),
    ("PUT /models/{name}/challengers/{challenger}", DFOP, "/challengers/c", {"algorithm": "rls"}),
    ("POST /models/{name}/restore", DFOP, "/restore", {"version": 0}),
    ("POST /models/{name}/copy", DFOP, "/copy", {"name": "bounds"}),
    ("POST /models/{name}/features/switch", DFOP, "/features/switch", BEGIN),
    ("POST /models/{name}/features/overlap", DFOP, "/features/overlap", {"features": {**ROW, "c": 1}}),
]
"""Routes, the model that is asked, where (below the model), and a body that is taken."""
BY_MEANING = (
    "is not known", "is not a parameter of", "is only for numeric features", "is not above min",
    "is a declared feature", "is not a label", "is not one of the declared labels", "is too large for a label",
    "is required", "cannot be sent with", "is for ", "is not a feature of this model", "values, 1 expected",
    "items for 2 rows", "lacks features", "exclude features", "excludes features",
)  # fmt: skip
"""Refusals for what a field's schema cannot say: another field, the catalogue, or the model excludes the value."""


@pytest.mark.slow_but("PUT /models/{name}", "POST /models/{name}/feedback*", "POST /models/{name}/features/switch")
@pytest.mark.parametrize(("route", "model", "below", "body"), CASES, ids=[case[0] for case in CASES])
async def test_bodies_at_their_bounds(api, route, model, below, body):
    """A value is refused where the document refuses it, and otherwise only for what it means beside others."""
    path = below if model is None else await api.learnt(model) + below
    if route.endswith("overlap"):
        await api.post(path.replace("overlap", "switch"), BEGIN)
    undo = ABORT if route.endswith("switch") else None
    for field, value, said in await disagreements(api, await api.get("/openapi.json"), route, path, body, undo):
        null = (said, value) == ("taken", "null")  # of a field of another form of the body: as if it were absent
        assert null or any(words in said for words in BY_MEANING), (field, value, said)


TEXTS = ["", "x", "0", "1", "-1", "1.5", "true", "99999999999999999999"]
SKIPPED = set(
    "cursor since names features incarnation search model label id discount weight drop means diagonal totals".split()
)
"""Texts of many forms, which the document does not tell; of a boolean as well."""
MOST = {"sparsity": 2}
"""What the model allows, and no document knows: as many as it has columns."""


async def test_queries_at_their_bounds(start):
    """Numbers and choices of the routes that read; those that several have alike, of the first."""
    api = await start(wait_timeout_s=0.01)
    document = await api.get("/openapi.json")
    path, seen = await api.learnt(RLS), set()
    for route, operation in operations(document).items():
        method, place = route.split()
        if method != "GET" or "x-stream" in operation or place.startswith("/v2"):
            continue
        for query in operation.get("parameters", ()):
            kind = query["name"], json.dumps(query["schema"])
            if query["in"] != "query" or query["name"] in SKIPPED or kind in seen:
                continue
            seen.add(kind)
            numeric = query["schema"].get("type") == "integer"
            for text in [*map(str, edges(query["schema"], document)), *TEXTS]:
                value = int(text) if numeric and text.isdigit() else text
                if numeric and text.isdigit() and value > MOST.get(query["name"], value):
                    continue
                answer = await api.ask("GET", place.replace("/models/{name}", path), params={query["name"]: text})
                allowed = jsonschema.Draft202012Validator(query["schema"]).is_valid(value)
                assert allowed == (answer.status_code != 422), (route, query["name"], text, answer.text[:200])
    assert {"min_version", "consistency", "limit", "sort", "sparsity"} <= {name for name, _ in seen}


async def test_a_parameter_that_may_not_be_empty_says_so(api):
    """An empty query or header is refused by name only where its schema has a least length."""
    document, tried, wrong = api.app.openapi(), 0, []
    for route, row in API.items():
        method, path = route.split(" ", 1)
        if row.endless or route not in operations(document):
            continue
        for parameter in operations(document)[route].get("parameters", ()):
            name, where = parameter["name"], parameter["in"]
            schema = jsonschema.Draft202012Validator(resolved(document, parameter["schema"]))
            if where == "path" or not schema.is_valid("x" * 20):
                continue  # no text
            model = (await api.learnt()).removeprefix("/models/") if "{name}" in path else ""
            request = row.request()
            request["headers"] |= {name: ""} if where == "header" else {}
            query = {name: ""} if where == "query" else {}
            answer = await api.ask(method, path.replace("{name}", model), params=query, **request)
            refused = answer.status_code in REFUSED and name in str(answer.json().get("errors"))
            tried += 1
            if refused and schema.is_valid(""):
                wrong.append((route, name, answer.status_code))
    assert [] == wrong
    assert 30 < tried
