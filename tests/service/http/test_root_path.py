"""The service under a prefix, behind a proxy that takes it off or leaves it on; and hosts that proxies name."""

import json
import re

import httpx
import pytest

from service.api.http.cross_site import Guard, proxies_of
from service.api.http.root_path import OWN, parse
from service.app import build, create_app
from service.errors import Forbidden
from service.settings import Settings
from service.settings_validation import validated
from tests.service.api_fixtures import DFOP, features
from tests.service.event_client import EventClient
from tests.service.local_server import LocalServer, running

PREFIX = "/ml/onepass"


class Proxy:
    """Puts an app under a prefix, as a proxy on the way does, which may take it off."""

    def __init__(self, app, takes_off: bool) -> None:
        self.app, self._takes_off = app, takes_off

    async def __call__(self, scope, receive, send) -> None:
        assert scope["path"].startswith(PREFIX), scope["path"]
        path = scope["path"].removeprefix(PREFIX) if self._takes_off else scope["path"]
        await self.app({**scope, "path": path or "/", "raw_path": path.encode()}, receive, send)


@pytest.fixture(scope="module", params=[True, False], ids=["prefix taken off", "prefix left on"])
async def proxied(start, request):
    """A client of a service behind a proxy."""
    api = await start(root_path=PREFIX + "/")
    transport = httpx.ASGITransport(Proxy(api.app, request.param))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://onepass{PREFIX}") as client:
        yield client
        await client.delete("/models/m")


async def test_rows_and_their_refusals(proxied):
    """A refusal names the address of its page, which is there."""
    assert 201 == (await proxied.put("/models/m", json=DFOP)).status_code
    for path, body in [("feedback", {"features": features(0), "label": "UP"}), ("predict", {"features": features(1)})]:
        assert 200 == (await proxied.post(f"/models/m/{path}", json=body)).status_code
    refused = [
        await proxied.post("/models/m/predict", json={"features": {"odd": 1}}),
        await proxied.get("/models/none"),
        await proxied.get("/nowhere"),
        await proxied.delete("/models"),
    ]
    assert [422, 404, 404, 405] == [answer.status_code for answer in refused]
    for answer in refused:
        assert answer.json()["type"].startswith(f"{PREFIX}/problems/")
        assert 200 == (await proxied.get(f"http://onepass{answer.json()['type']}")).status_code
    assert ["error"] == [*(await proxied.get("/v2/nowhere")).json()]


async def test_every_link_leads_somewhere(proxied):
    """Of the pages, of what they load, of Swagger UI and of llms.txt; all of them under the prefix."""
    seen = set()
    for path in ("/", "/ui/models/m", "/guide", "/guide/running-it", "/problems", "/docs", "/redoc", "/llms.txt"):
        answer = await proxied.get(path)
        assert 200 == answer.status_code
        links = re.findall(r'(?:href|src|data-document|spec-url)="([^"#]+)"|\]\(([^)]+)\)', answer.text)
        assert links
        for link in sorted({one or other for one, other in links}):
            target = httpx.URL(f"http://onepass{PREFIX}{path}").join(link)
            assert target.path.startswith(f"{PREFIX}/"), (path, link)
            if "/ui/models/" not in target.path and target not in seen:
                seen.add(target)
                assert 200 == (await proxied.get(target)).status_code, (path, link)


async def test_the_document_says_where_the_service_is(proxied):
    """Swagger UI sends its requests to the first of the servers."""
    assert [{"url": PREFIX}] == (await proxied.get("/openapi.json")).json()["servers"]


async def test_the_prefix_alone_leads_to_the_page(start):
    """Links of the page are relative, so its address has to end with a slash; the redirect names no host. Events flow
    below the prefix, too.
    """
    api = await start(root_path=PREFIX)
    answer = await api.ask("GET", PREFIX)
    assert (307, f"{PREFIX}/") == (answer.status_code, answer.headers["location"])
    assert "x-request-id" in answer.headers
    async with EventClient(api.app, f"{PREFIX}/drift/stream", {}) as stream:
        assert "start" == (await stream.next()).event


async def test_what_the_server_refuses_itself(start):
    """A head that is too long is refused with an address under the prefix."""
    build(Settings(root_path=PREFIX))
    async with running(LocalServer(None)) as server:
        answer = await server.answer(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200)
        assert f"{PREFIX}/problems/head-too-large" == json.loads(answer.partition(b"\r\n\r\n")[2])["type"]


@pytest.mark.parametrize(
    "text", ["ml", "/ml//x", "/ml?x", "/../ml", "/models", "/static/x", "http://h/ml", "/a/models/b"]
)
def test_what_is_no_root_path_is_said(text):
    """Something else than a path, one of the service's own, or one after which balancers find another model's name."""
    with pytest.raises(ValueError, match="ONEPASS_ROOT_PATH"):
        validated(Settings(root_path=text))


def test_the_paths_of_the_service_are_known_before_it_is_imported():
    """So ``onepass settings`` refuses them as well."""
    assert OWN == {route.path.split("/")[1] for route in create_app().routes} - {""}


def test_a_slash_at_the_end_means_nothing():
    """Nor does the root itself."""
    assert ("", "", "/ml") == (parse(""), parse("/"), parse("/ml/"))


def asked(client: str, **headers: str) -> dict:
    """A request that comes from an address."""
    found = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"method": "POST", "client": (client, 1), "headers": found}


async def test_a_host_is_what_was_asked_for():
    """A header that any client may send does not change it; proxies are given as networks."""
    guard = Guard("shop.example", (), proxies_of("10.0.0.0/8, ::1"))
    guard.check(asked("10.1.2.3", host="shop.example", x_forwarded_host="evil.example"))
    for client in ("10.1.2.3", "11.1.2.3", "::1"):
        with pytest.raises(Forbidden):
            guard.check(asked(client, host="evil.example", x_forwarded_host="shop.example"))
    with pytest.raises(ValueError, match="ONEPASS_TRUSTED_PROXIES: 'proxy.example'"):
        proxies_of("10.0.0.1,proxy.example")  # a name is not looked up
