"""One service over HTTP: where it is, what is sent, and what becomes of a bad network."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.client.replay import commands
from service.client.session import Service, Session
from tests.service.client.fixtures import Shell, stream

ROWS = 230


@pytest.mark.parametrize(
    ("error", "named"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "--ca"),
        ("Server disconnected without sending a response.", "https://"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] certificate required", "--client-cert"),
        ("[Errno 111] Connection refused", "onepass serve"),
    ],
)
def test_trouble_with_tls_names_the_option(error, named):
    """What OpenSSL and httpx say, with what to do about it."""
    assert named in str(Session("http://nobody.invalid")._unreachable(httpx.ConnectError(error)))


def test_where_a_service_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for, else the port of onepass serve on this machine, and no port that is none."""
    for port, address in (("8123", "8123"), ("", "8000"), ("0", "8000"), ("tcp://10.0.0.1:80", "8000")):
        monkeypatch.setenv("ONEPASS_PORT", port)
        assert f"http://127.0.0.1:{address}" == Service().address
        assert "http://there" == Service("http://there").address


def test_a_service_that_is_not_there(shell: Shell) -> None:
    """One line says how to start one, or how to name another."""
    status, _, complained = shell("models", "--url", "http://127.0.0.1:9")
    assert (1, 1) == (status, len(complained.splitlines()))
    assert "onepass serve" in complained
    assert "--url or ONEPASS_URL" in complained


def test_a_key_is_sent(shell: Shell, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By --key or ONEPASS_API_KEY, as a bearer token in UTF-8."""
    sent = []
    monkeypatch.setattr(
        httpx.Client,
        "request",
        lambda self, *_, **__: sent.append(dict(self.headers.raw)[b"Authorization"].decode()) or 1 / 0,
    )
    monkeypatch.setenv("ONEPASS_API_KEY", "from-variable")
    for arguments in ([], ["--key", "from-flag"], ["--key", "schlüssel"]):
        with pytest.raises(ZeroDivisionError):
            shell("models", *arguments)
    assert ["Bearer from-variable", "Bearer from-flag", "Bearer schlüssel"] == sent


# ------------------------------------------------------------------------------------------------ a bad network


class Between(http.server.BaseHTTPRequestHandler):
    """Stands between client and service: passes on, answers 503, or loses the answer, as ``plan`` says."""

    plan: list[str]
    seen: list[tuple[str, bytes]]
    keys: set[str | None]
    upstream: str

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = ""
        if self.command == "POST":
            self.seen.append((self.headers["Idempotency-Key"], body))
            self.keys.add(self.headers["Authorization"])
            fault = self.plan.pop(0) if self.plan else ""
        if fault in ("busy", "down"):
            self._answer(503, f'{{"type": "/problems/{"model-down" if fault == "down" else "x"}"}}'.encode())
            return
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        answer = httpx.request(self.command, self.upstream + self.path, content=body, headers=headers)
        if fault == "lose":
            self.close_connection = True
        else:
            self._answer(answer.status_code, answer.content)

    do_GET = do_PUT = do_POST = _pass  # noqa: N815  http.server asks for these names

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def between(url: str) -> Iterator[tuple[str, type[Between]]]:
    """Its URL, and the class that holds plan and record."""
    handler = type("Handler", (Between,), {"plan": [], "seen": [], "keys": set(), "upstream": url})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


def test_nothing_is_learned_twice(tmp_path: Path, shell: Shell, url: str, between: tuple) -> None:
    """A batch that met 503, or whose answer was lost, is sent again under the same key, with the API key."""
    there, handler = between
    handler.plan[:] = ["busy", "busy", "", "lose", ""]
    options = ["--label", "y", "--algorithm", "dfop", "--drop", "day", "--url", there, "--key", "mine", "--batch", 100]
    status, said, _ = shell("replay", stream(tmp_path / "shaky.csv"), *options)
    assert (0, True, False) == (status, f"{ROWS} rows in" in said, "learned before" in said)
    assert ROWS == httpx.get(f"{url}/models/shaky").json()["rows"]
    assert [1, 1, 1] == [len(set(tries)) for tries in (handler.seen[:3], handler.seen[3:5], handler.seen[5:])]
    assert 3 == len({key for key, _ in handler.seen})
    assert {"Bearer mine"} == handler.keys


def test_patience_ends(tmp_path: Path, shell: Shell, between: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that stays busy is given up; a model that is out of service at once."""
    there, handler = between
    monkeypatch.setattr(commands, "PATIENCE_S", 0.1)
    command = ["replay", stream(tmp_path / "stuck.csv"), "--label", "y", "--drop", "day", "--url", there]
    handler.plan[:] = ["busy"] * 100_000
    assert 1 == shell(*command)[0]
    assert len(handler.seen) > 1
    handler.plan[:], handler.seen[:] = ["down"] * 9, []
    assert 1 == shell(*command)[0]
    assert 1 == len(handler.seen)
