"""The processes of a benchmark: the service with a private store, the echo service, a peer."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "tests" / "benchmarks" / "out"
START_S_MAX, STOP_S_MAX = 240.0, 90.0
STORES = ("redis-server", "valkey-server")
KEY = "a-key-of-the-benchmarks"


class Used(NamedTuple):
    """CPU seconds so far."""

    service: float
    store: float


class Process:
    """A server in a process of its own, stopped when the ``with`` block ends.

    Args:
        command: what follows ``python``; PORT stands for the port.
        environment: added to this process's, of which ONEPASS_* is left out.
        checkout: whose code runs, by the Python of its .venv unless ``python`` is given.
    """

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str] | None = None,
        checkout: Path = ROOT,
        python: Path | None = None,
    ) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_")}
        self._command, self._environment = command, {**inherited, **(environment or {})}
        own = Path(sys.executable) if checkout == ROOT else checkout / ".venv" / "bin" / "python"
        self._checkout, self._python = checkout, str(python or own)
        self.port, self.headers = 0, dict[str, str]()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, port: int = 0) -> float:
        """Start, on a port or on a free one, and wait until it answers; how many seconds that took."""
        begun = time.monotonic()
        self.port = port or free_port()
        command = [part.replace("PORT", str(self.port)) for part in self._command]
        self._process = subprocess.Popen(
            [self._python, *command], cwd=self._checkout, env=self._environment, stdout=subprocess.DEVNULL
        )
        self.system = psutil.Process(self._process.pid)
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > begun + START_S_MAX:
                self._process.kill()
                raise RuntimeError(f"{' '.join(command)} does not come up")
            time.sleep(0.02)
        return time.monotonic() - begun

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.call("GET", "/readyz")[0] in (200, 404)  # an echo has no such route
        return False

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def kill(self) -> None:
        """End it without a word; its private store ends by itself soon after."""
        self._process.kill()
        self._process.wait()

    def call(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """One request; status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**self.headers, "Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer, ``RuntimeError`` for a refusal; a body that is not bytes is sent as JSON."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        status, answer = self.call(method, path, sent)
        if status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {status} {answer[:500]!r}")
        return json.loads(answer)

    def used(self) -> Used:
        """CPU time of the server with its own worker processes, and of its store."""
        stores = self._stores()
        return Used(sum(map(_cpu_s, self.own_processes())), sum(map(_cpu_s, stores)))

    def own_processes(self) -> list[psutil.Process]:
        """The server and its children, the store excepted."""
        stores = self._stores()
        return [self.system, *(child for child in self.system.children(recursive=True) if child not in stores)]

    def _stores(self) -> list[psutil.Process]:
        return [child for child in self.system.children() if child.name() in STORES]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


class Echo(Process):
    """The echo service, and the plain application beside it."""

    def __init__(self) -> None:
        super().__init__(["-m", "tests.benchmarks.harness.echo", "PORT"])


class Service(Process):
    """``onepass serve`` with a key and a private store; settings have no prefix, and api_keys="" is for no key."""

    def __init__(self, checkout: Path = ROOT, **settings: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="onepass-bench-"))
        given = {"api_keys": f"bench:{KEY}:read+learn+admin", "data_dir": str(self.directory), "log_level": "warning"}
        environment = {f"ONEPASS_{name.upper()}": value for name, value in {**given, **settings}.items()}
        command = ["-m", "service.client", "serve", "--host", "127.0.0.1", "--port", "PORT"]
        super().__init__(command, environment, checkout)
        if environment["ONEPASS_API_KEYS"]:
            self.headers = {"Authorization": f"Bearer {KEY}"}

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.remove()

    def remove(self) -> None:
        """Remove what it has stored."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def create(self, name: str, body: Mapping[str, Any]) -> None:
        """PUT a model."""
        self.ask("PUT", f"/models/{name}", body)

    def rows(self, name: str) -> int:
        """Rows that a model says it has learned."""
        return int(self.ask("GET", f"/models/{name}")["rows"])

    def counter(self, name: str) -> float:
        """One number of GET /metrics."""
        for line in self.call("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise RuntimeError(f"/metrics has no {name}")

    def memory(self) -> int:
        """Resident bytes."""
        return int(self.system.memory_info().rss)

    @property
    def socket(self) -> Path:
        """Where the private store listens."""
        return self.directory / "store.sock"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
