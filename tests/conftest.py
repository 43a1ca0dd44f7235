"""For all tests."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Time never decides a test: how long an example takes is the machine's affair.
settings.register_profile("onepass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("onepass")

TESTS = Path(__file__).parent
LONG_FILES = ("simulator", "faults", "", "core/life", "core/switching")
"""Folders of the longest files: with them first, all processes have work until the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of the longest tests come first."""
    order = {TESTS / folder: at for at, folder in enumerate(LONG_FILES)}
    items.sort(key=lambda item: order.get(item.path.parent, len(LONG_FILES)))
