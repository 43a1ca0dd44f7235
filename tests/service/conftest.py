"""Fixtures of the service tests; a real server is behind every one of them."""

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
