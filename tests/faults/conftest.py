"""Fixtures of the fault tests; their processes end with the test."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.load import Client, Row
from tests.faults.processes import Service, Store
from tests.faults.proxy import Proxy
from tests.faults.rebuild import bare, learnt


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Makes services that are not started yet, each with its own directory."""
    made: list[Service] = []

    def make(**settings: object) -> Service:
        made.append(Service(tmp_path / f"service-{len(made)}", **settings))
        return made[-1]

    yield make
    for service in made:
        service.end()


@pytest.fixture
def store() -> Iterator[Store]:
    """A started store for one test."""
    server = Store()
    try:
        yield server.start()
    finally:
        server.end()


@pytest.fixture
def pair(serve: Callable[..., Service], store: Store) -> list[Service]:
    """Two services on the test's store that take snapshots only on request."""
    return [serve(REDIS_URL=store.url, SNAPSHOT_MIN_KB=10**6).start() for _ in range(2)]


@pytest.fixture
def proxy(store: Store) -> Iterator[Proxy]:
    """A proxy in front of the store."""
    made = Proxy(store.directory / "p", store.socket).start()
    yield made
    made.end()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without any faults."""
    service = Service(tmp_path_factory.mktemp("undisturbed"))
    try:
        yield service.start()
    finally:
        service.end()


@pytest.fixture
def clean(undisturbed: Service) -> Callable[[Sequence[Row]], tuple[list[dict[str, Any]], bytes]]:
    """Learns the same rows on an undisturbed service, one after the other; returns its answers and its state."""

    def learn(table: Sequence[Row]) -> tuple[list[dict[str, Any]], bytes]:
        undisturbed.create("twin")
        client = Client(undisturbed, "twin")
        answers = [learnt(client.learn(row)) for row in table]
        state = bare(undisturbed.state("twin"))
        assert 204 == undisturbed.request("DELETE", "/models/twin").status
        return answers, state

    return learn
