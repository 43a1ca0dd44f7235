"""Fixtures of the tests of commands."""

import io
import json
from collections.abc import Callable, Iterator

import pytest

from service import cli
from service.replay import private

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
        status = cli.main(["replay", *map(str, arguments), "--label", "y"])
        return status, *capsys.readouterr()

    return replay


@pytest.fixture
def shell(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run a command on the service of the tests; its status, what it printed, what it complained of."""
    monkeypatch.setenv("ONEPASS_URL", url)
    monkeypatch.delenv("ONEPASS_KEY", raising=False)

    def run(*arguments: object, stdin: object = None) -> tuple[int, str, str]:
        if stdin is not None:
            given = io.TextIOWrapper(io.BytesIO(stdin if isinstance(stdin, bytes) else json.dumps(stdin).encode()))
            monkeypatch.setattr("sys.stdin", given)
        capsys.readouterr()
        try:
            status = cli.main([*map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return run
