"""Fixtures of the service tests; a real server is behind every one of them."""

from inspect import iscoroutinefunction

import pytest
import pytest_asyncio

from tests.alarms import alarming
from tests.service.api_fixtures import api, own_settings, start, store_url
from tests.service.client.fixtures import compare, empty, replay, shell, url
from tests.service.store_fixtures import connection, model, server

__all__ = [
    "alarming",
    "api",
    "compare",
    "connection",
    "empty",
    "model",
    "own_settings",
    "replay",
    "server",
    "shell",
    "start",
    "store_url",
    "url",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def document(api):
    """What /openapi.json says."""
    return await api.get("/openapi.json")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use services started by ``start`` run in the loop of these services: that of their module."""
    for item in items:
        asynchronous = isinstance(item, pytest.Function) and iscoroutinefunction(item.function)
        if asynchronous and {"start", "store_url"} <= {*item.fixturenames}:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
