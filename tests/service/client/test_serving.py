"""The command line: what each command prints, how it ends, and what it does not import."""

import errno
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call
from urllib.parse import urlsplit

import httpx
import pytest

from service import logs, main, settings_sources
from service.client import app, private
from service.client import serving as commands
from service.first_run import compiling, kernels
from service.settings import Settings
from tests.faults.servers import free_port

pytestmark = pytest.mark.usefixtures("own_settings")
SECRET = "hush-hush"


@contextmanager
def serving(data: Path, *options: str, **settings: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """``onepass serve`` on a free port; its address answers once it is ready."""
    port = str(free_port())
    command = [sys.executable, "-m", "service.client", "serve", "--port", port, *options]
    pipes = dict.fromkeys(("stdin", "stderr"), subprocess.PIPE) | {"stdout": subprocess.DEVNULL}
    child = subprocess.Popen(command, env=os.environ | {"ONEPASS_DATA_DIR": str(data)} | settings, **pipes)
    try:
        yield child, f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.communicate()


def await_listening(url: str) -> None:
    """Return once a service that has been started takes connections."""
    for _ in range(600):
        with suppress(OSError), socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), 1):
            return
        time.sleep(0.1)
    pytest.fail(f"{url} does not listen")


def is_ready(url: str) -> bool:
    """Whether a service that has been started is ready once it listens."""
    await_listening(url)
    return bool(httpx.get(f"{url}/readyz", timeout=60).json()["ready"])


def test_settings_says_what_each_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every setting with its value, its default and its meaning, also as JSON; of a secret only that it is set."""
    monkeypatch.setenv("ONEPASS_PORT", "8123")
    monkeypatch.setenv("ONEPASS_API_KEYS", f"me:{SECRET}:admin")
    monkeypatch.setenv("ONEPASS_REDIS_URL", f"redis://:{SECRET}@store")
    assert 0 == app.main(["settings"])
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    assert ["ONEPASS_PORT", "8123", "8000"] in lines
    assert ["ONEPASS_API_KEYS", "**********", "-"] in lines
    assert {f"ONEPASS_{name.upper()}" for name in Settings.model_fields} <= {line[0] for line in lines}
    words = " ".join(text.split())
    assert [] == [name for name, field in Settings.model_fields.items() if field.description not in words]
    assert 0 == app.main(["settings", "--json"])
    found = json.loads(document := capsys.readouterr().out)
    assert (8123, 8000) == (found["ONEPASS_PORT"]["value"], found["ONEPASS_PORT"]["default"])
    assert SECRET not in text + document


@pytest.mark.parametrize("number", ["2", ""])
def test_workers_are_refused_with_what_to_do(
    number: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONEPASS_WORKERS, whatever it says, ends the start with the way to several processes; there is no such option."""
    assert 2 == app.main(["serve", "--workers", "2"])
    assert "No such option: --workers" in capsys.readouterr().err
    monkeypatch.setenv("ONEPASS_WORKERS", number)
    assert 2 == app.main(["serve"])
    assert f"onepass serve: {settings_sources.WORKERS}\n" == capsys.readouterr().err


def test_an_open_address_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys only this machine can reach the service; how to serve others is said."""
    monkeypatch.setattr(commands, "_compile_kernels", lambda: False)
    assert 2 == app.main(["serve", "--host", "0.0.0.0"])
    assert re.search("ONEPASS_API_KEYS.* ONEPASS_INSECURE=1", capsys.readouterr().err)


@pytest.mark.slow
def test_the_service_needs_nothing_of_the_extra() -> None:
    """Every module that serves is imported where matplotlib cannot be."""
    code = "import sys; sys.modules.update(matplotlib=None); import service.app, uvicorn; print('up')"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (0, "up\n") == (finished.returncode, finished.stdout)


def test_a_reader_that_has_read_enough() -> None:
    """As in ``onepass settings | head -3``: the status is 1, and no traceback is printed."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, "-m", "service.client", "settings"]
        finished = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE)
    assert (1, b"") == (finished.returncode, finished.stderr)


