"""The image, built once for all that is tested with it."""

import os
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.image.containers import Containers, missing

_NUMBERS = count()


@pytest.fixture(scope="session")
def containers() -> Iterator[Containers]:
    """The image, built unless it is given."""
    if lacking := missing():
        pytest.skip(lacking)
    if image := os.environ.get("IMAGE"):
        yield Containers(Path(os.environ["STORE"]), os.environ.get("BASE", ""), image)
        return
    made = Containers(Path(tempfile.mkdtemp(prefix="onepass-image-")), os.environ.get("BASE", ""))
    try:
        if not made.base:
            made.make_base()
        made.build()
        yield made
    finally:
        made.end()


@pytest.fixture
def data(containers: Containers) -> Iterator[str]:
    """A volume for the private store."""
    name = f"data-{os.getpid()}-{next(_NUMBERS)}"
    containers.podman("volume", "create", name)
    yield name
    containers.podman("volume", "rm", "--force", name)
