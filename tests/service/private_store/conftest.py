"""Private stores for one test."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.embedded import EmbeddedStore


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="op-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def start(directory) -> Iterator[Callable[..., EmbeddedStore]]:
    """Starts stores, and stops whatever is left of them."""
    stores = []

    def begin(durability: str = "everysec", where: Path | None = None, **options) -> EmbeddedStore:
        stores.append(EmbeddedStore(where or directory / "data", durability, **options))
        stores[-1].start()
        return stores[-1]

    yield begin
    for store in stores:
        store.stop()
