"""What /openapi.json says of every route: parameters, bodies with examples, answers with examples, errors.

The examples are one story that can be clicked through in Swagger UI from an empty service: create ``demo``, predict,
send labels, look at the metrics.
"""

from http import HTTPStatus
from typing import Any

from service.api.openapi.answers import ANSWER, PROBLEM
from service.api.openapi.components import components
from service.api.openapi.examples import BODY, COLUMN, NPY, SVMLIGHT, SVMLIGHT_ROUTES, TABLES

TITLE = "Onepass"
INTRO = """
Answers predictions and learns from every label it is sent, one row at a time, in one pass, while the data drift.

**Try it, top to bottom.** `PUT /models/demo` creates a model; `POST /models/demo/feedback` sends a labelled row (it is
first predicted, then learned); `POST /models/demo/predict` asks; `GET /models/demo/metrics` shows how good the answers
were, beside the honest baselines. The examples work as they stand, those called `mail` for a model of that name that
the example `mail` has made (named sparse rows). Only a restore wants a version that `GET /models/demo/snapshots`
lists, and an import a file that was exported.

Errors are `application/problem+json` and name the field. Feedback with an `id` may be sent again safely.
"""
TAGS = [
    {"name": "one row", "description": "Create a model, then the test-then-train loop."},
    {"name": "batches", "description": "Rows in order, each tested, then trained."},
    {"name": "models", "description": "How a model is doing."},
    {"name": "drift", "description": "When the world has changed: events, listed and live."},
    {"name": "features", "description": "A change of features: both sets for a while, then the new one."},
    {"name": "state", "description": "Snapshots, export and import, reset."},
    {"name": "deletion", "description": "The end of a model."},
    {"name": "service", "description": "The catalogue, health and metrics."},
]
SUMMARY = {
    "GET /healthz": "Alive",
    "GET /readyz": "Ready",
    "GET /metrics": "Prometheus metrics",
    "GET /algorithms": "The catalogue of algorithms",
    "GET /models": "List models",
    "PUT /models/{name}": "Create a model",
    "GET /models/{name}": "Show a model",
    "DELETE /models/{name}": "Delete a model",
    "POST /models/{name}/predict": "Predict one row",
    "POST /models/{name}/feedback": "Learn one labelled row",
    "POST /models/{name}/predict/batch": "Predict many rows",
    "POST /models/{name}/feedback/batch": "Learn many labelled rows",
    "GET /models/{name}/metrics": "Prequential metrics",
    "GET /models/{name}/drift": "Drift events of a model",
    "GET /drift": "Drift events of all models",
    "GET /drift/stream": "Drift events, live",
    "GET /models/{name}/weights": "Weights of a linear model",
    "GET /models/{name}/features": "Where a change of features stands",
    "POST /models/{name}/features/switch": "Begin, complete or abort a change of features",
    "POST /models/{name}/features/overlap": "Unlabelled rows with both sets of features",
    "GET /models/{name}/pending": "Tracked predictions that wait for labels",
    "POST /models/{name}/reset": "Back to the first state",
    "GET /models/{name}/snapshots": "List snapshots",
    "POST /models/{name}/snapshots": "Take a snapshot now",
    "POST /models/{name}/restore": "Back to a snapshot",
    "GET /models/{name}/state": "Export the state",
    "PUT /models/{name}/state": "Import a state",
}
TEXT = {
    "GET /readyz": (
        "503 while the store does not answer or a background task is down. `durability` is what the store was "
        "found to do: `always`, `everysec`, `none`, or `unknown` where it may not be asked."
    ),
    "PUT /models/{name}": (
        "Only `algorithm` is needed, and `task` where the algorithm has several. Features left out are fixed by "
        "the first feedback row; labels left out appear as they come. The same body again is 200, another one 409."
    ),
    "POST /models/{name}/predict": (
        "Changes nothing. With `track` the row is kept under a `prediction_id` until its label comes; that needs "
        "the scope `learn`. With `explain` a linear model says what each feature contributed; VIGO, which is "
        "generative, says the density of the row in each class and how ambiguous it is; its prediction need not be its "
        "most probable class, since the label is decided by the point density and the probabilities by the Student-t, "
        "which is wider for a class of few rows. A model of named sparse rows (`sparse_dfop`) takes any names; one "
        "left out is 0."
    ),
    "POST /models/{name}/feedback": (
        "Answers what the model said *before* it learned the row. `id`, `prediction_id` and the header "
        "`Idempotency-Key` exclude each other; sent again within a day the row is learned once and answered with "
        "the first answer and `duplicate: true`; with another label it is 409."
    ),
    "POST /models/{name}/feedback/batch": (
        "Also `text/csv` with a header (name the columns: `?label=`, `?id=`, `?discount=`) and `application/x-npy`, a "
        "file of `numpy.save` (float64, columns in schema order, the label, a number, last). `metrics` are those of "
        "this batch. Models of sparse rows "
        'take `{"rows": [{"names": [...], "values": [...]}], "labels": [...]}` and `text/x-svmlight` '
        "(`label name:value ...`)."
    ),
    "POST /models/{name}/predict/batch": (
        "Also `text/csv` with a header and `application/x-npy`, a file of `numpy.save` (float64, columns in schema "
        "order). Models of "
        'sparse rows take `{"rows": [{"names": [...], "values": [...]}]}` and `text/x-svmlight`, whose labels '
        "do not count."
    ),
    "GET /models/{name}/metrics": (
        "Every prediction is made before its row is learned. `no_change` repeats the last label, `majority` says "
        "the most frequent one (`last_value` for regression). `log_loss` is over the rows whose label had been seen "
        "before; the first row of a class has no probability to score."
    ),
    "GET /models/{name}/drift": (
        "Oldest first. Every alarm up to the answer's `version` is among them: who was just answered here, or "
        "sends `min_version`, sees what his rows have raised. The newest are kept (`ONEPASS_DRIFT_EVENTS_MAX`). One "
        "drift may raise several: every class and both tests speak for themselves, and a slow drift goes on."
    ),
    "GET /drift": (
        "Of every model the key may touch, in the order in which they became known; a model's own are in order. They "
        "stay when the model is deleted. The newest are kept (`ONEPASS_DRIFT_EVENTS_ALL_MAX`)."
    ),
    "GET /drift/stream": (
        "Server-sent events: `start` where the stream begins, `drift` with an event as GET /drift shows it, `gap` "
        '(`{"after", "first", "missed"}`) where events that should follow are no longer kept. The `id` of each is a '
        "position; sent as `Last-Event-ID` (browsers do by themselves) it resumes behind it, at any replica, and so "
        "does the id inside an event. A comment comes where nothing else does for 15 s. One that does not keep up is "
        "dropped and may come back. *Try it out* waits for the end of the stream: use `curl -N` instead."
    ),
    "GET /models/{name}/weights": (
        "`names` picks columns, `sparsity` the largest of each output. Of a model of named sparse rows the weights are "
        "recovered from those of their projection over the `names` given (required; a URL holds 64 KB); `residual` "
        "is the share of the model that they leave unexplained. What cannot be recovered is 422."
    ),
    "GET /models/{name}/features": (
        "After a change the experts `recovered` (the old model, on old features recovered from the new ones), `new` "
        "(trained on the new features in the overlap) and, of linear models, `carried` (a copy of the old one in the "
        "new features) speak together until the next change is complete, each weighed by how well it does."
    ),
    "POST /models/{name}/features/switch": (
        "`begin` declares the whole new space. From then on feedback carries the features of both spaces, predictions "
        "need the old ones (new ones are passed over), and the mapping between them is learned. After `complete` only "
        "the new features are sent: the old model goes on, on recovered features, beside new ones, and each is weighed "
        "by how well it does. `abort` goes back as if nothing had been. Names in both spaces are kept. Any number of "
        "changes, one at a time. "
        "`id` or Idempotency-Key make a retry safe."
    ),
    "POST /models/{name}/features/overlap": (
        "Teaches how old features are recovered from new ones, and nothing else. One row by name, or several by "
        "column; also `text/csv` with a header (`?id=`) and `application/x-npy`, a file of `numpy.save` (float64, old "
        "features in their order, then the new names). Every name of both spaces has to be there."
    ),
    "POST /models/{name}/reset": (
        "Rows and metrics start at 0; the version goes on, ids stay seen. After a change of features the new ones stay."
    ),
    "GET /models/{name}": (
        "`config` stays what was created, with every default; which features are in force after a change of them "
        "says GET .../features."
    ),
    "POST /models/{name}/restore": ("An entry that embeds the state: the version goes on."),
    "PUT /models/{name}/state": (
        "Everything is checked before anything changes. A model that does not exist is created with the "
        "configuration that the state carries."
    ),
}
SAME = "It exists already, with the same configuration; nothing has changed"
MEDIA = {
    "GET /metrics": "text/plain",
    "GET /drift/stream": "text/event-stream",
    "GET /models/{name}/state": "application/octet-stream",
}
"""Media types of answers that are not JSON."""
ERRORS = {
    400: "The body is not JSON, or not UTF-8",
    401: "No key, or an unknown one",
    403: "The key's scopes or models do not allow it",
    404: "Unknown model, prediction id or snapshot version",
    409: "In conflict with the model's state, or the same id with another label",
    413: "The body or the batch is too large",
    415: "A media type this route does not read",
    422: "Semantically wrong; the fields are named",
    429: "Over the key's rate",
    503: "A queue is full or the store is down; Retry-After says when to try again",
    504: "min_version was not reached in time",
}


