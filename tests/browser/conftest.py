"""A browser that opens the pages of a real service and fails if a page misbehaves.

There is one Chromium and one service per session (per process of pytest-xdist), and a new context per visit, so that no
two visits share storage, a cache or connections. Modules of browser tests begin with

    pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
"""

import shutil
from collections.abc import AsyncIterator, Iterator, Sequence

import httpx
import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright, expect

from service.client import private
from tests.browser.model_pages import look, seen, shown
from tests.browser.visits import Visits

__all__ = ["look", "seen", "shown"]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
KEYS = {
    "admin": "ops:secret-of-ops:admin",
    "read": "board:secret-of-board:read",
    "some": "shop:secret-of-shop:learn:shop-*",
}
"""Keys of the locked service: for everything, for reading only, and for some models."""
SERIOUS = ("serious", "critical")
VIOLATIONS = {"resultTypes": ["violations"]}
"""Passed checks are not described element by element, which would take longer than the checks."""
WAIT_MS = 20_000
"""How long an expectation waits before it fails; busy machines are slow."""


def program() -> str | None:
    """The browser installed on this machine; nothing is downloaded."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser, started once per session."""
    found = program()
    if found is None:
        pytest.skip("needs a browser: apt install chromium")
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield started
        await started.close()


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A service without keys, shared by all tests; each uses its own model names."""
    with private.session() as found:
        yield found.url


@pytest.fixture(scope="session")
def locked_url() -> Iterator[str]:
    """A service that requires one of KEYS."""
    with private.session(ONEPASS_API_KEYS=",".join(KEYS.values())) as found:
        yield found.url


@pytest.fixture(scope="session")
def api(url) -> Iterator[httpx.Client]:
    """A client of the service without keys."""
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def secrets() -> dict[str, str]:
    """The secrets of the locked service's keys, by key."""
    return {name: key.split(":")[1] for name, key in KEYS.items()}


@pytest.fixture(scope="session")
def locked_api(locked_url, secrets) -> Iterator[httpx.Client]:
    """A client of the locked service with all rights."""
    how = {"headers": {"X-API-Key": secrets["admin"]}, "timeout": 30, "trust_env": False}
    with httpx.Client(base_url=locked_url, **how) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def visits(browser, url) -> AsyncIterator[Visits]:
    """Opens pages; afterwards the test fails if anything was wrong with one of them."""
    made = Visits(browser, url)
    yield made
    await made.close()
    assert [] == made.wrong


@pytest.fixture
def axe():
    """Checks the accessibility of a page; fails on serious findings."""

    async def check(page: Page, rules: Sequence[str] | None = None) -> None:
        options = {**VIOLATIONS, **({} if rules is None else {"runOnly": rules})}
        found = (await Axe().run(page, options=options)).response["violations"]
        serious = [
            f"{own['id']}: {own['help']}: {node['target']} {node['html'][:200]}"
            for own in found
            if own["impact"] in SERIOUS
            for node in own["nodes"]
        ]
        assert [] == serious

    return check
