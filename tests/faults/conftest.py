"""Fixtures of the fault tests: processes that are gone when the test is over."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.load import Client, Row
from tests.faults.processes import Service, Store
from tests.faults.proxy import Proxy
from tests.faults.rebuild import bare, learnt


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


@pytest.fixture
def proxy(store: Store) -> Iterator[Proxy]:
    """In front of the store."""
    made = Proxy(store.directory / "p", store.socket).start()
    yield made
    made.end()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that nothing ever happens to."""
    service = Service(tmp_path_factory.mktemp("undisturbed"))
    try:
        yield service.start()
    finally:
        service.end()


@pytest.fixture
def clean(undisturbed: Service) -> Callable[[Sequence[Row]], tuple[list[dict[str, Any]], bytes]]:
    """What a clean twin says of the same rows, sent one after the other: its answers and its state."""

    def learn(table: Sequence[Row]) -> tuple[list[dict[str, Any]], bytes]:
        undisturbed.create("twin")
        client = Client(undisturbed, "twin")
        answers = [learnt(client.learn(row)) for row in table]
        state = bare(undisturbed.state("twin"))
        assert 204 == undisturbed.request("DELETE", "/models/twin").status
        return answers, state

    return learn