def tag(method: str, path: str) -> str:
    """The group a route is listed under."""
    last = path.rpartition("/")[2]
    if path.endswith("/batch"):
        return "batches"
    if "/drift" in path:
        return "drift"
    if last in ("predict", "feedback", "pending") or (method, path) == ("PUT", "/models/{name}"):
        return "one row"
    if method == "DELETE":
        return "deletion"
    if "/features" in path:
        return "features"
    if last in ("reset", "snapshots", "restore", "state"):
        return "state"
    return "models" if path.startswith("/models") else "service"


def operation(route: str, scope: str) -> dict[str, Any]:
    """The parts of an operation that FastAPI cannot derive from a handler that reads the request itself."""
    found: dict[str, Any] = {"parameters": _parameters(route), "responses": _responses(route, scope)}
    body = _body(route)
    if body:
        found["requestBody"] = {"required": True, "content": body}
    if scope == "public":
        found["security"] = []
    return found


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(route: str) -> dict[str, Any]:
    if route == "PUT /models/{name}/state":
        text = "a file that GET .../state has given."
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary", "description": text}}}
    content: dict[str, Any] = {}
    if route in BODY:
        names, examples = BODY[route]
        schema = _ref(names[0]) if len(names) == 1 else {"anyOf": [_ref(name) for name in names]}
        shown = {name: {"summary": example.summary, "value": example.value} for name, example in examples.items()}
        content["application/json"] = {"schema": schema, "examples": shown}
    if route in TABLES:
        content["text/csv"] = {"schema": {"type": "string"}, "example": TABLES[route]}
    if route in SVMLIGHT_ROUTES:
        content["text/x-svmlight"] = {"schema": {"type": "string"}, "example": SVMLIGHT}
    if route in NPY:
        text = f'a file of numpy.save("rows.npy", X), X float64 of shape (rows, columns): {NPY[route]}.'
        content["application/x-npy"] = {"schema": {"type": "string", "format": "binary", "description": text}}
    return content


