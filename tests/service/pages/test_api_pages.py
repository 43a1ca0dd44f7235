"""Health, Prometheus, and the pages: nothing of them comes from elsewhere."""

import asyncio
import re
import threading
from pathlib import Path

import fastapi_offline
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.openapi.document import document
from service.pages.api_pages import REDOC_LOGO
from tests.service.api_fixtures import problem, running

PAGES = ["/docs", "/redoc"]


async def test_alive(api):
    """The process answers, and that is all it says; probes may add what they like."""
    assert {"alive": True} == await api.get("/healthz")
    assert {"alive": True} == await api.get("/healthz?probe=1")


async def test_ready(api):
    """The store answers, the tasks run; and which durability is in force."""
    found = await api.get("/readyz")
    assert {"ready", "store", "durability", "lag", "checks"} == set(found)
    assert (True, "up", "everysec", 0) == tuple(found[name] for name in ("ready", "store", "durability", "lag"))
    assert {"store", "store_data", "tasks", "lag", "stays", "hints", "eviction", "room", "log"} == set(found["checks"])
    assert all(found["checks"][name] for name in ("store", "store_data", "tasks", "lag", "eviction", "room", "log"))


async def test_not_ready_without_the_files_of_its_own_store(api):
    """It answers, but what it learns now is lost when it stops."""
    api.engine.in_place = False
    answer = await api.ask("GET", "/readyz")
    assert (503, False) == (answer.status_code, answer.json()["checks"]["store_data"])


async def test_not_ready_while_the_store_cannot_be_reached(own_settings, tmp_path):
    """503 with the reason; alive all the same, and requests are 503 with Retry-After."""
    async with running(f"unix://{tmp_path}/nobody.sock", store_timeout_s=0.2, grace_s=0.1) as api:
        answer = await api.ask("GET", "/readyz")
        assert (503, False, "down") == (answer.status_code, answer.json()["ready"], answer.json()["store"])
        assert {"alive": True} == await api.get("/healthz")
        for method, path in (("GET", "/models"), ("GET", "/models/m"), ("DELETE", "/models/m")):
            answer = await api.ask(method, path)
            problem(answer, 503)
            assert 1 <= int(answer.headers["retry-after"])
        assert "onepass_store_up 0.0" in (await api.ask("GET", "/metrics")).text


async def test_prometheus_can_read_the_metrics(api):
    """Requests are counted and timed by route, rows and models as they are."""
    await api.learnt(rows=3)
    for path in ("/models/nobody", "/nowhere", "/guide/none"):
        await api.ask("GET", path)
    await api.ask("PROPFIND", "/models")
    answer = await api.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert {"onepass_requests", "onepass_request_duration_seconds", "onepass_rows", "onepass_models_loaded"} <= set(
        families
    )
    assert all(family.documentation for family in families.values())
    counted = {
        (sample.labels["route"], sample.labels["method"], sample.labels["status"]): sample.value
        for sample in families["onepass_requests"].samples
        if sample.name.endswith("_total")
    }
    assert 3 <= counted["/models/{name}/feedback", "POST", "200"]
    assert 1 <= counted["/models/{name}", "GET", "404"]
    assert (2, 1) == (counted["-", "-", "404"], counted["-", "-", "405"])
    assert not any(name.endswith("_created") for name in families)
    (store,) = families["onepass_store_up"].samples
    assert 1.0 == store.value


async def test_the_document_is_built_once_and_in_a_thread(start, monkeypatch):
    """It takes half a second: rows that come meanwhile do not wait for it."""
    api, built = await start(), list[threading.Thread]()

    def building(*args, **how):
        built.append(threading.current_thread())
        return document(*args, **how)

    monkeypatch.setattr("service.app.document", building)
    first, *others = await asyncio.gather(*[api.ask("GET", "/openapi.json") for _ in range(3)])
    assert [first.content] * 3 == [one.content for one in [*others, await api.ask("GET", "/openapi.json")]]
    assert (1, False) == (len(built), threading.main_thread() in built)


@pytest.mark.parametrize("page", PAGES)
async def test_pages_fetch_nothing_from_elsewhere(api, page):
    """Every script, style and image is one of ours; test_root_path.py follows their addresses."""
    answer = await api.ask("GET", page)
    assert 200 == answer.status_code
    assert "text/html" in answer.headers["content-type"]
    assert [] == re.findall(r"https?:|//[a-z]", answer.text)
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert [] == re.findall(r"<script(?![^>]*src=)|\son\w+=", answer.text)
    fetched = re.findall(r"(?:src|href|spec-url|data-document)=\"([^\"#]+)\"", answer.text)
    addresses = {address.removeprefix("./") for address in fetched}
    assert "openapi.json" in addresses
    assert any(address.endswith(".js") for address in addresses)


async def test_static_files_are_those_of_the_package_and_no_others(api):
    """With their types; no way leads out of the folder."""
    for path in sorted((Path(fastapi_offline.__file__).parent / "static").iterdir()):
        answer = await api.ask("GET", f"/static/{path.name}")
        assert 200 == answer.status_code
        assert path.read_bytes().replace(REDOC_LOGO, b"static/favicon.png") == answer.content
        assert REDOC_LOGO not in answer.content
    for path in ("/static/", "/static/nothing.js", "/static/%2e%2e/__init__.py", "/static/..%2f__init__.py"):
        problem(await api.ask("GET", path), 404)


@pytest.mark.parametrize("verb", ["reset", "snapshots"])
async def test_a_request_without_a_body_takes_none(api, verb):
    """Fields that nobody reads are refused, and nothing changes."""
    path = await api.learnt()
    await api.refuses(f"{path}/{verb}", 422, "body", json={"x": 1})
    assert (await api.ask("POST", f"{path}/{verb}", json={})).is_success
