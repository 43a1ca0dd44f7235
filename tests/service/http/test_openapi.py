"""The document behind /docs: complete, sound, and every example of it works, in the order of a story."""

import json
import re

import httpx
import jsonschema
import numpy as np
import pytest

from service.api.http.route import PROBED
from service.api.routes import ROUTES
from tests.service.api_fixtures import DFOP, NPY, RLS, STATE, npy, problem
from tests.service.openapi_document import operations, resolved, walk
from tests.service.route_table import API, filled, id_of


async def test_every_route_is_described(document):
    """And nothing else: summary, operation id, tag, answers."""
    found = operations(document)
    assert {f"{route.method} {route.path}" for route in ROUTES} == set(found)
    identifiers = [operation["operationId"] for operation in found.values()]
    assert len(set(identifiers)) == len(identifiers)
    known = {tag["name"] for tag in document["tags"]}
    for route, operation in found.items():
        assert operation["summary"], route
        assert known >= set(operation["tags"]), route
        assert [code for code in operation["responses"] if code.startswith("2")], route
        declared = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert set(re.findall(r"{(\w+)}", route)) == declared, route


async def test_every_reference_leads_somewhere(document):
    """No $ref hangs in the air, and every schema is one."""
    references = [part["$ref"] for part in walk(document) if isinstance(part, dict) and "$ref" in part]
    assert references
    for reference in references:
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_every_body_has_an_example_that_fits_its_schema(document):
    """Every route that reads JSON shows a body that its schema takes; none takes null."""
    count = 0
    for route, operation in operations(document).items():
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            if kind == "application/json":
                count += 1
                with pytest.raises(jsonschema.ValidationError):
                    jsonschema.validate(None, resolved(document, content["schema"]))
                for example in content["examples"].values():
                    assert example["summary"], route
                    jsonschema.validate(example["value"], resolved(document, content["schema"]))
            elif content["schema"].get("format") == "binary":
                assert content["schema"]["description"], (route, kind)
                assert "npy" not in kind or "numpy.save" in operation["description"], route  # all that Swagger UI shows
            else:
                assert content["example"], (route, kind)
    assert 17 == count


async def test_every_success_says_what_has_happened(document):
    """More than the name of the route, and with an answer to look at, unless it is a file."""
    for route, operation in operations(document).items():
        for code, answer in operation["responses"].items():
            if code < "300":
                assert answer["description"] != operation["summary"], route
                for kind, content in answer.get("content", {}).items():
                    if kind == "application/json":
                        jsonschema.validate(
                            shown(document, content["schema"], route), resolved(document, content["schema"])
                        )
                    else:
                        assert "example" in content or content["schema"].get("format") == "binary", route


OF_SOME_TASKS = {"paired", "served", "due_rows"}
"""Fields of answers that the model of the examples, a plain classifier, does not have."""