def _parameters(route: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    method, path = route.split()
    if "{name}" in path:
        schema = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
        found.append({"name": "name", "in": "path", "required": True, "schema": schema, "example": "demo"})
    read = (method == "GET" and "{name}" in path) or "/predict" in path
    if read:
        found += [
            _query("min_version", {"type": "integer", "minimum": 0}, "Wait until the model has this version."),
            _query("consistency", {"enum": ["eventual", "strong"]}, "strong: read the head of the log first."),
            _query("incarnation", {"type": "string"}, "The incarnation that min_version is of; another one is 409."),
        ]
    if route in {"GET /models", "GET /drift"}:
        text = "strong: read the heads of the logs first." if path == "/models" else "Always strong: the store is read."
        found.append(_query("consistency", {"enum": ["eventual", "strong"]}, text))
    if path in ("/models", "/models/{name}/pending", "/models/{name}/drift", "/drift"):
        limit = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
        found += [
            _query("limit", limit, "Most items in the answer."),
            _query("cursor", {"type": "string"}, "The `next` of the page before."),
        ]
    found += _drift(path)
    if path.endswith("/weights"):
        found += [
            _query("names", {"type": "string"}, "Columns, or names of sparse rows, separated by commas."),
            _query("sparsity", {"type": "integer", "minimum": 1}, "Only the largest weights of each output."),
        ]
    if path.endswith("/feedback/batch"):
        found += [_column(name) for name in ("label", "id", "discount")]
    if path.endswith("/overlap"):
        found.append(_column("id"))
    if "/feedback" in path or "/features/" in path:
        text = "Your own id of this request; sent again within a day it is learned or done once."
        found.append({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}, "description": text})
    return found


