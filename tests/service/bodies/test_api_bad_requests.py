"""Requests that are refused before any row is looked at: bodies, media types, configurations, names and queries."""

import json

import pytest

from service.api.routes import ROUTES
from tests.service.api_fixtures import DFOP, JSON, ROW, problem
from tests.service.route_table import API, filled

BODIES = {
    tuple(route.split(" ", 1)): row.body
    for route, row in API.items()
    if isinstance(row.body, dict) and "/v2/" not in route and "/evaluate" not in route
}
"""Every route that reads JSON, with a body that it takes.

test_inference_v2_bad.py has inference; evaluate reads what feedback/batch reads, by the same function.
"""
every_body = pytest.mark.parametrize(("method", "path"), [pytest.param(*route, id=" ".join(route)) for route in BODIES])


async def refuses(api, method, path, status, field=None, **how):
    """A request of any method to a model with some rows, which it must not change: one for all of them."""
    url = path.replace("/models/{name}", await api.shared()).replace("{challenger}", "beside")
    return await api.refuses(url, status, field, method=method, **how)


NO_JSON = [
    b"", b" ", b"nonsense", b"{", b"{'a': 1}", b'{"a": 1,}', b"// nothing\n{}", b"{} {}", b"\x00",
    b'{"algorithm": "\xff"}', b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\x1f\x8b\x08\x00",
    b'{"algorithm": "\\ud800", "features": {"\\udfff": 1}}',
    b"[" * 100_000, b'{"features":' * 100_000, b'{"features": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
]  # fmt: skip


@every_body
async def test_what_is_no_json_is_400(api, method, path):
    """Empty, broken, not UTF-8, half a character, nested beyond reading: 400, and nothing of it is echoed."""
    for content in NO_JSON:
        found = await refuses(api, method, path, 400, content=content, headers=JSON)
        assert 400 > len(json.dumps(found)), content[:100]


@every_body
async def test_a_body_is_an_object(api, method, path):
    """Other JSON is 422; batches take lists as well, of rows by name, and miss what these lack."""
    batch = path.endswith(("/batch", "/overlap"))
    for content in ("[]", "null", "1", '"text"', "true", "[{}]"):
        field = {"[]": "rows", "[{}]": "rows[0].features"}.get(content, "body") if batch else "body"
        await refuses(api, method, path, 422, field, content=content, headers=JSON)


SECRET = "s3cret - at `$.hush`"
"""What no answer may hold; it looks like a part of the decoder's own messages."""


@every_body
@pytest.mark.parametrize("value", [SECRET, 987654321.25, -987654321, [[SECRET]], {"x": SECRET}])
async def test_no_value_is_echoed(api, method, path, value):
    """Whatever stands where another kind of value should: the answer names the field, not what was sent."""
    known = {"action", "mapping", "version", "task", "missing", "seed", "watch", "on_drift", "params", "discount"}
    model = await api.learnt()
    for field in sorted((set(BODIES[method, path]) | known) - {"features", "columns", "labels", "label"}):
        body = {**BODIES[method, path], field: value}
        answer = await api.ask(method, path.replace("/models/{name}", model), json=body)
        if answer.status_code >= 400:
            assert [] == [part for part in ("s3cret", "hush", "987654321") if part in answer.text], answer.text
        else:
            model = await api.learnt()  # the value was taken, and may have changed it


@pytest.mark.parametrize("value", ["cubic", SECRET, ""])
async def test_a_choice_lists_what_may_be_chosen(api, value):
    """In the words of every other refusal, of whichever field."""
    for body, field, allowed in (
        ({"action": value}, "action", ["abort", "begin", "complete"]),
        ({"action": "begin", "features": ["c"], "mapping": value}, "mapping", ["kernel", "linear"]),
    ):
        found = await refuses(api, "POST", "/models/{name}/features/switch", 422, json=body)
        assert f"{field}: is not one of the choices" == found["detail"]
        assert [{"field": field, "problem": "is not one of the choices", "allowed": allowed}] == found["errors"]


