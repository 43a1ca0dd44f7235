"""nginx and HAProxy as deploy/proxies.md has them, in front of a service: https, a prefix, events, streams of rows."""

import asyncio
import contextlib
import json
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import trustme

from service.server.tls import Certificates
from tests.deploy.balancers import PATIENCE_S, ROOT, binary, free_port, until_listening
from tests.deploy.stub_service import StubService
from tests.service.api_fixtures import DFOP, features, own_settings, start, store_url
from tests.service.local_server import LocalServer, running
from tests.service.stream_client import StreamClient, lines_of

__all__ = ["own_settings", "start", "store_url"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = ROOT / "deploy/proxies.md"
INSTEAD = {"nginx": r"^ *proxy_pass .*\n", "haproxy": r"^ *server .*\n"}
"""The lines that those of https to the service replace."""
CHECK = {"nginx": ["-t", "-e", "stderr", "-c"], "haproxy": ["-c", "-f"]}


def example(kind: str) -> str:
    """The configuration that the page has."""
    return _blocks(kind)[0]


def example_with_certificates(kind: str) -> str:
    """The same with the lines of https to the service."""
    configuration, lines = _blocks(kind)
    changed, times = re.subn(INSTEAD[kind], lines, configuration, flags=re.MULTILINE)
    assert 1 == times
    return changed


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


class Site:
    """A proxy in front of a service.

    Attributes:
        port: of the proxy.
        trust: who trusts its certificate.
    """

    def __init__(self, port: int, trust: ssl.SSLContext, client: httpx.AsyncClient) -> None:
        self.port, self.trust, self.client = port, trust, client


@contextlib.asynccontextmanager
async def proxying(kind: str, text: str, place: Path, port: int, service: int) -> AsyncIterator[None]:
    """Run a proxy that has checked its configuration, with files in ``place``."""
    program, config = binary(kind), place / "config"
    text = text.replace("/etc/onepass/", f"{place}/")
    config.write_text(text.replace("8443", str(port)).replace("8001", str(service)))
    own = ["-g", f"daemon off; pid {place}/pid;"] if kind == "nginx" else []
    checked = subprocess.run([program, *CHECK[kind], str(config), *own], capture_output=True, text=True)
    assert 0 == checked.returncode, checked.stderr
    run = ["-e", "stderr", "-p", str(place), "-c"] if kind == "nginx" else ["-db", "-f"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen([program, *run, str(config), *own], stdout=log, stderr=log)
    try:
        await until_listening(port, process, place / "log")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CHECK)
async def site(request, tmp_path_factory, start):
    """Each of the proxies; what its own check says of the configuration is the first test."""
    place, port = tmp_path_factory.mktemp(request.param), free_port()
    ca, trust = trustme.CA(), ssl.create_default_context()
    ca.configure_trust(trust)
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(place / "tls.pem"))
    api = await start(root_path="/ml")
    async with (
        running(LocalServer(api.app, short_way=api.app.short_way)) as service,
        proxying(request.param, example(request.param), place, port, service.port),
        httpx.AsyncClient(base_url=f"https://127.0.0.1:{port}/ml", verify=trust, timeout=PATIENCE_S) as client,
    ):
        assert 201 == (await client.put("/models/m", json=DFOP)).status_code
        yield Site(port, trust, client)
        await client.delete("/models/m")


async def test_pages_and_refusals_are_under_the_prefix(site):
    """The page, what it loads, Swagger UI's document, and the page of a problem."""
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


async def test_what_a_browser_sends_is_of_this_site(site):
    """The guard compares the origin with the host that the proxy was asked for."""
    row = {"features": features(0), "label": "UP"}
    for origin, status in [(f"https://127.0.0.1:{site.port}", 200), ("https://evil.example", 403)]:
        answer = await site.client.post("/models/m/feedback", json=row, headers={"Origin": origin})
        assert status == answer.status_code


async def test_events_come_at_once(site):
    """The first event of a model's page is there while the stream goes on."""
    async with site.client.stream("GET", "/models/m/stream") as answer, asyncio.timeout(PATIENCE_S):
        async for line in answer.aiter_lines():
            if line.startswith("event:"):
                assert line == "event: model"
                break


@pytest.mark.parametrize("expects", [False, True], ids=["at once", "100 Continue"])
async def test_rows_flow_both_ways(site, expects):
    """Each row of a stream is answered before the next one is sent; curl waits for 100 Continue before the first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=site.trust, server_hostname="127.0.0.1")
    stream = StreamClient(reader, writer)
    writer.write(
        b"POST /ml/models/m/feedback/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
        + b"Expect: 100-continue\r\n" * expects
        + b"\r\n"
    )
    if expects:
        assert b"100" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
    seen = b""
    for number in range(3):
        await stream.send(lines_of([{"features": features(number), "label": "DOWN"}]))
        async with asyncio.timeout(PATIENCE_S):
            while seen.count(b'"version"') <= number:
                seen += await reader.read(65536)
    assert b"200 OK" in seen
    lines = re.findall(rb"^\{.*\}$", seen.replace(b"\r", b""), re.MULTILINE)
    assert 3 == len({json.loads(line)["version"] for line in lines})
    await stream.end()
    assert (await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE_S)).endswith(b"0\r\n\r\n")
    writer.transport.abort()


@pytest.mark.parametrize("shown", [True, False], ids=["its own", "one of another authority"])
@pytest.mark.parametrize("kind", CHECK)
async def test_a_proxy_shows_the_service_its_certificate(kind, shown, tmp_path):
    """It is let in by a service that asks for one of its authority, and with another one it is not."""
    binary(kind)
    ca, trust, port = trustme.CA(), ssl.create_default_context(), free_port()
    ca.configure_trust(trust)
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    proxy = (ca if shown else trustme.CA()).issue_cert("proxy.internal")
    certificates = {"tls": ca.issue_cert("127.0.0.1"), "service": ca.issue_cert("onepass.internal"), "proxy": proxy}
    for name, certificate in certificates.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    tls = Certificates(tmp_path / "service.pem", None, tmp_path / "ca.pem").context
    async with (
        StubService("one", tls).running() as service,
        proxying(kind, example_with_certificates(kind), tmp_path, port, service.port),
        httpx.AsyncClient(verify=trust, timeout=PATIENCE_S) as client,
    ):
        answer = await client.get(f"https://127.0.0.1:{port}/ml/models/m")
        if shown:
            assert (200, "one") == (answer.status_code, answer.text)
        else:
            assert answer.status_code in (400, 502, 503)
            assert [] == service.asked
