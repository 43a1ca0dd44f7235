"""A second store beside that of a test module, and backups of it as bytes."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from service.embedded import EmbeddedStore
from service.store.backup.contents import Contents
from service.store.backup.frames import FrameReader
from tests.service.api_fixtures import STATE, Api, Start


@pytest.fixture(scope="module")
def other_url(tmp_path_factory: pytest.TempPathFactory, own_settings: None) -> Iterator[str]:
    """A second private store, where backups are restored."""
    store = EmbeddedStore(tmp_path_factory.mktemp("other"), "everysec")
    yield store.start()
    store.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(start: Start, other_url: str) -> AsyncIterator[Api]:
    """A service on that store."""
    yield await start(redis_url=other_url)


async def backup(api: Api, models: str = "*", **query: Any) -> bytes:
    """A backup."""
    answer = await api.ask("GET", "/backup", params={"models": models, **query})
    assert (200, "application/octet-stream") == (answer.status_code, answer.headers["content-type"]), answer.text
    return answer.content


async def restore(api: Api, body: bytes, status: int = 200, **query: Any) -> Any:
    """The answer to a restore."""
    answer = await api.ask("POST", "/restore", content=body, headers=STATE, params=query)
    assert status == answer.status_code, answer.text
    return answer.json()


def parts_of(body: bytes) -> list[tuple[bytes, Any, int]]:
    """The frames of a backup: kind, part, and where each ends."""
    reader, contents = FrameReader(2**27), Contents()
    reader.feed(body)
    found = []
    while (frame := reader.next()) is not None:
        found.append((frame.kind, contents.note(frame), frame.end))
    assert 0 == reader.held
    return found


async def shown(api: Api, path: str) -> dict[str, Any]:
    """All that clients see of a model, and its whole state."""
    found = {"state": await api.state(path)}
    for part in ("", "/metrics", "/features", "/challengers", "/pending", "/drift"):
        found[part] = await api.get(f"{path}{part}")
    (newest, *_) = (await api.get(f"{path}/snapshots"))["snapshots"] or [None]
    return found | {"snapshot": newest}