@every_body
@pytest.mark.parametrize("depth", [100, 450, 600, 900])
async def test_a_deep_body_is_refused_like_any_other(api, method, path, depth):
    """However deep what is wrong with it lies, the answer says so, and is short."""
    for inside, status in (("1", 422), ("NaN", 400), ("1e400", 422), ('{"x":1,"x":2}', 422)):
        wrong = json.dumps(BODIES[method, path])[:-1] + ', "more": ' + "[" * depth + inside + "]" * depth + "}"
        found = await refuses(api, method, path, status, content=wrong, headers=JSON)
        assert 2_000 > len(json.dumps(found)), inside


OTHER_TYPES = ["text/plain", "application/xml", "application/x-www-form-urlencoded", "text/json", "*/*", "", "json"]
OF_BATCHES = ["text/csv", "application/x-npy", "application/octet-stream"]
"""Of overlap rows as well; everywhere else they are 415."""


@every_body
async def test_another_media_type_is_415(api, method, path):
    """With those that the route reads."""
    batch = path.endswith(("/batch", "/overlap"))
    for kind in (*OTHER_TYPES, "application/vnd.apache.parquet", *([] if batch else OF_BATCHES)):
        how = {"content": json.dumps(BODIES[method, path]), "headers": {"Content-Type": kind}}
        found = await refuses(api, method, path, 415, "Content-Type", **how)
        assert "application/json" in found["errors"][0]["allowed"], kind


@every_body
async def test_json_goes_by_several_names(api, method, path):
    """No media type at all, parameters, capitals, a +json type; every route answers by the state of the model."""
    url = path.replace("/models/{name}", await api.learnt()).replace("{challenger}", "beside")
    for kind in (None, "application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"):
        headers = {} if kind is None else {"Content-Type": kind}
        answer = await api.ask(method, url, content=json.dumps(BODIES[method, path]), headers=headers)
        assert answer.status_code in {200, 201, 404, 409}, answer.text


@pytest.fixture(scope="module")
async def small(start):
    """A service that reads bodies of a megabyte."""
    return await start(body_limit_mb=1)


@every_body
async def test_a_body_too_large_is_413(small, method, path):
    """By its announced length, or as it arrives; nothing is read in vain."""
    good = json.dumps(BODIES[method, path]).encode()
    large = good + b" " * (2**20 - len(good) + 1)

    async def pieces():
        for at in range(0, len(large), 65_536):
            yield large[at : at + 65_536]

    model = await small.learnt()
    url = path.replace("/models/{name}", model).replace("{challenger}", "beside")
    for content, more in ((large, {}), (pieces(), {}), (b"{}", {"Content-Length": "9" * 30})):
        await small.refuses(url, 413, "body", method=method, content=content, headers={**JSON, **more})
    fits = await small.ask(method, url, content=large[: 2**20], headers=JSON)
    assert fits.status_code in (200, 201, 404, 409)


async def test_a_state_too_large_is_413(start):
    """The one body that is no JSON may be as large as a model's state, and its head as another body."""
    small = await start(body_limit_mb=1, model_limit_mb=1)
    path = await small.learnt()
    problem(await small.ask("PUT", f"{path}/state", content=b"x" * (2**21 + 1)), 413, "body")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"algorithm": "oracle"}, "algorithm"),
        ({"params": {"mu": 0.1}}, "params.mu"),
        ({"features": [{"name": "a", "typ": "numeric"}]}, "features[0].typ"),
        ({"name": "x"}, "name"),
        ({"lables": ["a", "b"]}, "lables"),
        ({"metrics": {"window": 9}}, "metrics.window"),
        ({"algorithm": "sparse_dfop"}, "features"),
        *(
            ({"algorithm": "sparse_dfop", "features": None, "params": {name: value}}, f"params.{name}")
            for name, value in (
                *(("compressed_dim", odd) for odd in (0, 10.0, 10_000, 10_001)),
                *(("forgetting_rate", 0.99), ("projection", "none"), ("sparsity", 0)),
            )
        ),
        *(({"algorithm": "sparse_dfop", "features": None, "missing": fill}, "missing") for fill in ("zero", "mean")),
        ({"features": [{"name": "c", "type": "categorical", "categories": [*range(10_000)]}]}, "features"),
    ],
)
async def test_a_model_that_cannot_be(api, change, field):
    """No model comes of it, and a model of that name stays as it is; tests/core/test_config.py has the other fields."""
    body = {**DFOP, **change}
    problem(await api.ask("PUT", "/models/stillborn", json=body), 422, field)
    problem(await api.ask("GET", "/models/stillborn"), 404)
    await refuses(api, "PUT", "/models/{name}", 422, field, json=body)


