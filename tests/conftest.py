"""For all tests."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

# Time never decides a test: how long an example takes is the machine's affair.
settings.register_profile("onepass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("onepass")
for phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, phase, 60.0)

TESTS = Path(__file__).parent
LONG_FILES = ("simulator", "faults", "", "core/life", "core/switching")
"""Folders of the longest files: with them first, all processes have work until the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of the longest tests come first; of tests ``slow_but(*ids)`` all cases but those are slow."""
    order = {TESTS / folder: at for at, folder in enumerate(LONG_FILES)}
    items.sort(key=lambda item: order.get(item.path.parent, len(LONG_FILES)))
    for item in items:
        kept = item.get_closest_marker("slow_but")
        if kept and not any(fnmatchcase(item.callspec.id, each) for each in kept.args):
            item.add_marker(pytest.mark.slow)
