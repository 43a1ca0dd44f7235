"""Fixtures of the tests of commands: one running service for all of a worker, and a shell on it."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from service.client import app, private

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A service, one for all tests of a worker: each test names its own models."""
    with private.service(ONEPASS_CHALLENGERS_MAX="32") as running:
        yield running


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
    monkeypatch.setattr(private, "service", lambda *_, **__: nullcontext(url))
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
