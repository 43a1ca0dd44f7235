"""Swagger UI and ReDoc in a browser: strict about what they load, brief about errors, clear about streams."""

import pytest
from playwright.async_api import expect

from service.api.openapi.examples import FEEDBACK_LINES, MODELS

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LOCK = ".authorization__btn"
SLOW_MS = 30_000
"""Swagger UI takes seconds to draw on a busy machine."""
STATUS = ".live-responses-table tbody .response-col_status"
SMALL = "list_pending"
"""An operation with fields, an example and an answer, but only a few hundred elements."""
OTHERS = """(kept) => document.querySelectorAll('.opblock').forEach((own) => own.id.endsWith(kept) || own.remove())"""


async def opened(page, operation):
    """Open an operation and return it."""
    found = page.locator(f"[id$='-{operation}']")
    await found.locator(".opblock-summary").click()
    await expect(found.locator(".opblock-body")).to_be_visible(timeout=SLOW_MS)
    return found


async def executed(operation, status):
    """Send its example unchanged."""
    await operation.get_by_role("button", name="Execute").click()
    await expect(operation.locator(STATUS).first).to_contain_text(status, timeout=SLOW_MS)


async def test_operations_are_executed_and_streams_are_not(visits, axe):
    """Operations work under the page's policy, without padlocks; streams name an alternative; errors have links.

    On a phone nothing is cut off; the page has the common banner, and no serious finding in light or dark colours.
    """
    page = await visits.open("/docs", phone=True)
    create = await opened(page, "create_model")
    await expect(page.locator(LOCK)).to_have_count(0)
    for name, address in (("Models", "/"), ("Guide", "/guide")):
        link = page.get_by_role("navigation", name="Main").get_by_role("link", name=name)
        assert address == await link.evaluate("link => new URL(link.href).pathname")
    stream = await opened(page, "stream_drift")
    await expect(stream).to_contain_text("curl -N")
    await expect(stream.get_by_role("button", name="Execute")).to_have_count(0)
    await expect(stream.get_by_role("button", name="Try it out")).to_have_count(0)
    await stream.locator(".opblock-summary-control").click()
    await executed(create, "201")
    errors = create.locator("tr.problem")
    await expect(errors).to_have_count(11)
    await expect(errors.locator("pre")).to_have_count(0)
    assert await page.evaluate("document.documentElement.scrollWidth <= 360")
    await executed(await opened(page, SMALL), "200")
    await page.evaluate(OTHERS, SMALL)  # the other operations are alike, and checking them takes long
    await axe(page)
    await page.emulate_media(color_scheme="dark")
    await expect(page.locator("html.dark-mode")).to_have_count(1)
    await axe(page, ["color-contrast"])
    await page.locator("tr.problem").filter(has_text="422").get_by_role("link").click()
    await expect(page.locator("h1")).to_have_text("Problems")


async def test_lines_are_sent_as_they_are_shown(visits, api):
    """The example of NDJSON has one row per line; Swagger UI would send it as one JSON string."""
    api.put("/models/demo", json=MODELS["demo"]["value"]).raise_for_status()
    evaluate = await opened(await visits.open("/docs"), "evaluate")
    await evaluate.locator(".opblock-section-request-body select.content-type").select_option("application/x-ndjson")
    await expect(evaluate.locator("textarea.body-param__text")).to_have_value(FEEDBACK_LINES)
    await executed(evaluate, "200")


async def test_padlocks_are_shown_where_keys_are_in_force(visits, locked_url, secrets):
    """Each route that requires a key has one, and the key of this tab is used."""
    page = await visits.open("/docs", url=locked_url, key=secrets["admin"])
    await expect(page.locator(".opblock").first.locator(LOCK)).to_be_visible(timeout=SLOW_MS)
    await expect(page.locator("[id$='-alive']")).to_have_count(1)
    await expect(page.locator("[id$='-alive']").locator(LOCK)).to_have_count(0)
    await executed(await opened(page, "list_models"), "200")


async def test_redoc_shows_the_document(visits):
    """It has its styles and its search, and loads nothing from elsewhere."""
    page = await visits.open("/redoc")
    await expect(page.get_by_role("heading", name="Create a model").first).to_be_visible(timeout=SLOW_MS)
