"""The service and its store as real processes, to be killed, stopped, frozen and restarted."""

import contextlib
import http.client
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from redis import Redis

from service import app, embedded, main, store_process
from service.client import app as commands
from tests import stores
from tests.faults.crash_points import crasher

PATIENCE_S = 60.0
"""The bound of every wait. Waits poll, so the time they take decides nothing."""
BROKEN = (OSError, http.client.HTTPException)
"""The connection broke: the fate of the request is unknown."""


class Answer(NamedTuple):
    """An HTTP answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def read(cls, answer: http.client.HTTPResponse) -> "Answer":
        """Read the whole answer."""
        return cls(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """The last word of the problem's type."""
        return str(self.json["type"]).rpartition("/")[2]


def eventually(expected: Any, look: Callable[[], Any]) -> Any:
    """Poll until ``look`` returns the expected value; return it, or after a timeout the last value seen."""
    deadline = time.monotonic() + PATIENCE_S
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return seen


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, "tests.faults.preload"])


def _onepass_serve(env: dict[str, str], log: str, plant: str, segments: int) -> None:
    """Run ``onepass serve`` in a fresh process, broken in one way if a plant is named; ONEPASS_FAILPOINT kills it."""
    app.TICK_SEGMENTS_MAX = segments
    if plan := env.pop("ONEPASS_FAILPOINT", ""):
        main.build = partial(main.build, failpoint=crasher(plan))
    if plant:
        from tests.faults import plants

        plants.sow(plant)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    sys.exit(commands.main(["serve"]))


