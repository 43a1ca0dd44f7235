"""TLS: uvicorn's options from settings, the bounds of connections behind it, and commands that are clients of it."""

import asyncio
import gc
import json
import re
import socket
import ssl
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import trustme
import uvloop
from cryptography.hazmat.primitives import serialization

from service.client import app
from service.client import serving as commands
from service.server import handshakes, http_protocol, progress
from service.server.http_protocol import HEAD_LINES_MAX, REFUSED_OPEN_MAX
from service.server.tls import options
from tests.service.client.test_serving import await_listening, serving
from tests.service.local_server import LocalServer, running
from tests.service.server.test_http_protocol import GET, echo, problem, status
from tests.service.waiting import until

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
    def __init__(self, pem: Path, ca: trustme.CA, connections_max: int = 100) -> None:
        super().__init__(echo, connections_max)
        self.tls, self.trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        self.tls.load_cert_chain(pem)
        ca.configure_trust(self.trust)
        handshakes.bound(self.tls, self.gate, self.state.connections, asyncio.get_running_loop())

    async def connect(self, limit: int = 2**16):
        found = await asyncio.open_connection(
            "127.0.0.1", self.port, limit=limit, ssl=self.trust, server_hostname="localhost"
        )
        self._writers.append(found[1])
        return found


@pytest.mark.parametrize("loop", LOOPS)
def test_bounds_hold(loop, ca, pem, monkeypatch):
    """Requests are answered; a head without end is refused in words that arrive, one that is late is closed."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.2)
    monkeypatch.setattr(http_protocol, "LINGER_S", 0.2)

    async def story():
        async with running(SecureServer(pem, ca)) as server:
            answer = await server.answer(GET + b"\r\n" + GET + b"Connection: close\r\n\r\n")
            assert 2 == answer.count(b"HTTP/1.1 200 OK")
            answer = await server.answer(GET + b"X-A: b\r\n" * (HEAD_LINES_MAX + 1) + b"\r\n")
            assert (431, "/problems/head-too-large") == (status(answer), problem(answer)["type"])
            assert b"" == await server.answer(GET)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stop_gives_answers_no_less_time(loop, ca, pem):
    """The loop does not count what the socket has yet to send, so a client that reads may seem to read nothing."""

    async def story():
        async with running(SecureServer(pem, ca)) as server:
            _, writer = await server.connect()
            writer.write(GET)
            (own,) = await until(lambda: [*server.state.connections])
            own.shutdown()
            own.pause_writing()
            assert progress.STALL_S == own._answer.stall_s

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a handshake."""


@pytest.mark.parametrize("loop", LOOPS)
def test_handshakes_without_end_count_as_connections_and_are_closed(loop, ca, pem, monkeypatch):
    """Excess ones at once; the others when they are late; those that the client gives up no longer count."""
    monkeypatch.setattr(http_protocol, "HEAD_S", 3.0)

    async def story():
        async with running(SecureServer(pem, ca, connections_max=10)) as server:

            async def begin(sent: bytes) -> asyncio.StreamReader:
                reader, writer = await LocalServer.connect(server)
                writer.write(sent)
                return reader

            async def none_counts() -> None:
                async with asyncio.timeout(1.5):
                    while server.gate.handshakes:
                        await asyncio.sleep(0.01)
                        if loop == "asyncio":  # keeps those that failed in cycles
                            gc.collect()

            for sent in (b"", HELLO, b"no TLS"):
                for _ in range(10 + REFUSED_OPEN_MAX):
                    await begin(sent)
                    server._writers.pop().close()
                await none_counts()
            begun = [await begin(HELLO if number % 2 else b"") for number in range(10 + REFUSED_OPEN_MAX)]
            assert b"" == await asyncio.wait_for((await begin(HELLO)).read(), 1)
            assert [503] == server.refused
            assert not any(reader.at_eof() for reader in begun)
            assert [b""] * len(begun) == await asyncio.wait_for(asyncio.gather(*(one.read() for one in begun)), 10)
            await none_counts()
            reader, writer = await server.connect()
            writer.write(GET + b"\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            assert not server.gate.handshakes  # one that is complete is a connection

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())


