"""The real app on a real private store, driven in-process: one store per test module, a fresh model per test."""

import io
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.lib.format import write_array
from prometheus_client.parser import text_string_to_metric_families

from service.app import build
from service.embedded import EmbeddedStore
from service.settings import Settings

PROBLEM = "application/problem+json"
DFOP = {"algorithm": "dfop", "task": "classification", "features": ["a", "b"], "labels": ["UP", "DOWN"]}
RLS = {"algorithm": "rls", "task": "regression", "features": ["a", "b"]}
ROW = {"features": {"a": 0.25, "b": -0.5}}
CSV = {"Content-Type": "text/csv"}
NPY = {"Content-Type": "application/x-npy"}
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
STATE = {"Content-Type": "application/octet-stream"}

_numbers = itertools.count(1)


class Api:
    """A client of one app; ``app`` is there for what no route shows."""

    def __init__(self, app: Any, client: httpx.AsyncClient) -> None:
        self.app, self.client = app, client
        self._shared: dict[str, str] = {}
        self._standing: dict[str, tuple[int, int, bytes]] = {}

    @property
    def engine(self) -> Any:
        """What serves the models, below the routes."""
        return self.app.context.engine

    async def ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        return await self.client.request(method, path, **how)

    async def get(self, path: str, **how: Any) -> Any:
        """The JSON of a GET that works."""
        answer = await self.client.get(path, **how)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None, status: int = 200, **how: Any) -> Any:
        """The JSON of a POST that works."""
        answer = await self.client.post(path, **({} if body is None else {"json": body}), **how)
        assert status == answer.status_code, answer.text
        return answer.json()

    async def pages(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> list[Any]:
        """Every page of a list."""
        found = [await self.get(path, params=query, headers=headers)]
        while found[-1]["next"] is not None:
            query["cursor"] = found[-1]["next"]
            found.append(await self.get(path, params=query, headers=headers))
        return found

    async def new(self, body: Any = None, **changes: Any) -> str:
        """The path of a model that was just created."""
        name = f"m{next(_numbers)}"
        answer = await self.client.put(f"/models/{name}", json={**(body or DFOP), **changes})
        assert 201 == answer.status_code, answer.text
        return f"/models/{name}"

    async def learnt(self, body: Any = None, rows: int = 3, **changes: Any) -> str:
        """The path of a model that has learned a few rows, labelled with its first two labels in turn."""
        path = await self.new(body, **changes)
        config = (await self.get(path))["config"]
        labels = config["labels"] or ([1.5, -0.5] if config["task"] == "regression" else ["UP", "DOWN"])
        for row in range(rows):
            await self.post(f"{path}/feedback", {"features": features(row), "label": labels[row % 2]})
        return path

    async def shared(self, body: Any = None, **changes: Any) -> str:
        """The path of one such model of each configuration, for requests that change nothing."""
        kind = json.dumps([body, changes])
        if kind not in self._shared:
            self._shared[kind] = await self.learnt(body, **changes)
        return self._shared[kind]

    async def state(self, path: str) -> bytes:
        """The whole state; version, uid and incarnation are part of it."""
        answer = await self.client.get(f"{path}/state", params={"consistency": "strong"})
        assert 200 == answer.status_code, answer.text
        return answer.content

    async def refuses(
        self,
        url: str,
        status: int,
        field: str | None = None,
        secret: str | None = None,
        *,
        method: str = "POST",
        **how: Any,
    ) -> Any:
        """The problem document of a request to a model that is refused, and changes nothing of it."""
        path = "/".join(url.partition("?")[0].split("/")[:3])
        before = self._standing.get(path) or await self.standing(path)
        found = problem(await self.client.request(method, url, **how), status, field, secret)
        assert before == await self.standing(path)
        if path in self._shared.values():  # which nothing changes
            self._standing[path] = before
        return found

    async def imports(self, path: str, state: bytes, status: int = 201) -> None:
        """Import a state under the name of a path."""
        answer = await self.client.put(f"{path}/state", content=state, headers=STATE)
        assert status == answer.status_code, answer.text

    async def scraped(self, **how: Any) -> dict[tuple[str, ...], float]:
        """The samples of GET /metrics, by name and by the values of their labels in the order of the labels' names."""
        answer = await self.ask("GET", "/metrics", **how)
        assert 200 == answer.status_code, answer.text
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }

    async def standing(self, path: str) -> tuple[int, int, bytes]:
        """Version, rows and state: what a refusal must not change."""
        shown = await self.get(path)
        return shown["version"], shown["rows"], await self.state(path)


