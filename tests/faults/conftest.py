"""Fixtures of the fault tests: processes that are gone when the test is over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Service, Store


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Makes services, not yet started, each with a directory of its own."""
    made: list[Service] = []

    def make(**settings: object) -> Service:
        made.append(Service(tmp_path / f"service-{len(made)}", **settings))
        return made[-1]

    yield make
    for service in made:
        service.end()


@pytest.fixture
def store() -> Iterator[Store]:
    """A store of the test's own, started."""
    server = Store()
    try:
        yield server.start()
    finally:
        server.end()