def test_files_that_cannot_be_used_are_named(ca, pem, tmp_path):
    """Each setting, and what is wrong with its file."""
    gone, text, other = tmp_path / "gone.pem", tmp_path / "text.pem", tmp_path / "other.pem"
    text.write_text("text")
    ca.issue_cert("localhost").private_key_pem.write_to_path(str(other))
    with pytest.raises(ValueError, match="ONEPASS_TLS_CERT: .*gone.pem cannot be read: No such file"):
        options(gone, None, None)
    with pytest.raises(ValueError, match="ONEPASS_TLS_CERT, ONEPASS_TLS_KEY: .* are not a PEM certificate and its"):
        options(text, None, None)
    with pytest.raises(ValueError, match="private key .KEY_VALUES_MISMATCH"):
        options(pem, other, None)
    with pytest.raises(ValueError, match="ONEPASS_TLS_CA: .*text.pem contains no PEM"):
        options(pem, None, text)
    with pytest.raises(ValueError, match="ONEPASS_TLS_KEY: there is no certificate; set ONEPASS_TLS_CERT"):
        options(None, pem, None)
    assert {} == options(None, None, None)


def test_a_key_with_a_password_is_refused(pem, tmp_path):
    """OpenSSL would ask for it at the terminal."""
    key = serialization.load_pem_private_key(pem.read_bytes().partition(b"-----BEGIN CERT")[0], None)
    locked = tmp_path / "locked.pem"
    form, password = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"password")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, password))
    with pytest.raises(ValueError, match="the private key is encrypted"):
        options(pem, locked, None)


def test_a_wrong_key_ends_the_start_before_kernels_are_compiled(ca, pem, tmp_path, own_settings, capsys, monkeypatch):
    """One line that names both settings, and exit status 2."""
    other = tmp_path / "other.pem"
    ca.issue_cert("localhost").private_key_pem.write_to_path(str(other))
    monkeypatch.setattr(commands, "_compile_kernels", lambda: pytest.fail("kernels come first"))
    wrong = ["--data-dir", str(tmp_path / "data"), "--tls-cert", str(pem), "--tls-key", str(other)]
    assert 2 == app.main(["serve", *wrong])
    assert "ONEPASS_TLS_CERT, ONEPASS_TLS_KEY: " in capsys.readouterr().err


@pytest.mark.slow
def test_commands_talk_to_an_https_service(ca, pem, tmp_path, capsys, monkeypatch):
    """A service that asks for certificates: commands with --ca and --client-cert, whom it lets in, and how many."""
    trusted, client, rows = tmp_path / "ca.pem", tmp_path / "client.pem", tmp_path / "rows.csv"
    ca.cert_pem.write_to_path(str(trusted))
    ca.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(client))
    rows.write_text("a,y\n" + "".join(f"{n},{2 * n}\n" for n in range(20)))
    settings = {"TLS_CERT": str(pem), "TLS_CA": str(trusted), "CONNECTIONS_MAX": "20"}
    with serving(tmp_path / "data", **{f"ONEPASS_{name}": value for name, value in settings.items()}) as (_, http):
        url = http.replace("http:", "https:")
        await_listening(url)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/healthz", timeout=60, verify=ssl.create_default_context(cafile=trusted))
        own = ["--url", url, "--ca", str(trusted), "--client-cert", str(client)]
        sent = [str(rows), "--label", "y", "--name", "tls", "--task", "regression", "--json"]
        assert 0 == app.main(["replay", *sent, *own]), capsys.readouterr().err
        assert 20 == json.loads(capsys.readouterr().out)["rows"]
        monkeypatch.setenv("ONEPASS_CA", str(trusted))
        monkeypatch.setenv("ONEPASS_CLIENT_CERT", str(client))
        assert 0 == app.main(["models", "--url", url])
        assert re.search(r"^\s*tls\b", capsys.readouterr().out, re.MULTILINE)
        assert 1 == app.main(["models", "--url", url, "--ca", str(rows)])
        assert f"--ca {rows}: is not PEM" in capsys.readouterr().err
        with ExitStack() as begun:  # handshakes without end
            connect = partial(socket.create_connection, (urlsplit(url).hostname, urlsplit(url).port), timeout=5)
            *_, last = [begun.enter_context(connect()) for _ in range(20 + REFUSED_OPEN_MAX + 1)]
            assert b"" == last.recv(1)
