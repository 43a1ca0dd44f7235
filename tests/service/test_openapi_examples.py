"""Every example behind /docs works: in the order of a story, and from the top of the page to its bottom."""

import json
import re

import httpx
import jsonschema
import numpy as np
import pytest
import pytest_asyncio

from tests.service.api_fixtures import NPY, RLS, STATE, npy, problem
from tests.service.openapi_document import operations, resolved

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORY = [
    "GET /algorithms",
    "PUT /models/{name}",
    "POST /models/{name}/snapshots",
    "GET /models/{name}",
    "GET /models",
    "POST /models/{name}/predict",
    "POST /models/{name}/feedback",
    "POST /models/{name}/predict/batch",
    "POST /models/{name}/feedback/batch",
    "POST /models/{name}/evaluate",
    "GET /v2/models/{name}",
    "GET /v2/models/{name}/versions/{version}",
    "GET /v2/models/{name}/ready",
    "GET /v2/models/{name}/versions/{version}/ready",
    "POST /v2/models/{name}/infer",
    "POST /v2/models/{name}/versions/{version}/infer",
    "GET /models/{name}/metrics",
    "GET /models/{name}/posterior",
    "GET /models/{name}/effects",
    "PATCH /models/{name}",
    "PUT /models/{name}/challengers/{challenger}",
    "POST /models/{name}/feedback/batch#columns",
    "GET /models/{name}/challengers",
    "GET /models/{name}/drift",
    "GET /drift",
    "GET /drift/stream",
    "GET /models/{name}/weights",
    "GET /models/{name}/pending",
    "GET /models/{name}/log",
    "GET /models/{name}/snapshots",
    "POST /models/{name}/restore",
    "GET /models/{name}/state",
    "PUT /models/{name}/state",
    "POST /models/{name}/copy",
    "GET /models/{name}/features",
    "POST /models/{name}/features/switch#begin",
    "POST /models/{name}/features/overlap",
    "POST /models/{name}/features/switch#abort",
    "POST /models/{name}/features/switch#begin",
    "POST /models/{name}/features/overlap",
    "POST /models/{name}/features/switch#complete",
    "POST /models/{name}/reset",
    "GET /healthz",
    "GET /readyz",
    "GET /version",
    "GET /key",
    "GET /metrics",
    "GET /v2",
    "GET /v2/health/live",
    "GET /v2/health/ready",
    "PUT /models/{name}/challengers/{challenger}#candidate",
    "POST /models/{name}/challengers/{challenger}/promote",
    "DELETE /models/{name}/challengers/{challenger}",
    "DELETE /models/{name}",
]
"""Every route, in an order in which all its examples can work from an empty service; ``#`` picks one of them."""
ENDLESS = {"GET /drift/stream", "GET /models/{name}/stream", "GET /stream"}
"""Streams of events have no end; they have tests of their own."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(api):
    """What /openapi.json says."""
    return await api.get("/openapi.json")


async def test_the_story_holds_every_route(document):
    """And nothing else."""
    assert {step.partition("#")[0] for step in STORY} == set(operations(document))


async def test_every_example_works_from_an_empty_service(start, document):
    """In the order of the story, with the documented bodies; answers have the documented status and shape."""
    fresh = await start()
    found = operations(document)
    await emptied(fresh)
    answer, state = None, b""
    for step in STORY:
        route, _, picked = step.partition("#")
        method, path = route.split()
        operation = found[route]
        if route in ENDLESS:
            continue
        for named, how in requests(operation, state, picked):
            if route == "POST /models/{name}/restore":  # its example says where a version is to be found
                how["content"] = json.dumps({"version": answer.json()["snapshots"][0]["version"]})
            model = named if route == "PUT /models/{name}" or named == "mail" else example_of(operation, "name")
            other = example_of(operation, "challenger")
            if "{version}" in path:  # its example says a version that it need not have reached
                present = str((await fresh.get(f"/models/{model}"))["version"])
                path = path.replace("{version}", present)
            answer = await fresh.ask(method, path.replace("{name}", model).replace("{challenger}", other), **how)
            assert answer.status_code < 300, (step, named, how, answer.text)
            fits(document, answer, operation["responses"][str(answer.status_code)], route)
        if route == "GET /models/{name}/state":
            state = answer.content
    problem(await fresh.ask("GET", "/models/demo"), 404)


async def emptied(fresh):
    """The tests of this module share a store."""
    for model in (await fresh.get("/models"))["models"]:
        assert 204 == (await fresh.ask("DELETE", f"/models/{model['name']}")).status_code


async def test_the_page_works_from_top_to_bottom(start, document):
    """Every route once, in the order of /docs, with the example that is shown first, from an empty service."""
    fresh = await start()
    await emptied(fresh)
    state = b""
    for tag in document["tags"]:
        for route, operation in operations(document).items():
            if [tag["name"]] != operation["tags"] or "x-stream" in operation:
                continue
            method, path = route.split()
            for name in re.findall(r"{(\w+)}", path):
                path = path.replace(f"{{{name}}}", example_of(operation, name))
            how = next((how for _, how in requests(operation, state, "")), {})
            answer = await fresh.ask(method, path, **how)
            assert answer.status_code < 300, (route, how, answer.text)
            if route == "GET /models/{name}/state":
                state = answer.content
    problem(await fresh.ask("GET", "/models/demo"), 404)


def example_of(operation, name):
    found = [p for p in operation.get("parameters", ()) if p["name"] == name]
    return found[0]["examples"]["demo"]["value"] if found else ""


def requests(operation, state, picked):
    """Each documented body of an operation, or the one that is picked: its example's name and the request."""
    contents = operation.get("requestBody", {}).get("content", {})
    if not contents:
        return [("", {})]
    found = []
    for kind, content in contents.items():
        headers = {"Content-Type": kind}
        if kind == "application/json":
            for name, example in content["examples"].items():
                if picked in ("", name):
                    found.append((name, {"content": json.dumps(example["value"]), "headers": headers}))
        elif kind == "text/csv" and not picked:
            found.append(("", {"content": content["example"], "headers": headers, "params": of_csv(operation)}))
        elif kind == "application/x-ndjson":
            found.append(("", {"content": content["example"], "headers": headers}))
        elif kind == "text/x-svmlight":
            found.append(("mail", {"content": content["example"], "headers": headers}))
        elif kind in STATE.values() and operation["operationId"] == "import_state":
            found.append(("", {"content": state, "headers": headers}))
    return found


def of_csv(operation):
    """The query parameters that the CSV example goes with."""
    columns = [p for p in operation["parameters"] if p["in"] == "query" and "examples" in p]
    assert {""} >= {p["examples"]["none"].get("value", "") for p in columns}
    return {p["name"]: p["examples"]["csv"]["value"] for p in columns}


async def test_arrays_are_made_as_described(start, document):
    """An .npy file by the recipe of each route, of a model whose labels are numbers."""
    api = await start()
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
