"""Every example behind /docs works: in the order of a story, and from the top of the page to its bottom."""

import json
import re

import httpx
import jsonschema
import numpy as np
import pytest

from tests.service.api_fixtures import NPY, RLS, STATE, npy, problem
from tests.service.openapi_document import operations, resolved

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
    found = [p for p in operation.get("parameters", ()) if p["name"] == name]
    return found[0]["examples"]["demo"]["value"] if found else ""


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
