"""Fixtures of the service tests; a real server is behind every one of them."""

import pytest

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


@pytest.fixture(scope="module")
async def document(api):
    """What /openapi.json says."""
    return await api.get("/openapi.json")