async def test_ranges_are_in_the_answer(api):
    """And who sends a factor for a rate is told of the other convention."""
    body = {**DFOP, "params": {"forgetting_rate": 0.99}}
    (error,) = problem(await api.ask("PUT", "/models/stillborn", json=body), 422)["errors"]
    assert '> 0 and <= 0.5 or "auto"' == error["allowed"]
    assert "forgetting_rate 0.01" in error["problem"]
    body = {**DFOP, "features": [f"x{i}" for i in range(20_000)]}
    (error,) = problem(await api.ask("PUT", "/models/stillborn", json=body), 422)["errors"]
    assert "<= 128 MiB of state" == error["allowed"]
    body = {**DFOP, "params": {"random_features": 10_000}}
    (error,) = problem(await api.ask("PUT", "/models/stillborn", json=body), 422)["errors"]
    assert error["problem"].startswith("make 2 input columns and 10000 random features; the state of dfop would take")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('"seed": 1, "seed": 2', "seed"),
        ('"params": {"bias": true, "bias": false}', "params.bias"),
        ('"features": [{"name": "a", "name": "b"}]', "features[0].name"),
        ('"seed": 1e400', "seed"),
        ('"params": {"bias": 1e400}', "params.bias"),
        ('"labels": [0, ' + "9" * 5000 + "]", "labels[1]"),
    ],
)
async def test_settings_given_twice_or_beyond_numbers_are_refused(api, text, field):
    """As the fields of every other body are."""
    text = f'{{"algorithm": "dfop", "task": "classification", {text}}}'
    await refuses(api, "PUT", "/models/{name}", 422, field, content=text, headers=JSON)


async def test_a_field_that_is_none_is_named(api):
    """However its name looks."""
    for name in ("hush - at `$.x`", "a`b", "a - at `b", " - at `$"):
        found = await refuses(api, "POST", "/models/{name}/predict", 422, json={**ROW, name: 1})
        assert "is not a field of this request" == found["errors"][0]["problem"]


BAD_NAMES = ["-x", ".x", "_x", "x" * 65, "a%20b", "a%0a", "%C3%A9", "a%00", "a:b", "{name}", "%7Ba%7D", "a+b", "a%25b"]


@pytest.mark.parametrize("name", [*BAD_NAMES, "nobody"])
async def test_a_name_of_no_model(api, name):
    """404, with the models that exist; 422 where it would be created and cannot be."""
    await api.ask("PUT", "/models/nobodi", json=DFOP)
    for route in ROUTES:
        if "{name}" not in route.path:
            continue
        body = BODIES.get((route.method, route.path))
        how = {} if body is None else {"json": body}
        url = filled(route.path, name)
        if route.method == "PUT" and name != "nobody":
            problem(await api.ask("PUT", url, **how), 422, "name")
        elif route.method != "PUT":
            found = problem(await api.ask(route.method, url, **how), 404)
            if "challenger" not in url and not url.startswith("/v2"):
                assert "nobodi" in found["errors"][0]["allowed"]
                assert ("; did you mean nobodi?" in found["detail"]) == (name == "nobody")


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
    *((f"min_version={value}", "min_version") for value in VERSIONS), ("consistency=maybe", "consistency"),
    ("consistency=", "consistency"), ("minversion=1", "minversion"), ("x=1", "x"), ("%00=1", "\x00"),
]  # fmt: skip
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
