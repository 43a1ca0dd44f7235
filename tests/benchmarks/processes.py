"""The processes of a benchmark: the service with a private store, the echo service, the load generator."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil

from tests.benchmarks.load import Job, Tally

ROOT = Path(__file__).resolve().parents[2]
START_S_MAX = 60.0
STOP_S_MAX = 90.0
STORES = ("redis-server", "valkey-server")


class Used(NamedTuple):
    """CPU seconds so far."""

    service: float
    store: float


class Process:
    """A server in a process of its own, stopped when the ``with`` block ends.

    Args:
        command: what follows ``python``; PORT stands for the port.
        environment: added to this process's, of which ONEPASS_* is left out.
        checkout: whose code runs: another checkout's runs with the Python of its .venv.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None, checkout: Path = ROOT) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_")}
        self._command, self._environment = command, {**inherited, **(environment or {})}
        self._python = sys.executable if checkout == ROOT else str(checkout / ".venv" / "bin" / "python")
        self._checkout = checkout
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self, port: int = 0) -> float:
        """Start, on a port or on a free one, and wait until it answers; how many seconds that took."""
        begun = time.monotonic()
        self.port = port or free_port()
        command = [part.replace("PORT", str(self.port)) for part in self._command]
        self._process = subprocess.Popen([self._python, *command], cwd=self._checkout, env=self._environment)
        self.system = psutil.Process(self._process.pid)
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > begun + START_S_MAX:
                self._process.kill()
                raise RuntimeError(f"{' '.join(command)} does not come up")
            time.sleep(0.02)
        return time.monotonic() - begun

    def _answers(self) -> bool:
        try:
            return self.call("GET", "/readyz")[0] in (200, 404)  # the echo service has no such route
        except OSError:
            return False

    def stop(self) -> float:
        """Ask it to end and wait; how many seconds that took."""
        begun = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        return time.monotonic() - begun

    def kill(self) -> None:
        """End it without a word; its private store ends by itself soon after."""
        self._process.kill()
        self._process.wait()

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """One request; status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

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
    """The echo service."""

    def __init__(self) -> None:
        super().__init__(["-m", "tests.benchmarks.echo", "PORT"])


class Service(Process):
    """``onepass serve`` with a private store in a directory of its own.

    Args:
        checkout: whose code runs.
        settings: without their prefix, e.g. durability="always".
    """

    def __init__(self, checkout: Path = ROOT, **settings: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="onepass-bench-"))
        given = {f"ONEPASS_{name.upper()}": value for name, value in settings.items()}
        given |= {"ONEPASS_DATA_DIR": str(self.directory), "ONEPASS_LOG_LEVEL": "warning"}
        module = "service.client" if (checkout / "service/client").is_dir() else "service.cli"  # of an older checkout
        super().__init__(["-m", module, "serve", "--host", "127.0.0.1", "--port", "PORT"], given, checkout)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.remove()

    def remove(self) -> None:
        """Remove its directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def create(self, name: str, body: Mapping[str, Any]) -> None:
        """PUT a model."""
        status, answer = self.call("PUT", f"/models/{name}", body)
        if status not in (200, 201):
            raise RuntimeError(f"PUT {name}: {status} {answer!r}")

    def rows(self, name: str) -> int:
        """Rows that a model says it has learned."""
        return int(json.loads(self.call("GET", f"/models/{name}")[1])["rows"])

    def counter(self, name: str) -> float:
        """One number of GET /metrics."""
        for line in self.call("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise RuntimeError(f"/metrics has no {name}")

    @property
    def socket(self) -> Path:
        """Where the private store listens."""
        return self.directory / "store.sock"


class Load:
    """The load generator."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.load"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.stdin.close()
        self._process.wait(10)

    def run(self, job: Job) -> Tally:
        """Carry out one job.

        Raises:
            RuntimeError: the generator died, or an answer was not what it should have been.
        """
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the load generator died")
        tally = Tally(**json.loads(answer))
        if tally.others:
            raise RuntimeError(f"{job.kind} {job.path}: answers that were not 200: {tally.others}")
        return tally


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
