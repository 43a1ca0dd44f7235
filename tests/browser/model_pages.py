"""Pages of models that several modules look at."""

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser import streams
from tests.browser.visits import Visits

LIVE = "#live[data-state=live]"


@pytest.fixture(scope="session")
def shown(api):
    """The names of the models that the tests look at, by kind."""
    streams.classes(api, "seen-classes")
    streams.numbers(api, "seen-numbers")
    streams.hostile(api, "seen-hostile")
    return {"classes": "seen-classes", "numbers": "seen-numbers", "hostile": "seen-hostile"}


@pytest.fixture
def look(visits, shown):
    """Opens the page of a model, by its kind or name, and waits until it is drawn."""

    async def opened(kind: str, **how):
        return await drawn(visits, shown.get(kind, kind), **how)

    return opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def seen(browser, url, shown):
    """A page of each kind that tests look at one after the other: opened once, each leaves it as it was."""
    visits, pages = Visits(browser, url), {}

    async def opened(kind: str):
        if kind not in pages:
            pages[kind] = await drawn(visits, shown[kind], dark=kind == "numbers", statuses=[422, 503])
        return pages[kind]

    yield opened
    await visits.close()
    assert [] == visits.wrong


async def drawn(visits, name, **how):
    """The page of a model, once it is live and drawn."""
    page = await visits.open(f"/ui/models/{name}", **how)
    await expect(page.locator(LIVE)).to_be_visible()
    await expect(page.locator("#score-value")).to_be_visible()
    return page


async def tab(page, name):
    """Show a part of the page of a model."""
    await page.get_by_role("tab", name=name).click()
    await expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
