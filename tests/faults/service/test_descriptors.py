"""A process that may open few files keeps some of them for its store, whatever clients do."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from service.client import app
from tests.faults.processes import eventually

LIMIT, IDLE = 256, 400


@pytest.fixture
def port(store, tmp_path):
    """The port of a service that may open LIMIT files."""
    root = Path(app.__file__).parents[2]
    serve = [sys.executable, "-m", "service.client", "serve", "--port", "0"]
    command = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *serve]
    env = {"PATH": "/usr/bin:/bin", "ONEPASS_REDIS_URL": store.url, "ONEPASS_STORE_TIMEOUT_S": "0.5"}
    outputs = {"stderr": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=root, env=env, text=True, **outputs) as child:
        try:
            yield int(child.stdout.readline().rpartition(":")[2].strip("/\n"))
        finally:
            child.kill()


@pytest.mark.slow
def test_idle_connections_leave_descriptors_for_the_store(port, store):
    """400 idle connections with a limit of 256 files: feedback is acknowledged, also after an outage of the store."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client, contextlib.ExitStack() as stack:
        model = {"algorithm": "rls", "task": "regression"}
        assert 201 == client.put("/models/m", json=model).status_code

        def learn():
            return client.post("/models/m/feedback", json={"features": {"a": 1.0}, "label": 2.0})

        for _ in range(IDLE):
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", port), 60)))
        assert (200, 1) == ((answer := learn()).status_code, answer.json()["version"])
        store.kill()
        assert 503 == learn().status_code
        store.start()
        assert 200 == eventually(200, lambda: learn().status_code)