def _gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Service:
    """``onepass serve`` in its own process, on a free port.

    ``plant``: how to break it (tests.faults.plants); ``segments``: the largest number of requests in one append;
    ``settings``: ``ONEPASS_*`` without the prefix.
    """

    def __init__(
        self, directory: Path, plant: str = "", segments: int = app.TICK_SEGMENTS_MAX, **settings: object
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.data, self.log_file = directory / "data", directory / "service.log"
        self.settings = {"DATA_DIR": self.data, "PORT": 0, "HOST": "127.0.0.1", **settings}
        self.port, self.plant, self.segments = 0, plant, segments
        self.closed_at_the_end: list[Callable[[], None]] = []
        self._process: Any = None
        self._children: list[psutil.Process] = []

    # ------------------------------------------------------------ life

    def start(self, **settings: object) -> "Service":
        """Start it, with extra settings for this run only, and wait until it listens."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_")}
        env |= {f"ONEPASS_{name}": str(value) for name, value in {**self.settings, **settings}.items()}
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        self._process = _FORKS.Process(target=_onepass_serve, args=(env, str(self.log_file), self.plant, self.segments))
        self._process.start()
        assert eventually(True, lambda: self._listens(begin)), self.log
        self._children = psutil.Process(self._process.pid).children()
        return self

    def _listens(self, begin: int) -> bool:
        said = re.search(r"running on http://[\d.]+:(\d+)", self.log[begin:])
        assert said is not None or self.running, self.log[begin:]
        self.port = 0 if said is None else int(said[1])
        return said is not None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.exitcode is None

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()
        self._process.join()

    def restart(self, **settings: object) -> None:
        """Kill -9 and start it again."""
        self.kill()
        self.start(**settings)

    def died(self) -> int:
        """Wait until it has ended by itself; return its exit status."""
        self._process.join(PATIENCE_S)
        assert not self.running
        return int(self._process.exitcode)

    def freeze(self) -> None:
        """Stop the process with SIGSTOP, whatever it is doing."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """Send SIGTERM without waiting."""
        self._process.terminate()

    def stop(self) -> int:
        """Send SIGTERM and wait; return its exit status."""
        self._process.terminate()
        return self.died()

    def end(self) -> None:
        """Clean up, whatever happened."""
        for close in self.closed_at_the_end:
            close()
        if self.running:
            with contextlib.suppress(psutil.Error):
                self._children += psutil.Process(self._process.pid).children()
            self.kill()
        for child in self._children:  # children end with their parent
            if eventually(True, lambda child=child: _gone(child)) is not True:
                child.kill()

    # ------------------------------------------------------------ its private store

    @property
    def store_url(self) -> str:
        url = self.settings.get("REDIS_URL")
        return f"unix://{embedded._socket_path(self.data.absolute())}" if url is None else str(url)

    def store_process(self) -> psutil.Process:
        """The store server that it started; waits for it, because a killed one takes a moment to be replaced."""
        assert 1 == eventually(1, lambda: len(self._stores()))
        (server,) = self._stores()
        return server

    def _stores(self) -> list[psutil.Process]:
        """The store servers that run as its children at this moment."""
        found = []
        for child in psutil.Process(self._process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since it was listed
                if child.name() in {"redis-server", "valkey-server"} and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
        return found

    # ------------------------------------------------------------ what it says

    @property
    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def request(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send one request on a new connection, which may be ``BROKEN``; ``a_b`` is the header ``a-b``."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, {"Content-Type": "application/json", **given})
            return Answer.read(connection.getresponse())
        finally:
            connection.close()

    def ready(self) -> int:
        """The status of /readyz; 0 without an answer."""
        try:
            return self.request("GET", "/readyz").status
        except BROKEN:
            return 0

    def rows(self, name: str = "m") -> int:
        """The rows of a model, or the HTTP status of a refused read."""
        answer = self.request("GET", f"/models/{name}")
        return int(answer.json["rows"]) if answer.status == 200 else answer.status

    def get(self, path: str) -> Any:
        answer = self.request("GET", path)
        assert 200 == answer.status, answer.body
        return answer.json

    def create(self, name: str = "m", **config: object) -> None:
        """Create a model unless it exists."""
        body = {"algorithm": "dfop", "task": "classification", **config}
        answer = self.request("PUT", f"/models/{name}", body)
        assert answer.status in {200, 201}, answer.body

    def state(self, name: str = "m") -> bytes:
        """The exported state at the head of the log."""
        answer = self.request("GET", f"/models/{name}/state?consistency=strong")
        assert 200 == answer.status, answer.body
        return answer.body

    def metric(self, name: str) -> float:
        """The value of a counter or gauge without labels."""
        found = re.search(
            rf"^onepass_{name}(?:_total)? (\S+)$", self.request("GET", "/metrics").body.decode(), re.MULTILINE
        )
        assert found is not None
        return float(found[1])


class StoreProcess(ABC):
    """A Redis or Valkey server in a process, with its own directory."""

    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def answers(self) -> bool:
        """Whether it answers."""

    def launch(self, *arguments: str) -> None:
        """Start the server and wait until it answers."""
        with (self.directory / "log").open("ab") as log:
            command = [stores.on_path(), *arguments]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        assert eventually(True, self.answers), (self.directory / "log").read_text()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """Stop it with SIGSTOP; its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Make sure that no process is left."""
        if self.running:
            self.thaw()
            self.kill()


class Store(StoreProcess):
    """A Redis or Valkey server for one test, on a socket in a directory with a short name; with this appendfsync."""

    def __init__(self, durability: str = "always") -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="op-"))
        self.data, self.socket = self.directory / "data", self.directory / "s"
        self.data.mkdir()
        self.durability = durability

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self, **changed: str) -> "Store":
        """Start it with the data in its directory; ``changed`` overrides options."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self.data),
            "save": "",
            "appendonly": "yes",
            "appendfsync": self.durability,
            "aof-use-rdb-preamble": "no",
            "auto-aof-rewrite-percentage": "0",  # what rebuild.history reads
            **changed,
        }
        if stores.version(stores.on_path())[1] >= 7:
            options["enable-debug-command"] = "yes"  # older versions allow it anyway
        self.launch(*(part for name, value in options.items() for part in (f"--{name}", value)))
        return self

    def answers(self) -> bool:
        return store_process.ask(self.socket) is not None

    def stop(self) -> None:
        """Stop it as an operator would."""
        self.process.terminate()
        self.process.wait()

    def copy(self) -> Path:
        """Copy its data while it is stopped."""
        place = Path(tempfile.mkdtemp(prefix="copy-", dir=self.directory)) / "data"
        shutil.copytree(self.data, place)
        return place

    def put_back(self, copy: Path) -> None:
        """Replace its data by an older copy."""
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)

    def rdb(self) -> Path:
        """Write an RDB file of the current data in the background."""
        with self.client() as client:
            client.bgsave()
            assert 0 == eventually(0, lambda: client.info("persistence")["rdb_bgsave_in_progress"])
        return Path(shutil.copy(self.data / "dump.rdb", tempfile.mkdtemp(dir=self.directory)))

    def begin_with(self, rdb: Path) -> None:
        """Start from an RDB file instead of its data, and write append-only files from then on."""
        shutil.rmtree(self.data)
        self.data.mkdir()
        shutil.copy(rdb, self.data)
        self.start(appendonly="no")
        with self.client() as client:
            client.config_set("appendonly", "yes")
            assert 0 == eventually(0, lambda: self.rewrites(client))
        self.kill()
        self.start()

    @staticmethod
    def rewrites(client: Redis) -> int:
        """The number of rewrites of the append-only files that are running or scheduled."""
        found = client.info("persistence")
        return int(found["aof_rewrite_in_progress"]) + int(found["aof_rewrite_scheduled"])

    def client(self) -> Redis:
        """A connection for looking inside."""
        return Redis(unix_socket_path=str(self.socket))

    def end(self) -> None:
        """Make sure that nothing is left."""
        super().end()
        shutil.rmtree(self.directory, ignore_errors=True)
