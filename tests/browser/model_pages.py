"""Pages of models that several modules use."""

import json

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.browser import streams
from tests.browser.visits import Visits

LIVE = "#live[data-state=live]"


@pytest.fixture(scope="session")
def shown(api):
    """The names of the models that the tests show, by kind."""
    streams.classes(api, "seen-classes")
    streams.numbers(api, "seen-numbers")
    streams.hostile(api, "seen-hostile")
    return {"classes": "seen-classes", "numbers": "seen-numbers", "hostile": "seen-hostile"}


@pytest.fixture
def look(visits, shown):
    """Opens the page of a model, given by kind or name, and waits until it is drawn."""

    async def opened(kind: str, **how):
        return await drawn(visits, shown.get(kind, kind), **how)

    return opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def seen(browser, url, shown):
    """One page per kind for tests that run one after the other: opened once, and each test leaves it unchanged."""
    visits, pages = Visits(browser, url), {}

    async def opened(kind: str):
        if kind not in pages:
            pages[kind] = await drawn(visits, shown[kind], dark=kind == "numbers", statuses=[422, 503])
        return pages[kind]

    yield opened
    await visits.close()
    assert [] == visits.wrong


async def drawn(visits, name, **how):
    """Open the page of a model and wait until it is live and drawn."""
    page = await visits.open(f"/ui/models/{name}", **how)
    await expect(page.locator(LIVE)).to_be_visible()
    await expect(page.locator("#score-value")).to_be_visible()
    return page


def refusal(kind, detail):
    """The answer 503 with a problem, for a page's route to fulfil."""
    problem = {"type": f"/problems/{kind}", "title": "No", "status": 503, "detail": detail, "errors": []}
    return {"status": 503, "content_type": "application/problem+json", "body": json.dumps(problem)}


async def downloaded(page, button):
    """Press a button and return the text of the file that it saves."""
    async with page.expect_download() as saved:
        await page.get_by_role("button", name=button).click()
    return (await (await saved.value).path()).read_text()


async def tab(page, name):
    await page.get_by_role("tab", name=name).click()
    await expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