def _drift(path: str) -> list[dict[str, Any]]:
    times = "a time (`2026-01-31T12:00:00Z`), and events at or after it"
    if path == "/models/{name}/drift":
        text = (
            "A whole number is a version, and events after it are shown; one of 10^12 or more that the model has not "
            f"reached is a time in ms since 1970. Else {times}."
        )
        return [_query("since", {"type": "string"}, text)]
    if path == "/drift":
        text = f"A whole number is a time in ms since 1970; else {times}. What counts is the event's `time`."
        return [_query("since", {"type": "string"}, text)]
    if path != "/drift/stream":
        return []
    text = (
        "The last `id` that was received, or the id inside an event; what follows it is sent first. A position that is "
        "yet to come is answered by `start`."
    )
    header = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}, "description": text}
    return [_query("model", {"type": "string"}, "Only the events of this model, which has to exist."), header]


def queries(route: str) -> tuple[str, ...]:
    """Names of the query parameters a route knows."""
    return tuple(parameter["name"] for parameter in _parameters(route) if parameter["in"] == "query")


def _column(name: str) -> dict[str, Any]:
    """A query parameter that names a column of CSV; where there is an example, none is sent with other media types."""
    found = _query(name, {"type": "string"}, f"text/csv only: the column of the {name}.")
    if name in COLUMN:
        found["examples"] = {
            "none": {"summary": "application/json and the others: none", "value": ""},
            "csv": {"summary": "text/csv: the column", "value": COLUMN[name]},
        }
    return found


def _query(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}


def _responses(route: str, scope: str) -> dict[str, Any]:
    answer = ANSWER[route]
    fine: dict[str, Any] = {"description": answer.says}
    kind = MEDIA.get(route, "application/json")
    if answer.status != 204:
        plain = {"type": "object" if kind == "application/json" else "string"}
        content: dict[str, Any] = {"schema": _ref(answer.schema) if answer.schema else plain}
        if answer.example is not None:
            content["example"] = answer.example
        else:
            plain["format"] = "binary"
        fine["content"] = {kind: content}
    found = {str(answer.status): fine}
    if route == "PUT /models/{name}":
        found["200"] = {**_responses("GET /models/{name}", scope)["200"], "description": SAME}
    if route == "PUT /models/{name}/state":
        found["201"] = {**fine, "description": "The model did not exist and was created from the state"}
    for code in _errors(route, scope):
        content = {"application/problem+json": {"schema": _ref("ProblemDocument"), "example": _example(code)}}
        found[str(code)] = {"description": ERRORS[code], "content": content}
    return found


def _example(code: int) -> dict[str, Any]:
    if code == 422:
        return PROBLEM
    slugs = {400: "not-json", 401: "unauthorized", 403: "forbidden", 404: "not-found", 409: "clash", 413: "too-large"}
    slugs |= {415: "wrong-media", 429: "too-many-requests", 503: "store-down", 504: "not-reached"}
    return {
        "type": f"urn:onepass:problem:{slugs[code]}",
        "title": HTTPStatus(code).phrase,
        "status": code,
        "detail": ERRORS[code],
        "errors": [],
    }


def _errors(route: str, scope: str) -> list[int]:
    if scope == "public":
        return [503] if "readyz" in route else []
    method, path = route.split()
    codes = {401, 403, 429}
    if method in ("PUT", "POST") and _body(route):
        codes |= {400, 413, 415, 422}
    if "{name}" in path:
        codes |= {404, 503}
        if method != "DELETE":
            codes |= {409, 422}
    if any(parameter["name"] == "min_version" for parameter in _parameters(route)):
        codes.add(504)
    if path in ("/models", "/drift", "/drift/stream"):
        codes |= {422, 503}
    if path == "/drift/stream":
        codes.add(404)
    return sorted(codes)


def schema(document: dict[str, Any]) -> dict[str, Any]:
    """Complete FastAPI's document: component schemas, keys, and no validation schemas that nothing uses."""
    document["components"] = {
        "schemas": components(),
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        },
    }
    document["security"] = [{}, {"bearer": []}, {"key": []}]
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            # FastAPI leaves the nulls of examples out, and adds a 200 to every route.
            scope = "public" if found.get("security") == [] else ""
            found["responses"] = _responses(f"{method.upper()} {path}", scope)
    return document