def shown(document, schema, where):
    """What a page shows of a schema: the examples of its fields; every text and number has to have one."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return shown(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], where)
    if "enum" in schema or schema.get("type") == "boolean":
        return schema.get("enum", [True])[0]
    if "anyOf" in schema:
        return None if {"type": "null"} in schema["anyOf"] else shown(document, schema["anyOf"][0], where)
    if schema["type"] == "array":
        return [shown(document, schema["items"], where)]
    if "properties" in schema:
        there = {name: part for name, part in schema["properties"].items() if name not in OF_SOME_TASKS}
        return {name: shown(document, part, f"{where} {name}") for name, part in there.items()}
    return pytest.fail(f"{where} has no example: {schema}")


async def test_the_examples_show_what_there_is(document):
    """Every field of a model to create, and every step of a change of features."""
    found = operations(document)

    def values(route):
        examples = found[route]["requestBody"]["content"]["application/json"]["examples"].values()
        return [example["value"] for example in examples]

    shown = {field for value in values("PUT /models/{name}") for field in value}
    assert shown == set(document["components"]["schemas"]["ModelBody"]["properties"])
    steps = {value["action"] for value in values("POST /models/{name}/features/switch")}
    assert {"begin", "abort", "complete"} == steps


async def test_errors_are_described_once(document):
    """Every operation refers to shared answers, each a problem document of the status it stands for."""
    shared = document["components"]["responses"]
    used = set()
    for route, operation in operations(document).items():
        for code, answer in operation["responses"].items():
            if code < "400" or route == "GET /readyz":  # whose 503 is an answer
                continue
            assert {"$ref"} == set(answer), route
            name = answer["$ref"].rpartition("/")[2]
            used.add(name)
            (content,) = shared[name]["content"].values()
            assert int(code) == content["example"].get("status", int(code)), (route, code)
            assert ("error" in content["example"]) == route.partition(" ")[2].startswith("/v2"), route
            jsonschema.validate(content["example"], resolved(document, content["schema"]))
    assert set(shared) == used


async def test_every_error_a_route_gives_is_described(document):
    """What needs a key says 401, 403 and 429; what has a name says 404; what reads a body says why it would not."""
    found = operations(document)
    for route in ROUTES:
        codes = set(found[f"{route.method} {route.path}"]["responses"])
        expected = set() if route.scope == "public" else {"401", "403", "429"}
        if "{name}" in route.path or route.path == "/drift/stream":
            expected |= {"404", "503"}
        if "requestBody" in found[f"{route.method} {route.path}"]:
            expected |= {"400", "413", "415", "422", "409"} if "{name}" in route.path else {"400", "413", "415", "422"}
        assert expected <= codes, id_of(route)


async def test_headers_that_clients_act_on_are_described(api, document):
    """Tags wherever there is 304, how long to wait wherever there is 429 or 503; and what every answer has."""
    path = await api.learnt(DFOP)
    for route, operation in operations(document).items():
        taken = {parameter["name"] for parameter in operation.get("parameters", ())}
        assert ("If-None-Match" in taken) == ("304" in operation["responses"]), route
        always = {"X-Request-ID", "X-Onepass-Model"} if "{name}" in route else {"X-Request-ID"}
        for answer in operation["responses"].values():
            assert "$ref" in answer or always == set(answer["headers"]) & {"X-Request-ID", "X-Onepass-Model"}, route
        if "If-None-Match" in taken or route == "GET /models/{name}/state":
            sent = (await api.ask("GET", route.split()[1].replace("/models/{name}", path))).headers
            assert {*operation["responses"]["200"]["headers"]} - always in ({"ETag"}, {"Content-Disposition"}), route
            assert all(name in sent for name in operation["responses"]["200"]["headers"]), route
    for name, answer in document["components"]["responses"].items():
        waits = name.endswith(("TooManyRequests", "ServiceUnavailable"))
        assert waits == ("Retry-After" in answer["headers"]), name
        assert name.endswith("Unauthorized") == ("WWW-Authenticate" in answer["headers"]), name
        assert "X-Request-ID" in answer["headers"], name


async def test_texts_shown_as_they_are_have_no_markup(document):
    """/docs shows what an error means as plain text."""
    for name, answer in document["components"]["responses"].items():
        assert "`" not in answer["description"], name


@pytest.mark.parametrize(
    ("body", "encoding", "code"), [(b"{}", "gzip", 400), (b"{}", "br", 415), (b"0" * (2**20 + 1), "identity", 413)]
)
async def test_a_body_that_need_not_be_there_is_refused_as_described(start, document, body, encoding, code):
    """One that is not what its encoding says, one that cannot be read, and one that is too large."""
    api = await start(BODY_LIMIT_MB=1)
    path = await api.new()
    for route in ("/snapshots", "/reset"):
        answer = await api.ask("POST", f"{path}{route}", content=body, headers={"Content-Encoding": encoding})
        problem(answer, code)
        assert str(code) in document["paths"][f"/models/{{name}}{route}"]["post"]["responses"]


async def test_an_unknown_query_is_refused_as_described(api, document):
    """By every route, except those whose callers may add queries of their own."""
    name = (await api.new()).rpartition("/")[2]
    for route, row in API.items():
        method, path = route.split()
        answer = await api.ask(method, filled(path, name), params={"unknown": "1"}, **row.request())
        refused = 422 == answer.status_code and "is not a parameter of this route" in answer.text
        assert (path not in PROBED) == refused == ("422" in operations(document)[route]["responses"]), route


async def test_keys_are_described_where_they_are_in_force(start, document):
    """As bearer and as X-API-Key; public routes ask for none, and nor does a service without keys."""
    assert "securitySchemes" not in document["components"]
    assert "security" not in document
    assert all("security" not in operation for operation in operations(document).values())
    locked = await (await start(api_keys="ops:secret:admin")).get("/openapi.json")
    schemes = locked["components"]["securitySchemes"]
    assert {("http", "bearer"), ("apiKey", "X-API-Key")} == {
        (scheme["type"], scheme.get("name", scheme.get("scheme"))) for scheme in schemes.values()
    }
    assert [{name: []} for name in schemes] == locked["security"]
    for route, operation in operations(locked).items():
        public = [found.scope for found in ROUTES if id_of(found) == route] == ["public"]
        assert public == (operation.get("security") == []), route


async def test_streams_are_marked(document):
    """Those whose answer has no end of its own, and no others; each says so first."""
    for route, operation in operations(document).items():
        kinds = {kind for answer in operation["responses"].values() for kind in answer.get("content", {})}
        endless = bool(kinds & {"text/event-stream", "application/x-ndjson"})
        assert endless == ("x-stream" in operation) == operation.get("description", "").startswith("A stream,"), route


async def test_examples_of_models_show_what_is_answered(api, document):
    """Of a model like ``demo`` after some rows: the same fields, down to the last, and as many learned rows as rows."""
    path = await api.learnt(DFOP, rows=18)
    for route in ("GET /models/{name}", "GET /models/{name}/metrics"):
        answer = operations(document)[route]["responses"]["200"]["content"]["application/json"]["schema"]
        example, real = shown(document, answer, route), await api.get(route.split()[1].replace("/models/{name}", path))
        assert names(real) == names(example)
        assert example["rows"] == example.get("metrics", example)["window"]["rows"]


async def test_a_configuration_is_answered_as_it_is_sent(api, document):
    """Whatever the algorithm, a model and a challenger fit their schemas, which know every field."""
    model, challenger = (resolved(document, document["components"]["schemas"][of]) for of in ("Model", "PutChallenger"))
    for entry in (await api.get("/algorithms"))["algorithms"]:
        body = {"algorithm": entry["id"], "task": entry["tasks"][0]}
        shown = await api.get(path := await api.new(body))
        jsonschema.validate(shown, model)
        assert not jsonschema.Draft202012Validator(model).is_valid({**shown, "config": {"colour": 1}})
        if entry["id"] != "observer":
            added = await api.ask("PUT", f"{path}/challengers/other", json=body)
            jsonschema.validate(added.json(), challenger)


def names(value):
    """The names in an object, and in those inside it."""
    if isinstance(value, dict):
        return {name: names(part) for name, part in value.items()}
    return [names(part) for part in value[:1]] if isinstance(value, list) else None


SWITCH = "POST /models/{name}/features/switch"


def steps(document, every):
    """Route, name of the example and request, in the order of /docs: of each route the first example, or every one."""
    found = [
        (route, *request)
        for tag in document["tags"]
        for route, operation in operations(document).items()
        if [tag["name"]] == operation["tags"] and "x-stream" not in operation
        for request in requests(operation)[: None if every else 1]
    ]
    if (
        every
    ):  # the change that was aborted begins again, for overlap rows; the reset ends it, and a last one is complete
        begin, complete = (next(step for step in found if step[:2] == (SWITCH, name)) for name in ("begin", "complete"))
        found[found.index(complete)] = begin
        end = next(at for at, step in enumerate(found) if step[0] == "DELETE /models/{name}")
        found[end:end] = [begin, complete]
    return found


@pytest.mark.parametrize("every", [False, True], ids=["the first of each route", "every one"])
async def test_examples_work_in_the_order_of_the_page(start, document, every):
    """From an empty service, with the documented bodies; answers have the documented status and shape."""
    fresh, state = await start(), b""
    for model in (await fresh.get("/models"))["models"]:  # the tests of this module share a store
        assert 204 == (await fresh.ask("DELETE", f"/models/{model['name']}")).status_code
    for route, named, request in steps(document, every):
        how = dict(request)
        operation, (method, path) = operations(document)[route], route.split()
        if named == "mail" or (named and route == "PUT /models/{name}"):
            path = path.replace("{name}", named)
        if every and "{version}" in path:  # its example says the version that it has where each route was asked once
            path = path.replace("{version}", str((await fresh.get("/models/demo"))["version"]))
        if every and route == "POST /models/{name}/restore":  # likewise
            kept = (await fresh.get("/models/demo/snapshots"))["snapshots"]
            how["content"] = json.dumps({"version": kept[0]["version"]})
        if route == "PUT /models/{name}/state":
            how["content"] = state
        for name in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{name}}}", example_of(operation, name))
        answer = await fresh.ask(method, path, **how)
        assert answer.status_code < 300, (route, named, how, answer.text)
        fits(document, answer, operation["responses"][str(answer.status_code)], route)
        if route == "GET /models/{name}/state":
            state = answer.content
    problem(await fresh.ask("GET", "/models/demo"), 404)


def example_of(operation, name):
    """The value of a parameter's example, which bears the example's name."""
    found = [p for p in operation.get("parameters", ()) if p["name"] == name]
    if not found:
        return ""
    ((named, example),) = found[0]["examples"].items()
    assert named == example["value"]
    return named


def requests(operation):
    """Each documented body of an operation: its example's name and the request; a state is filled in later."""
    contents = operation.get("requestBody", {}).get("content", {})
    if not contents:
        return [("", {})]
    found = []
    for kind, content in contents.items():
        headers = {"Content-Type": kind}
        if kind == "application/json":
            for name, example in content["examples"].items():
                found.append((name, {"content": json.dumps(example["value"]), "headers": headers}))
        elif kind == "text/csv":
            found.append(("", {"content": content["example"], "headers": headers, "params": of_csv(operation)}))
        elif kind == "application/x-ndjson":
            found.append(("", {"content": content["example"], "headers": headers}))
        elif kind == "text/x-svmlight":
            found.append(("mail", {"content": content["example"], "headers": headers}))
        elif kind in STATE.values() and operation["operationId"] == "import_state":
            found.append(("", {"headers": headers}))
    return found


