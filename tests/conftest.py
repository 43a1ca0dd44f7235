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
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files of the longest tests come first; of tests ``slow_but(*ids)`` all cases but those are slow."""
    order = {TESTS / folder: at for at, folder in enumerate(LONG_FILES)}
    items.sort(key=lambda item: order.get(item.path.parent, len(LONG_FILES)))
    unmet: dict[tuple[str, str], set[str]] = {}
    for item in items:
        kept = item.get_closest_marker("slow_but")
        if kept is None:
            continue
        met = {each for each in kept.args if fnmatchcase(item.callspec.id, each)}
        unmet.setdefault((str(item.path), item.originalname), {*kept.args}).difference_update(met)
        if not met:
            item.add_marker(pytest.mark.slow)
    gone = sorted(f"{name}: {each}" for (_, name), left in unmet.items() for each in left)
    if gone and not any("::" in given for given in config.args):  # a test that is named may be one case alone
        raise pytest.UsageError(f"no case has an id that slow_but names: {'; '.join(gone)}")
