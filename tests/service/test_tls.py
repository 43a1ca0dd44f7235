"""TLS: certificates from files, the bounds of connections behind it, and the commands that are clients of it."""

import asyncio
import json
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import trustme
import uvloop

from service import cli
from service.app import build
from service.server import http_protocol, tls
from service.server.certificates import Certificates, from_settings
from service.server.http_protocol import HEAD_LINES_MAX, REFUSED_OPEN_MAX, bounded
from service.server.tls import secured
from service.settings import Settings
from tests.service.local_server import LocalServer, running
from tests.service.test_cli import serving
from tests.service.test_http_protocol import GET, echo, problem, status

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def pem(ca: trustme.CA, tmp_path: Path) -> Path:
    """A certificate of this machine and its key, in one file."""
    file = tmp_path / "own.pem"
    ca.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


class SecureServer(LocalServer):
    def __init__(self, app, certificates: Certificates, ca: trustme.CA, connections_max: int = 100) -> None:
        super().__init__(app, connections_max)
        self.certificates = certificates
        self.trust = ssl.create_default_context()
        ca.configure_trust(self.trust)

    def protocol(self):
        plain = bounded(self.gate, self.short_way)
        made = secured(plain, self.gate, self.certificates)
        return made(config=self.config, server_state=self.state, app_state={})

    async def connect_plain(self):
        return await super().connect()

    async def connect(self, limit: int = 2**16):
        found = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=limit, ssl=self.trust, server_hostname="localhost"
        )
        self._writers.append(found[1])
        return found


@pytest.fixture(params=LOOPS)
def on_loop(request):
    """Runs a test on the loop of the service, and on the one where there is no uvloop."""

    def run(story) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(story)

    return run


async def both_ways(scope, receive, send) -> None:
    """Answers each part of a body when it comes."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
        await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": more})


async def refusing(scope, receive, send) -> None:
    """Refuses a body of which it has read nothing, as endpoints do."""
    connection = scope[http_protocol.CONNECTION]
    connection.linger(scope)
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"much"})


async def settled(server: LocalServer, count: int) -> None:
    """Wait until so many connections are open."""
    async with asyncio.timeout(10):
        while count != len(server.state.connections):
            await asyncio.sleep(0.01)


def test_requests_are_answered(on_loop, ca, pem):
    """One request and several on a connection; each loop hands over what it has read before TLS began."""

    async def story():
        async with running(SecureServer(echo, Certificates(pem), ca)) as server:
            for _ in range(3):
                answer = await server.answer(GET + b"\r\n" + GET + b"Connection: close\r\n\r\n")
                assert 2 == answer.count(b"HTTP/1.1 200 OK")
            await settled(server, 0)

    on_loop(story())


def test_a_body_and_its_answer_flow_at_once(on_loop, ca, pem):
    """Each part of a body is answered before the next one is sent."""

    async def story():
        async with running(SecureServer(both_ways, Certificates(pem), ca)) as server:
            reader, writer = await server.connect()
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            for part in (b"one", b"two" * 100_000, b"three"):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                got = b""
                while len(got) < len(part):
                    size = int(await asyncio.wait_for(reader.readline(), 10), 16)
                    got += (await reader.readexactly(size + 2))[:-2]
                assert part == got

    on_loop(story())


def test_bounds_hold(on_loop, ca, pem, monkeypatch):
    """A head without end is refused in words that arrive; one that is late, and a silent client, are closed."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.2)
    monkeypatch.setattr(tls, "HEAD_S", 0.2)
    monkeypatch.setattr(http_protocol, "LINGER_S", 0.2)

    async def story():
        async with running(SecureServer(echo, Certificates(pem), ca)) as server:
            answer = await server.answer(GET + b"X-A: b\r\n" * (HEAD_LINES_MAX + 1) + b"\r\n")
            assert (431, "/problems/head-too-large") == (status(answer), problem(answer)["type"])
            assert b"" == await server.answer(GET)
            reader, _ = await server.connect_plain()
            assert b"" == await asyncio.wait_for(reader.read(), 10)

    on_loop(story())


def test_a_refused_body_does_not_take_the_answer_away(on_loop, ca, pem):
    """A client that has sent more than is read finds the whole answer, then the end."""

    async def story():
        async with running(SecureServer(refusing, Certificates(pem), ca)) as server:
            reader, writer = await server.connect()
            writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 30000000\r\n\r\n" + b"x" * 2**20)
            answer = await asyncio.wait_for(reader.readuntil(b"much"), 10)
            assert 413 == status(answer)
            writer.write(b"x" * 2**20)
            assert b"" == await asyncio.wait_for(reader.read(), 10)

    on_loop(story())


def test_handshakes_count_as_connections(on_loop, ca, pem):
    """Clients that connect and say nothing take places; one more is told 503, and many more are closed at once."""

    async def story():
        async with running(SecureServer(echo, Certificates(pem), ca, connections_max=2)) as server:
            silent = [await server.connect_plain() for _ in range(2)]
            await settled(server, 2)
            assert 503 == status(await server.answer(GET + b"\r\n"))
            silent += [await server.connect_plain() for _ in range(REFUSED_OPEN_MAX)]
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for((await server.connect_plain())[0].readexactly(1), 5)
            await settled(server, len(silent))

    on_loop(story())


def test_what_is_no_tls_is_closed(on_loop, ca, pem):
    """Plain HTTP and a client that does not trust the certificate leave nothing behind."""

    async def story():
        async with running(SecureServer(echo, Certificates(pem), ca)) as server:
            reader, writer = await server.connect_plain()
            writer.write(GET + b"\r\n")
            assert b"200" not in await asyncio.wait_for(reader.read(), 10)
            server.trust = ssl.create_default_context()
            with pytest.raises(ssl.SSLCertVerificationError):
                await server.connect()
            await settled(server, 0)

    on_loop(story())


