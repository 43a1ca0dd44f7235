"""Fixtures of the service tests; a real server is behind every one of them."""

# ruff: noqa: F401  pytest finds them by their names

from tests.alarms import alarming
from tests.service.api_fixtures import api, document, own_settings, start, store_url
from tests.service.client.fixtures import compare, empty, replay, shell, url
from tests.service.store_fixtures import connection, model, server
