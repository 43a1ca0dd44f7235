"""Fixtures of the service tests; a real server is behind every one of them."""

from tests.service.store_fixtures import connection, model, server

__all__ = ["connection", "model", "server"]