async def test_new_certificates_are_used_without_a_restart(ca, pem, caplog):
    """A file that fits replaces the one in use; one that does not is said once, and changes nothing."""
    certificates = Certificates(pem)
    before, good = certificates.context, pem.read_bytes()
    pem.write_text("no certificate")
    certificates.look()
    certificates.look()
    assert before is certificates.context
    assert 1 == sum("stays in use" in line for line in caplog.messages)
    pem.write_bytes(good + b"\n")
    certificates.look()
    assert before is not certificates.context


def test_files_that_cannot_be_used_are_named(ca, pem, tmp_path):
    """Each setting, and what is wrong with its file."""
    gone, text, other = tmp_path / "gone.pem", tmp_path / "text.pem", tmp_path / "other.pem"
    text.write_text("text")
    ca.issue_cert("localhost").private_key_pem.write_to_path(str(other))
    with pytest.raises(ValueError, match="ONEPASS_TLS_CERT: .*gone.pem cannot be read: No such file"):
        from_settings(gone, None, None)
    with pytest.raises(ValueError, match="ONEPASS_TLS_CERT, ONEPASS_TLS_KEY: .* are no PEM certificate and its"):
        from_settings(text, None, None)
    with pytest.raises(ValueError, match="private key .KEY_VALUES_MISMATCH"):
        from_settings(pem, other, None)
    with pytest.raises(ValueError, match="ONEPASS_TLS_CA: .*text.pem holds no PEM"):
        from_settings(pem, None, text)
    with pytest.raises(ValueError, match="ONEPASS_TLS_KEY: there is no certificate: set ONEPASS_TLS_CERT"):
        from_settings(None, pem, None)
    assert from_settings(None, None, None) is None


@pytest.mark.parametrize("year", [2020, 2040])
def test_the_last_day_of_a_certificate_is_told(ca, tmp_path, year):
    """Of the one that is shown, expired or not, with clients that need one or not; the next one's when it is read."""
    file, authority = tmp_path / "own.pem", tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(authority))
    last, first = (datetime(at, 3, 1, 12, tzinfo=UTC) for at in (year, 2019))
    issued = ca.issue_cert("localhost", not_before=first, not_after=last)
    issued.private_key_and_cert_chain_pem.write_to_path(str(file))
    found = [Certificates(file), Certificates(file, None, authority)]
    assert [last.timestamp()] * 2 == [one.expires for one in found]
    assert [ssl.CERT_NONE, ssl.CERT_REQUIRED] == [one.context.verify_mode for one in found]
    renewed = ca.issue_cert("localhost", not_before=first, not_after=last + timedelta(days=90))
    renewed.private_key_and_cert_chain_pem.write_to_path(str(file))
    found[1].look()
    assert (last + timedelta(days=90)).timestamp() == found[1].expires


async def test_the_last_day_of_a_certificate_is_a_metric(own_settings, tmp_path, monkeypatch):
    """As it is now; without a certificate there is no number."""
    days = [86_400.0]
    name = "onepass_certificate_expires_timestamp_seconds"
    for told, expected in ((lambda: days[0], [f"{name} 86400.0"]), (lambda: None, [])):
        app = build(Settings(data_dir=tmp_path), certificate_expires=told)
        async with app.router.lifespan_context(app):
            text, _ = await app.state.context.telemetry.render()
            assert expected == [line for line in text.decode().splitlines() if line.startswith(f"{name} ")]


def test_a_key_with_a_password_is_refused(ca, pem, tmp_path):
    """OpenSSL would ask for it at the terminal."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem.read_bytes().partition(b"-----BEGIN CERT")[0], None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(ValueError, match="the private key is encrypted"):
        from_settings(pem, locked, None)


def test_commands_talk_to_an_https_service(ca, pem, tmp_path, capsys, monkeypatch):
    """A service that asks for certificates: commands with --ca and --client-cert, a stream, and whom it lets in."""
    trusted, client, rows = tmp_path / "ca.pem", tmp_path / "client.pem", tmp_path / "rows.csv"
    ca.cert_pem.write_to_path(str(trusted))
    ca.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(client))
    rows.write_text("a,y\n" + "".join(f"{n},{2 * n}\n" for n in range(20)))
    with serving(tmp_path / "data", ONEPASS_TLS_CERT=str(pem), ONEPASS_TLS_CA=str(trusted)) as (_, http):
        url = http.replace("http:", "https:")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/healthz", timeout=60, verify=ssl.create_default_context(cafile=trusted))
        shown = ssl.create_default_context(cafile=trusted)
        shown.load_cert_chain(client)
        told = httpx.get(f"{url}/metrics", timeout=60, verify=shown).text
        (expires,) = re.findall(r"^onepass_certificate_expires_timestamp_seconds (\S+)$", told, re.MULTILINE)
        assert Certificates(pem).expires == float(expires)
        own = ["--url", url, "--ca", str(trusted), "--client-cert", str(client)]
        sent = [str(rows), "--label", "y", "--name", "tls", "--stream", "--task", "regression", "--json"]
        assert 0 == cli.main(["replay", *sent, *own]), capsys.readouterr().err
        assert 20 == json.loads(capsys.readouterr().out)["rows"]
        monkeypatch.setenv("ONEPASS_CA", str(trusted))
        monkeypatch.setenv("ONEPASS_CLIENT_CERT", str(client))
        assert 0 == cli.main(["models", "--url", url])
        assert re.search(r"^\s*tls\b", capsys.readouterr().out, re.MULTILINE)
        assert 1 == cli.main(["models", "--url", url, "--ca", str(rows)])
        assert f"--ca {rows}: is not PEM" in capsys.readouterr().err
