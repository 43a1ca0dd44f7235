"""Fixtures of the tests of ``onepass replay``."""

from collections.abc import Callable, Iterator

import pytest

from service import cli
from service.replay import private


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
