"""Fixtures of the tests of commands."""

import io
import json
from collections.abc import Callable, Iterator

import pytest

from service.client import app, private

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service, one for all tests of a file."""
    with private.service() as running:
        yield running


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run ``onepass replay``; its status, what it printed, what it complained of."""

    def replay(*arguments: object) -> tuple[int, str, str]:
        status = app.main(["replay", *map(str, arguments), "--label", "y"])
        return status, *capsys.readouterr()

    return replay


@pytest.fixture
def shell(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a command on the service of the tests; its status, what it printed, what it complained of."""
    monkeypatch.setenv("ONEPASS_URL", url)
    monkeypatch.delenv("ONEPASS_API_KEY", raising=False)

    def run(*arguments: object, stdin: object = None) -> tuple[int, str, str]:
        if stdin is not None:
            given = io.TextIOWrapper(io.BytesIO(stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()))
            monkeypatch.setattr("sys.stdin", given)
        capsys.readouterr()
        status = app.main([*map(str, arguments)])
        return status, *capsys.readouterr()

    return run
