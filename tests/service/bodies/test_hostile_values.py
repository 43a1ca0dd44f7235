"""Every value of every JSON body as something that breaks parsers, and headers that would begin another one."""

import json
from collections.abc import Iterator

import pytest

from service.api.routes import ROW_ROUTES
from tests.service.api_fixtures import DFOP, JSON
from tests.service.local_server import LocalServer, running
from tests.service.route_table import API, filled

HOSTILE = {
    "not a number": "NaN", "infinity": "-Infinity", "beyond doubles": "1e400", "below doubles": "1e-400",
    "a huge integer": "9" * 5_000, "beyond 64 bits": str(2**64), "minus zero": "-0.0",
    "half a surrogate pair": '"\\ud800"', "the other half": '"a\\udfff"', "a null byte": '"\\u0000"',
    "another line": '"x\\r\\nSet-Cookie: a=b"', "a path": '"../../etc/passwd"',
    "bidirectional text": '"\\u202e\\ufeff"', "a long text": '"' + "x" * 100_000 + '"',
    "nesting": "[" * 3_000 + "]" * 3_000, "nested objects": '{"a":' * 3_000 + "1" + "}" * 3_000,
    "a name twice": '{"a": 1, "a": 2}', "a name twice by escapes": '{"a": 1, "\\u0061": 2}',
    "a name that is none": '{"\\ud800": 1}', "an empty name": '{"": 1}',
    "a prototype": '{"__proto__": {"x": 1}, "__class__": 1}',
}  # fmt: skip
RICH = {
    "PUT /models/{name}": {
        **DFOP,
        "features": [{"name": "a", "categories": ["x"]}, "b", {"name": "t", "min": 0, "max": 1, "outside": "clip"}],
        "params": {"delta": 0.1}, "watch": {"class_mean": {"delta": 0.1}}, "tags": {"k": "v"}, "description": "d",
        "class_costs": {"UP": 2}, "seed": 1,
    },
    "PATCH /models/{name}": {"tags": {"k": "v"}, "description": "d", "watch": {"error_rate": {"delta": 0.1}}},
    "POST /models/{name}/predict": {"features": {"a": 1, "b": 2}, "track": False, "explain": True},
    "POST /models/{name}/feedback": {**API["POST /models/{name}/feedback"].body, "discount": 0.9, "weight": 1},
    "POST /models/{name}/feedback/batch": {
        **API["POST /models/{name}/feedback/batch"].body, "ids": ["i", 2], "weights": [1, 2],
    },
    "POST /models/{name}/features/switch": {"action": "begin", "features": ["c"], "mapping": "linear"},
    "PUT /models/{name}/challengers/{challenger}": {
        "algorithm": "rls", "params": {}, "promote": "never", "watch": None,
    },
}  # fmt: skip
"""Bodies with more of the fields that there may be."""
BODIES = {route: RICH.get(route, row.body) for route, row in API.items() if isinstance(row.body, dict)}


def spoiled(body, hostile: str) -> Iterator[str]:
    """The body as JSON, each of its values and names replaced in turn, itself included."""
    mark = "@hostile@"

    def variants(value):
        yield mark
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from ({**value, name: other} for other in variants(inner))
            yield {**value, mark: 1}
        elif isinstance(value, list):
            for at, inner in enumerate(value):
                yield from ([*value[:at], other, *value[at + 1 :]] for other in variants(inner))

    for variant in variants(body):
        text = json.dumps(variant)
        if f'"{mark}":' in text and not hostile.startswith('"'):
            continue  # no name
        yield text.replace(f'"{mark}"', hostile)


@pytest.mark.parametrize("route", BODIES)
async def test_nothing_that_is_sent_is_an_error_of_the_service(api, route):
    """Taken or refused, in JSON that can be read; the model can be asked afterwards."""
    path = await api.learnt()
    method, place = route.split(" ", 1)
    refused = 0
    for what, hostile in HOSTILE.items():
        for text in spoiled(BODIES[route], hostile):
            url = filled(place, path.rpartition("/")[2] if method != "PUT" or "{challenger}" in place else "never")
            answer = await api.ask(method, url, content=text.encode(), headers=JSON)
            assert answer.status_code < 500, (what, text[:300], answer.text)
            json.loads(answer.content.decode())
            assert "Traceback" not in answer.text
            refused += answer.status_code >= 400
            if method == "PUT" and "{challenger}" not in place and answer.status_code in (200, 201):
                assert 204 == (await api.ask("DELETE", url)).status_code
    assert refused > len(HOSTILE)
    assert 200 == (await api.ask("GET", path)).status_code
    assert 200 == (await api.ask("GET", f"{path}/state")).status_code


INJECTED = [
    b"X-Request-ID: a\r\n\tEvil: folded\r\n", b"X-Request-ID: a\nEvil: bare\r\n", b"X-Request-ID: a\rEvil: bare\r\n",
    b"X-Request-ID: a\0Evil: null\r\n", b"X-Request-ID: a%0d%0aEvil: escaped\r\n",
    b"traceparent: 00-1\nEvil: trace-1-1\r\n", b"Idempotency-Key: k\nEvil: key\r\n",
    b"Origin: http://localhost\nEvil: origin\r\n",
]  # fmt: skip


@pytest.mark.parametrize("header", INJECTED)
@pytest.mark.parametrize("where", ["GET /healthz", *(f"POST /models/{{name}}/{last}" for last in ROW_ROUTES)])
async def test_no_header_begins_another_one(api, header, where):
    """Folded, with a bare line feed, carriage return or null: the answer has no header that the client has made."""
    model = (await api.shared()).rpartition("/")[2]
    own = API[where]
    body = b"" if own.body is None else json.dumps(own.body).encode()
    method, path = where.split(" ", 1)
    head = f"{method} {filled(path, model)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = head.encode() + header + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with running(LocalServer(api.app)) as server:
        answer = await server.answer(sent)
    lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert lines[0].split()[1] in (b"200", b"400", b"403", b"422")
    assert not [
        line for line in lines if line.lower().startswith((b"evil", b"\tevil")) or b"\n" in line or b"\r" in line
    ]
    assert 1 == sum(line.lower().startswith(b"x-request-id:") for line in lines)


@pytest.mark.parametrize("query", ["cursor=%0d%0aEvil:+1", "since=0%00", "limit=1%0a", "format=csv%0d%0aEvil:+1"])
async def test_no_query_makes_a_header(api, query):
    """Tables have headers with cursors and file names in them: nothing of a query gets there."""
    await api.shared()
    answer = await api.ask("GET", f"/drift?format=csv&{query}" if not query.startswith("format") else f"/drift?{query}")
    assert answer.status_code in (200, 422)
    assert "evil" not in answer.headers
    assert not any("\n" in value or "\r" in value for value in answer.headers.values())