def of_csv(operation):
    """The query parameters that the CSV example goes with."""
    columns = [p for p in operation["parameters"] if p["in"] == "query" and "examples" in p]
    assert {""} >= {p["examples"]["none"].get("value", "") for p in columns}
    return {p["name"]: p["examples"]["csv"]["value"] for p in columns}


async def test_arrays_are_made_as_described(api, document):
    """An .npy file by the recipe of each route, of a model whose labels are numbers."""
    path = await api.new(RLS)
    await api.post(f"{path}/features/switch", {"action": "begin", "features": ["c"]})
    for route, operation in operations(document).items():
        described = operation.get("requestBody", {}).get("content", {}).get("application/x-npy")
        if described is not None:
            assert "numpy.save" in described["schema"]["description"]
            width = 2 if "/predict" in route else 4 if "/feedback" in route else 3
            url = route.split()[1].replace("/models/{name}", path)
            await api.post(url, content=npy(np.ones((5, width))), headers=NPY)


def fits(document, answer: httpx.Response, described, route):
    """An answer is of the documented media type and shape."""
    if answer.status_code == 204:
        assert b"" == answer.content
        return
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in described["content"], route
    schema = described["content"][kind]["schema"]
    if kind == "application/json":
        jsonschema.validate(answer.json(), resolved(document, schema))
