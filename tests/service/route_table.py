"""Every route of the app, the scope that it needs, and a request that it takes: what tests of keys go through."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from fastapi import FastAPI

from service.api.http.route import Route
from tests.service.api_fixtures import DFOP, JSON, ROW, STATE

TABLE = {"columns": ["a", "b"], "data": [[0.25, -0.5], [1, 2]]}
TENSOR = {"name": "features", "shape": [1, 2], "datatype": "FP64", "data": [0.25, -0.5]}


class Row(NamedTuple):
    """A route: the scope it needs, "public" for none; the body and the media headers it takes, None for none.

    ``asked``: queries that are tried, each the whole one; ``endless``: the answer goes on until the client leaves.
    """

    scope: str
    body: Any = None
    media: dict[str, str] = JSON
    asked: tuple[str, ...] = ("",)
    endless: bool = False

    def request(self) -> dict[str, Any]:
        """The body and its headers, for httpx."""
        if self.body is None:
            return {"headers": {}}
        text = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return {"content": text, "headers": dict(self.media)}


def id_of(route: Route) -> str:
    """A route in words: ``GET /models``."""
    return f"{route.method} {route.path}"


SORTS = ("sort=rows", "sort=updated", "sort=worst")
ROUTES_OF_ONE = {
    "PUT /models/{name}": Row("admin", DFOP),
    "GET /models/{name}": Row("read", asked=("", "consistency=strong", "min_version=1")),
    "PATCH /models/{name}": Row("admin", {"on_drift": "reset"}),
    "DELETE /models/{name}": Row("admin"),
    "GET /models/{name}/metrics": Row("read", asked=("", "format=csv")),
    "GET /models/{name}/weights": Row("read"),
    "GET /models/{name}/posterior": Row("read", asked=("", "diagonal=true")),
    "GET /models/{name}/effects": Row("read"),
    "GET /models/{name}/log": Row("read", asked=("", "limit=1")),
    "POST /models/{name}/predict": Row("read", ROW, asked=("", "consistency=strong")),
    "POST /models/{name}/predict/batch": Row("read", TABLE),
    "POST /models/{name}/feedback": Row("learn", {**ROW, "label": "UP", "id": "row-1"}),
    "POST /models/{name}/feedback/batch": Row("learn", {**TABLE, "labels": ["UP", "DOWN"]}),
    "POST /models/{name}/evaluate": Row("read", {**TABLE, "labels": ["UP", "DOWN"]}),
    "GET /models/{name}/pending": Row("read", asked=("", "limit=1")),
    "GET /models/{name}/drift": Row("read", asked=("", "format=csv", "limit=1", "order=newest")),
    "GET /models/{name}/challengers": Row("read"),
    "PUT /models/{name}/challengers/{challenger}": Row("admin", {"algorithm": "rls"}),
    "POST /models/{name}/challengers/{challenger}/promote": Row("admin"),
    "DELETE /models/{name}/challengers/{challenger}": Row("admin"),
    "GET /models/{name}/features": Row("read"),
    "POST /models/{name}/features/switch": Row("admin", {"action": "begin", "features": ["c"]}),
    "POST /models/{name}/features/overlap": Row("learn", {"features": {"a": 1, "b": 2, "c": 3}}),
    "POST /models/{name}/snapshots": Row("admin"),
    "GET /models/{name}/snapshots": Row("read"),
    "POST /models/{name}/restore": Row("admin", {"version": 0}),
    "GET /models/{name}/state": Row("read"),
    "PUT /models/{name}/state": Row("admin", b"no state", STATE),
    "POST /models/{name}/reset": Row("admin"),
    "POST /models/{name}/copy": Row("admin", {"name": "copied"}),
    "GET /v2/models/{name}": Row("read"),
    "GET /v2/models/{name}/ready": Row("read"),
    "POST /v2/models/{name}/infer": Row("read", {"inputs": [TENSOR]}),
    "GET /v2/models/{name}/versions/{version}": Row("read"),
    "GET /v2/models/{name}/versions/{version}/ready": Row("read"),
    "POST /v2/models/{name}/versions/{version}/infer": Row("read", {"inputs": [TENSOR]}),
}
"""What names a model: a key that may not touch it gets the same 403 whether it exists or not."""

ROUTES_OF_ALL = {
    "GET /models": Row(
        "read", asked=("", "limit=1", "search=b", "totals=true", *SORTS, *(f"{sort}&limit=1" for sort in SORTS))
    ),
    "GET /drift": Row("read", asked=("", "format=csv", "limit=1", "since=0", "cursor=0-0", "cursor=1-1")),
    "GET /drift/stream": Row("read", endless=True),
    "GET /metrics": Row("read"),
}
"""What is made of models: a key is told of its own alone."""

ROUTES_OF_NONE = {
    "GET /algorithms": Row("read"),
    "GET /key": Row("read"),
    "GET /version": Row("read"),
    "GET /v2": Row("read"),
    "GET /healthz": Row("public"),
    "GET /readyz": Row("public"),
    "GET /v2/health/live": Row("public"),
    "GET /v2/health/ready": Row("public"),
}
"""What says nothing of any model; but ``lag`` of /readyz, which strangers are told, too, is that of the furthest."""

PAGES = {
    "/": "/", "/ui/models/{name}": "/ui/models/{name}", "/ui/assets/{file}": "/ui/assets/onepass.css",
    "/ui/assets/{digest}/{file:path}": "/ui/assets/0/onepass.css", "/guide": "/guide",
    "/guide/{slug}": "/guide/drift", "/problems": "/problems", "/problems/{slug}": "/problems/not-found",
    "/llms.txt": "/llms.txt", "/onepass.py": "/onepass.py", "/openapi.json": "/openapi.json", "/docs": "/docs",
    "/redoc": "/redoc", "/static/redoc.standalone.js": "/static/redoc.standalone.js",
    "/static": "/static/swagger-ui.css",
}  # fmt: skip
"""Public shells and texts, by path, and where each is tried: the same whatever models there are."""

API = {**ROUTES_OF_ONE, **ROUTES_OF_ALL, **ROUTES_OF_NONE}


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Every method and path that an app answers, HEAD excepted, which is GET without a body; a mount as GET."""
    waiting = [*app.routes]
    while waiting:
        route = waiting.pop()
        if hasattr(route, "original_router"):
            waiting += route.original_router.routes
        else:
            methods = getattr(route, "methods", None) or {"GET"}
            yield from ((method, route.path) for method in methods - {"HEAD"})


def filled(path: str, name: str, version: int = 0) -> str:
    """The path for a model."""
    return path.replace("{name}", name).replace("{challenger}", "beside").replace("{version}", str(version))
