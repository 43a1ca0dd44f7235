"""Fixtures of the tests of commands: one running service for all of a worker, and a shell on it."""

import csv
import gzip
import http.server
import io
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

import httpx
import pytest

from service.client import app, private
from service.client.session import Session

Shell = Callable[..., tuple[int, str, str]]
Answer = Callable[[str], tuple[int, bytes] | None]
"""The status and body for a path; a body of ``breaks off`` loses its last byte, None closes the connection."""
Posted = tuple[str, Message, bytes]
"""Path, headers and body of a request."""


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A service, one for all tests of a worker: each test names its own models."""
    with private.session(ONEPASS_CHALLENGERS_MAX="32") as running:
        yield running.url


@pytest.fixture(scope="module")
def empty(url: str) -> str:
    """The same service without models: those of the modules before are gone."""
    for model in httpx.get(f"{url}/models?limit=1000").json()["models"]:
        httpx.delete(f"{url}/models/{model['name']}").raise_for_status()
    return url


@pytest.fixture
def shell(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a command on the service of the tests; its status, what it printed, what it complained of."""
    monkeypatch.setenv("ONEPASS_URL", url)
    monkeypatch.delenv("ONEPASS_API_KEY", raising=False)

    def run(*arguments: object, stdin: object = None) -> tuple[int, str, str]:
        if stdin is not None:
            content = io.BytesIO(stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode())
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(content)))
        capsys.readouterr()
        status = app.main([*map(str, arguments)])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def replay(shell: Shell, url: str) -> Shell:
    """Run ``onepass replay`` on the service of the tests."""
    return lambda file, *more, **given: shell("replay", file, "--label", "y", "--url", url, *more, **given)


@pytest.fixture
def compare(shell: Shell, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run ``onepass compare`` in an empty directory; its private service is that of the tests."""
    monkeypatch.setattr(private, "session", lambda *_, **__: Session(url, stays=False))
    monkeypatch.delenv("ONEPASS_URL")
    monkeypatch.chdir(tmp_path)
    return lambda file, *more: shell("compare", file, "--label", "y", *more)


def stream(path: Path, rows: int = 230, regression: bool = False) -> Path:
    """Write a learnable stream: two numbers, a text, the label."""
    rng = random.Random(7)
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "day", "y"])
        for _ in range(rows):
            a, b = rng.random(), rng.random()
            label = round(3 * a - b, 6) if regression else "UP" if a > b else "DOWN"
            writer.writerow([round(a, 4), round(b, 4), rng.choice(["mon", "tue, late", "3"]), label])
    return path


@contextmanager
def answering(answer: Answer, posted: list[Posted] | None = None) -> Iterator[str]:
    """A server that is not Onepass; ``posted``: receives every POST before it is answered."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if posted is not None:
                posted.append((self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def do_GET(self) -> None:
            found = answer(self.path.partition("?")[0])
            self.close_connection = True
            if found is None:
                return
            status, body = found
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 429:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(body[:-1] if body == b"breaks off" else body)

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
