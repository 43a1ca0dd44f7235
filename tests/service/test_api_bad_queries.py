"""Names of models, routes and queries that cannot be."""

import pytest

from service.api.routes import ROUTES
from tests.service.api_fixtures import DFOP, problem
from tests.service.route_table import filled
from tests.service.test_api_bad_requests import BODIES, ROW, refuses

BAD_NAMES = ["-x", ".x", "_x", "x" * 65, "a%20b", "a%0a", "%C3%A9", "a%00", "a:b", "{name}", "%7Ba%7D", "a+b", "a%25b"]


@pytest.mark.parametrize("name", [*BAD_NAMES, "nobody"])
async def test_a_name_of_no_model(api, name):
    """404; 422 where it would be created and cannot be."""
    for route in ROUTES:
        if "{name}" not in route.path:
            continue
        body = BODIES.get((route.method, route.path))
        how = {} if body is None else {"json": body}
        url = filled(route.path, name)
        if route.method == "PUT" and name != "nobody":
            problem(await api.ask("PUT", url, **how), 422, "name")
        elif route.method != "PUT":
            problem(await api.ask(route.method, url, **how), 404)


@pytest.mark.parametrize("name", ["a", "0", "A.b_c-9", "x" * 64])
async def test_the_names_there_may_be(api, name):
    """A letter or a digit, then up to 63 more of them, dots, dashes and underlines."""
    assert 201 == (await api.ask("PUT", f"/models/{name}", json=DFOP)).status_code
    assert 204 == (await api.ask("DELETE", f"/models/{name}")).status_code


async def test_unknown_routes_are_problems_too(api):
    """404 in the form of every other error."""
    for path in ("/nothing", "/models/a/b/c", "/models/a%2Fb", "/v9"):
        problem(await api.ask("GET", path), 404)


VERSIONS = ("-1", "x", "1.0", "", "1e3", "%D9%A3", "9" * 30, "0" * 20 + "9" * 5000, "1&min_version=2")
FRESHNESS = [
    *((f"min_version={value}", "min_version") for value in VERSIONS),
    ("consistency=maybe", "consistency"),
    ("consistency=", "consistency"),
    ("minversion=1", "minversion"),
    ("x=1", "x"),
    ("%00=1", "\x00"),
]
LIMITS = ("0", "-1", "1001", "x", "", "1.5", "9" * 5000, "000000000000000000000001")
NO_MODELS = ("", "%20", "%00", "-x", "a/b", "x" * 65, "%F0%9F%98%80")
NO_PREDICTIONS = ("", "x", "1", "-1:a", "1.5:a", "%D9%A3:a", "9" * 5000 + ":a")
QUERIES = [
    *(
        (f"@{read}", *odd)
        for read in ("", "/metrics", "/weights", "/pending", "/snapshots", "/state")
        for odd in FRESHNESS
    ),
    *((url, f"limit={limit}", "limit") for url in ("/models", "@/pending") for limit in LIMITS),
    *(("/models", f"cursor={cursor}", "cursor") for cursor in NO_MODELS),
    *(("@/pending", f"cursor={cursor}", "cursor") for cursor in NO_PREDICTIONS),
    *(("@/weights", f"sparsity={some}", "sparsity") for some in ("0", "3", "x", "000000001" + "9" * 5000)),
    ("@/weights", "names=", "names"),
    ("@/weights", "names=a,secret", "names[1]"),
    ("@/weights", "names=a, b", "names[1]"),
]


@pytest.mark.parametrize(("url", "query", "field"), QUERIES)
async def test_queries_that_cannot_be(api, url, query, field):
    """Values out of range, cursors that no page gave, and names that are none, such as a misspelt min_version."""
    url = url.replace("@", await api.shared())
    found = problem(await api.ask("GET", f"{url}?{query}"), 422, field, "secret")
    assert field != "limit" or found["errors"][0]["allowed"] == ">= 1 and <= 1000"


async def test_writes_take_no_query(api):
    """min_version and the like are of reads, predictions included."""
    for route in ("feedback", "reset", "restore", "snapshots"):
        await refuses(api, "POST", f"/models/{{name}}/{route}?min_version=1", 422, "min_version", json=ROW)
    for query, field in FRESHNESS:
        for route in ("predict", "predict/batch"):
            body = BODIES["POST", f"/models/{{name}}/{route}"]
            await refuses(api, "POST", f"/models/{{name}}/{route}?{query}", 422, field, json=body)