def test_a_start_compiles_what_is_missing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Before it serves; where that fails one line says why, and nothing starts."""
    monkeypatch.setattr(main, "run", lambda *_, **__: 0)
    monkeypatch.setattr(gc, "disable", (cycles := Mock()).disable)
    monkeypatch.setattr(gc, "freeze", cycles.freeze)
    monkeypatch.setattr(gc, "enable", cycles.enable)
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # caplog goes on
    monkeypatch.setenv("ONEPASS_PORT", "0")  # 8000 may be taken
    for found, error, status in (("kernels", None, 0), (None, None, 0), (None, kernels.CannotCompile("no kernel"), 1)):
        monkeypatch.setattr(kernels, "kernels_at_hand", lambda found=found: found)
        monkeypatch.setattr(compiling, "compile_missing", missing := Mock(side_effect=error))
        assert (status, found is None) == (app.main(["serve"]), missing.called)
    assert "no kernel" == caplog.messages[-1]
    assert [call.disable(), call.freeze(), call.enable()] * 3 == cycles.mock_calls


@pytest.mark.slow_but("15")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_start_that_compiles_can_be_stopped(tmp_path: Path, kind: signal.Signals) -> None:
    """Status 0 and no traceback, long before the service is up."""
    with serving(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")) as (child, _):
        assert b"Onepass 0.1.0 starts" in child.stderr.readline()  # before it has imported what it serves with
        assert b"compiling kernels, once per installation" in child.stderr.readline()
        child.send_signal(kind)
        said = child.communicate(timeout=60)[1]
        others = [line for line in said.splitlines() if b"once per installation" not in line]
        assert (0, []) == (child.returncode, others)


@pytest.mark.slow_but("127*")
@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")])
def test_a_start_ends_with_the_address_of_the_pages(tmp_path: Path, host: str, shown: str) -> None:
    """Once the service is ready, with the port that it was given; then, as it is new, the demo is named."""
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6 on the loopback here")
    command = [sys.executable, "-m", "service.client", "serve", "--host", host, "--port", "0"]
    environment = os.environ | {"ONEPASS_DATA_DIR": str(tmp_path), "ONEPASS_INSECURE": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as child:
        line = child.stdout.readline()
        found = re.fullmatch(r"Onepass serves on (http://(.+):(\d+))/\n", line)
        assert found is not None, line
        assert shown == found[2]
        assert httpx.get(f"{found[1]}/readyz").json()["ready"]
        child.terminate()
        assert re.fullmatch(r"To see models that learn and drift, .*: onepass demo\n", child.stdout.read())


def test_the_demo_is_named_where_there_is_nothing_yet(tmp_path: Path) -> None:
    """Of a private store without data only: a store of its own, or one with data, may hold models."""
    assert main.is_new(Settings(data_dir=tmp_path / "new"))
    assert main.is_new(Settings(data_dir=tmp_path))
    (tmp_path / "dump.rdb").touch()
    assert not main.is_new(Settings(data_dir=tmp_path))
    assert not main.is_new(Settings(data_dir=tmp_path / "new", redis_url="redis://store"))


def test_a_directory_that_may_not_be_listed_is_left_to_the_store(tmp_path: Path) -> None:
    """Its start names the directory, the setting and the reason."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may list it
    try:
        assert main.is_new(Settings(data_dir=theirs))
        assert main.is_new(Settings(data_dir=theirs / "data"))
    finally:
        os.seteuid(user)


def test_a_terminal_that_closes_stops_in_good_order(tmp_path: Path) -> None:
    """SIGHUP is as SIGTERM: streams end, then the service, without a traceback."""
    with serving(tmp_path) as (child, url):
        assert is_ready(url)
        with httpx.stream("GET", f"{url}/drift/stream", timeout=60) as events:
            child.send_signal(signal.SIGHUP)
            events.read()  # to its end: it is not cut
        said = child.communicate(timeout=60)[1]
    assert (0, False, False) == (child.returncode, b"Traceback" in said, b"ERROR" in said)


def has_ipv6() -> bool:
    """Whether the loopback has an IPv6 address."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_serve_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    """With --until-eof the end of standard input stops the service; a misspelt setting is named in the log.

    With --json each line of the log is an object.
    """
    with serving(tmp_path, "--until-eof", "--json", ONEPASS_DURABILTY="always") as (child, url):
        assert is_ready(url)
        child.stdin.close()
        child.stdin = None
        said = child.communicate(timeout=60)[1]
        assert b"ONEPASS_DURABILTY is not a setting" in said
        assert b"Finished server process" in said
        assert {"info", "warning"} == {json.loads(line)["level"] for line in said.splitlines()}
        with pytest.raises(httpx.ConnectError):
            httpx.get(url)


def test_a_start_that_cannot_be_says_why_in_one_line(tmp_path: Path) -> None:
    """A second service on the same data names the directory; the first goes on, and Ctrl-C ends it in good order."""
    with serving(tmp_path) as (first, url):
        assert is_ready(url)
        with serving(tmp_path) as (second, _):
            _, said = second.communicate(timeout=60)
        assert 1 == second.returncode
        assert b"ONEPASS_DATA_DIR" in said
        assert is_ready(url)
        first.send_signal(signal.SIGINT)
        said += first.communicate(timeout=60)[1]
    assert (0, False) == (first.returncode, b"Traceback" in said)


def test_a_port_that_is_taken_is_said_with_one_that_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything starts, in one line."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert 1 == app.main(["serve", "--port", str(taken)])
    said = capsys.readouterr().err.splitlines()[-1]
    free = r"(\d+) is free: ONEPASS_PORT=\1; a second service also needs ONEPASS_DATA_DIR, .*"
    assert re.fullmatch(rf"onepass serve: port {taken} of 127.0.0.1 is taken; {free}", said)


def test_a_port_without_the_right_to_it_is_not_said_to_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it the server says."""
    listening = socket.create_server

    def bound(address: tuple[str, int], **how: Any) -> socket.socket:
        if address[1] == 81:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listening(address, **how)

    monkeypatch.setattr(socket, "create_server", bound)
    commands._refuse_taken(Settings(port=81))
    with pytest.raises(PermissionError):
        private.free_port(81)