def body(text: Any) -> dict[str, Any]:
    """A body of JSON for httpx: a text or bytes as they are, anything else encoded."""
    return {"content": text, "headers": JSON} if isinstance(text, str | bytes) else {"json": text}


def features(row: int) -> dict[str, float]:
    """The features of a row of a small stream."""
    return {"a": ((row * 37) % 11) / 11 - 0.5, "b": ((row * 53) % 13) / 13 - 0.5}


def columnar(rows: int, start: int = 0) -> dict[str, Any]:
    """The same rows as a table."""
    return {"columns": ["a", "b"], "data": [[*features(start + row).values()] for row in range(rows)]}


def npy(table: Any, kind: Any = np.float64) -> bytes:
    """An array as an .npy file."""
    out = io.BytesIO()
    write_array(out, np.asarray(table, dtype=kind))
    return out.getvalue()


def csv(table: dict[str, Any], **more: Sequence[Any]) -> dict[str, Any]:
    """A request with a table as CSV: its labels in a column ``y``, and more columns, each under its name."""
    columns = dict(zip(table["columns"], zip(*table["data"], strict=True), strict=True))
    columns |= {**({"y": table["labels"]} if "labels" in table else {}), **more}
    lines = [columns, *zip(*columns.values(), strict=True)]
    sent = {"content": "\n".join(",".join(map(str, line)) for line in lines), "headers": CSV}
    return {**sent, "params": {"label": "y"}} if "labels" in table else sent


def forms(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Requests with one table in each form: JSON by column, CSV, and .npy with the labels last."""
    columns = [*zip(*table["data"], strict=True), *([table["labels"]] if "labels" in table else [])]
    return {"json": {"json": table}, "csv": csv(table), "npy": {"content": npy(np.transpose(columns)), "headers": NPY}}


def problem(answer: httpx.Response, status: int, field: str | None = None, secret: str | None = None) -> Any:
    """Check that an answer is the problem document it should be, and return it.

    ``field`` must be among the fields named; ``secret`` is an offending value that must not be echoed.
    """
    assert status == answer.status_code, answer.text
    body = answer.json()
    if answer.request.url.path.startswith("/v2"):
        return inference_error(answer, body, secret)
    assert PROBLEM == answer.headers["content-type"]
    assert {"type", "title", "status", "detail", "errors"} <= set(body)
    assert status == body["status"]
    assert body["type"].startswith("/problems/")
    assert all({"field", "problem", "allowed"} == set(error) for error in body["errors"])
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text
    assert body["errors"] or status != 409, answer.text
    if field is not None:
        assert field in [error["field"] for error in body["errors"]], answer.text
    if secret is not None:
        assert secret not in answer.text
    return body


def inference_error(answer: httpx.Response, body: Any, secret: str | None) -> Any:
    """Check that an answer is an error of the Open Inference Protocol, and return it."""
    assert "application/json" == answer.headers["content-type"]
    assert {"error"} == set(body)
    assert body["error"]
    assert "Traceback" not in answer.text
    assert secret is None or secret not in answer.text
    return body


@pytest.fixture(scope="module")
def own_settings() -> Iterator[None]:
    """ONEPASS_* variables of whoever runs the tests do not count."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("ONEPASS_")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def store_url(tmp_path_factory: pytest.TempPathFactory, own_settings: None) -> Iterator[str]:
    """A private store for this module."""
    store = EmbeddedStore(Path(tmp_path_factory.mktemp("store")), "everysec")
    yield store.start()
    store.stop()


@asynccontextmanager
async def running(store_url: str, **settings: Any) -> AsyncIterator[Api]:
    """A service on a store, until it is stopped."""
    app = build(Settings(**{"redis_url": store_url, **settings}))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://onepass") as client,
    ):
        yield Api(app, client)


Start = Callable[..., Awaitable[Api]]


@pytest.fixture(scope="module")
async def start(store_url: str) -> AsyncIterator[Start]:
    """Starts services on this module's store, with settings of their own."""
    async with AsyncExitStack() as stack:

        async def started(**settings: Any) -> Api:
            return await stack.enter_async_context(running(store_url, **settings))

        yield started


@pytest.fixture(scope="module")
async def api(start: Start) -> Api:
    """A service with the default settings."""
    return await start()


@pytest.fixture(scope="module")
async def document(api: Api) -> Any:
    """What /openapi.json says."""
    return await api.get("/openapi.json")
