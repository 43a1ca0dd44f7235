"""As many idle connections as there may be: others are answered, one more is refused, memory is bounded."""

import contextlib
import json
import re
import resource
import socket
import time

import psutil
import pytest

from service.server.http_protocol import HEAD_S
from tests.faults.processes import eventually
from tests.service.client.test_serving import serving

IDLE, SPARE = 10_000, 300
"""Connections, and descriptors that this process needs beside."""
BYTES_EACH = 24_000
"""What the service may take for one of them."""
ASK = "{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}"


class Client:
    """One connection that is kept, in plain bytes."""

    def __init__(self, address) -> None:
        self._socket = socket.create_connection(address, 60)
        self._file = self._socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, method, path, body=None) -> tuple[int, dict]:
        """Status and JSON of an answer."""
        text = "" if body is None else json.dumps(body)
        self._socket.sendall(ASK.format(method, path, len(text), text).encode())
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline()) != b"\r\n":
            if found := re.fullmatch(rb"content-length: (\d+)\r\n", line, re.IGNORECASE):
                length = int(found[1])
        return status, json.loads(self._file.read(length))


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
    """Rows are learned and predicted beside them; where none is left one more gets 503."""
    with serving(tmp_path) as (child, url), contextlib.ExitStack() as held:
        host, port = url.removeprefix("http://").split(":")
        address = (host, int(port))
        client = held.enter_context(Client(address))
        assert 201 == client.ask("PUT", "/models/m", {"algorithm": "rls", "task": "regression"})[0]
        row = {"features": {"a": 1.0}, "label": 2.0}
        assert (200, 1) == _version(client.ask("POST", "/models/m/feedback", row))
        before = psutil.Process(child.pid).memory_info().rss
        began = time.monotonic()
        idle = [held.enter_context(socket.create_connection(address, 60)) for _ in range(IDLE - 1)]
        assert (200, 2) == _version(client.ask("POST", "/models/m/feedback", row))
        assert 200 == client.ask("POST", "/models/m/predict", {"features": {"a": 1.0}})[0]
        if time.monotonic() < began + HEAD_S / 2:  # on a busy machine some of them are gone by now
            with Client(address) as late:
                assert 503 == late.ask("GET", "/healthz")[0]
        assert BYTES_EACH * IDLE > psutil.Process(child.pid).memory_info().rss - before
        for one in idle:
            one.close()
        assert 200 == eventually(200, lambda: _alone(address))


def _alone(address) -> int:
    """The status of a request on a connection of its own."""
    with Client(address) as other:
        return other.ask("GET", "/healthz")[0]


def _version(answer) -> tuple[int, int]:
    return answer[0], answer[1]["version"]
