"""For all tests."""

import gc
import signal
from collections import Counter
from collections.abc import Generator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from httpx._transports import default
from hypothesis import HealthCheck, settings

# Time never decides a test: how long an example takes is the machine's affair.
settings.register_profile("onepass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("onepass")
for phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, phase, 60.0)

# Every httpx.get reads the authorities of this machine again, which takes 40 ms.
default.create_ssl_context = cache(default.create_ssl_context)

TESTS = Path(__file__).parent
LONG_FILES = (
    "simulator",
    *(f"faults/{kind}" for kind in ("storms", "replicas", "service", "store")),
    "",
    "core/life",
    "core/switching",
)
"""Folders of the longest files: with them first, all processes have work until the end."""
MODULE_SHARE_MAX, WHOLE = 0.06, 200
"""The largest share of CPU time that one module of ``make test`` may take, judged where so many modules ran."""
cpu_s: Counter[str] = Counter()
"""CPU time of each module, here and in the processes of pytest-xdist that have ended."""


@pytest.fixture(autouse=True)
def signals() -> Generator[None]:
    """What a command makes of signals, which is for the life of its process, ends with the test."""
    ends = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for each, action in ends.items():
        signal.signal(each, action)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without the garbage collector, which from then on passes over what was imported and collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Measure the CPU time of each module."""
    before = process_time()
    try:
        return (yield)
    finally:
        cpu_s[item.location[0]] += process_time() - before


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of pytest-xdist has measured."""
    cpu_s.update(getattr(node, "workeroutput", {}).get("cpu_s", {}))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where one module takes more than its share: what is slow by nature belongs to ``make test-all``."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu_s"] = dict(cpu_s)
    elif "not slow" in session.config.option.markexpr and len(cpu_s) >= WHOLE:
        print("\nmost CPU time:", ", ".join(f"{name} {spent:.0f} s" for name, spent in cpu_s.most_common(5)))
        large = {name: spent for name, spent in cpu_s.items() if spent > MODULE_SHARE_MAX * cpu_s.total()}
        for name, spent in large.items():
            print(f"\n{name} takes {spent:.0f} of {cpu_s.total():.0f} s of CPU time: mark slow cases, or ask for less")
        if large and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
