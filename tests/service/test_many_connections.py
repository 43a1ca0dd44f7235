"""As many idle connections as there may be: others are answered, one more is refused, memory is bounded."""

import resource
import socket
import time
from contextlib import ExitStack

import httpx
import psutil
import pytest

from service.server.http_protocol import HEAD_S
from tests.faults.processes import eventually
from tests.service.client.test_serving import serving

IDLE, SPARE = 10_000, 300
"""Connections, and descriptors that this process needs beside."""
BYTES_EACH = 24_000
"""What the service may take for one of them."""


@pytest.fixture
def room():
    """Descriptors for all connections at both ends, which are two processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE * 9 // 8 + SPARE:
        pytest.skip(f"NOT TESTED: {IDLE} idle connections need ulimit -Hn {IDLE * 9 // 8 + SPARE}, and it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_ten_thousand_idle_connections(tmp_path, room):
    """Rows are still learned and predicted; one connection too many gets 503."""
    with serving(tmp_path) as (child, url), httpx.Client(base_url=url, timeout=60) as client, ExitStack() as held:
        assert 200 == eventually(200, lambda: client.get("/readyz").status_code)
        client.put("/models/m", json={"algorithm": "rls", "task": "regression"}).raise_for_status()
        row = {"features": {"a": 1.0}, "label": 2.0}
        assert 1 == client.post("/models/m/feedback", json=row).json()["version"]
        before = psutil.Process(child.pid).memory_info().rss
        began, address = time.monotonic(), (client.base_url.host, client.base_url.port)
        idle = [held.enter_context(socket.create_connection(address, 60)) for _ in range(IDLE - 1)]
        assert 2 == client.post("/models/m/feedback", json=row).json()["version"]
        client.post("/models/m/predict", json={"features": {"a": 1.0}}).raise_for_status()
        if time.monotonic() < began + HEAD_S / 2:  # on a busy machine some of them are gone by now
            assert 503 == httpx.get(f"{url}/healthz", timeout=60).status_code
        assert BYTES_EACH * IDLE > psutil.Process(child.pid).memory_info().rss - before
        for one in idle:
            one.close()
        assert 200 == eventually(200, lambda: httpx.get(f"{url}/healthz", timeout=60).status_code)
