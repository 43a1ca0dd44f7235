"""HAProxy as in deploy/proxies.md, in front of a service: https, a prefix, events."""

import asyncio
import contextlib
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trustme

from tests.deploy.balancers import PATIENCE_S, ROOT, binary, haproxy
from tests.deploy.stub_service import StubService
from tests.faults.servers import free_port
from tests.service.api_fixtures import DFOP, features, own_settings, start, store_url
from tests.service.local_server import LocalServer, running

__all__ = ["own_settings", "start", "store_url"]
PAGE = ROOT / "deploy/proxies.md"


def example() -> str:
    """The configuration on the page."""
    return _blocks()[0]


def example_with_certificates() -> str:
    """The same with the line for https to the service."""
    configuration, line = _blocks()
    changed, times = re.subn(r"^ *server .*\n", line, configuration, flags=re.MULTILINE)
    assert 1 == times
    return changed


def _blocks() -> list[str]:
    return re.findall(r"```haproxy\n(.*?)```", PAGE.read_text(), re.DOTALL)


class Site:
    """A proxy in front of a service: its port, and a context that trusts its certificate."""

    def __init__(self, port: int, trust: ssl.SSLContext, client: httpx.AsyncClient) -> None:
        self.port, self.trust, self.client = port, trust, client


@contextlib.asynccontextmanager
async def proxying(text: str, place: Path, port: int, service: int) -> AsyncIterator[None]:
    """Run a proxy after it has checked its configuration, with its files in ``place``."""
    config = place / "config"
    text = text.replace("/etc/onepass/", f"{place}/")
    config.write_text(text.replace("8443", str(port)).replace("8001", str(service)))
    checked = subprocess.run([binary(), "-c", "-f", str(config)], capture_output=True, text=True)
    assert 0 == checked.returncode, checked.stderr
    async with haproxy(config, port):
        yield


@pytest.fixture(scope="module")
async def site(tmp_path_factory, start):
    """The proxy; its own check of the configuration is the first test."""
    place, port = tmp_path_factory.mktemp("haproxy"), free_port()
    ca, trust = trustme.CA(), ssl.create_default_context()
    ca.configure_trust(trust)
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(place / "tls.pem"))
    api = await start(root_path="/ml")
    async with (
        running(LocalServer(api.app)) as service,
        proxying(example(), place, port, service.port),
        httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}/ml", verify=trust, timeout=PATIENCE_S) as client,
    ):
        assert 201 == (await client.put("/models/m", json=DFOP)).status_code
        yield Site(port, trust, client)
        await client.delete("/models/m")


async def test_pages_and_refusals_are_under_the_prefix(site):
    """The page and its resources, Swagger UI's document, and the page of a problem."""
    bare = await site.client.get(str(site.client.base_url).rstrip("/"))
    assert (308, "/ml/") == (bare.status_code, httpx.URL(bare.headers["location"]).path)
    page = await site.client.get("/")
    assert 200 == page.status_code
    [script] = re.findall(r'src="\./(ui/assets/\w+/shell\.js)"', page.text)
    assert 200 == (await site.client.get(f"/{script}")).status_code
    assert [{"url": "/ml"}] == (await site.client.get("/openapi.json")).json()["servers"]
    refused = (await site.client.get("/models/none")).json()
    assert "/ml/problems/not-found" == refused["type"]
    assert 200 == (await site.client.get(f"https://127.0.0.1:{site.port}{refused['type']}")).status_code


@pytest.mark.slow
async def test_requests_of_a_browser_are_same_origin(site):
    """The guard compares the origin with the host that the proxy was asked for."""
    row = {"features": features(0), "label": "UP"}
    for origin, status in [(f"https://127.0.0.1:{site.port}", 200), ("https://evil.example", 403)]:
        answer = await site.client.post("/models/m/feedback", json=row, headers={"Origin": origin})
        assert status == answer.status_code


@pytest.mark.slow
async def test_events_arrive_at_once(site):
    """The first event arrives while the stream is open."""
    async with site.client.stream("GET", "/drift/stream") as answer, asyncio.timeout(PATIENCE_S):
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                assert line == "event: start"
                break


@pytest.mark.parametrize("shown", [True, False], ids=["its own", "one of another authority"])
async def test_a_proxy_shows_the_service_its_certificate(shown, tmp_path):
    """A service that requires a certificate of its authority accepts it, and refuses one of another authority."""
    binary()
    ca, trust, port = trustme.CA(), ssl.create_default_context(), free_port()
    ca.configure_trust(trust)
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    proxy = (ca if shown else trustme.CA()).issue_cert("proxy.internal")
    certificates = {"tls": ca.issue_cert("127.0.0.1"), "service": ca.issue_cert("onepass.internal"), "proxy": proxy}
    for name, certificate in certificates.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
    tls.load_cert_chain(tmp_path / "service.pem")
    tls.verify_mode = ssl.CERT_REQUIRED
    async with (
        StubService("one", tls).running() as service,
        proxying(example_with_certificates(), tmp_path, port, service.port),
        httpx.AsyncClient(verify=trust, timeout=PATIENCE_S) as client,
    ):
        answer = await client.get(f"https://127.0.0.1:{port}/ml/models/m")
        if shown:
            assert (200, "one") == (answer.status_code, answer.text)
        else:
            assert answer.status_code in (400, 502, 503)
            assert [] == service.asked
