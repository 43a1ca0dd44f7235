"""A process that may open few files keeps some of them for its store, whatever clients do."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from service.client import app
from tests.faults.processes import eventually

LIMIT, IDLE = 256, 400


class Client:
    """A connection that stays open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict]:
        self._connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture
def port(store, tmp_path):
    """The port of a service that may open LIMIT files."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        root, number = Path(app.__file__).parents[2], str(listener.fileno())
        serve = [sys.executable, "-m", "service.client", "serve", "--fd", number]
        child = subprocess.Popen(
            ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *serve],
            cwd=root,
            pass_fds=[listener.fileno()],
            env={"PATH": "/usr/bin:/bin", "ONEPASS_REDIS_URL": store.url, "ONEPASS_STORE_TIMEOUT_S": "0.5"},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield listener.getsockname()[1]
        finally:
            child.kill()
            child.wait()


@pytest.mark.slow
def test_idle_connections_leave_descriptors_for_the_store(port, store):
    """400 idle connections with a limit of 256 files: feedback is acknowledged, also after an outage of the store."""
    with contextlib.closing(Client(port)) as client:
        assert 200 == client.ask("GET", "/healthz")[0]
        _beside_idle_connections(client, port, store)


def _beside_idle_connections(client, port, store):
    assert 201 == client.ask("PUT", "/models/m", {"algorithm": "rls", "task": "regression"})[0]
    row = {"features": {"a": 1.0}, "label": 2.0}
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", port), 60)))
        status, answer = client.ask("POST", "/models/m/feedback", row)
        assert (200, 1) == (status, answer["version"])
        store.kill()
        assert 503 == client.ask("POST", "/models/m/feedback", row)[0]
        store.start()
        assert 200 == eventually(200, lambda: client.ask("POST", "/models/m/feedback", row)[0])
