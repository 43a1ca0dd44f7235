"""Swagger UI and ReDoc as people see them: strict about what they load, short about errors, honest about streams."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LOCK = ".swagger-ui .authorization__btn"


async def opened(page, operation):
    """An operation, opened."""
    found = page.locator(f"[id$='-{operation}']")
    await found.locator(".opblock-summary").click()
    await expect(found.locator(".opblock-body")).to_be_visible()
    return found


async def test_an_example_is_executed(visits, axe):
    """As it stands, under the policy of the page; errors have a line each that leads to their page."""
    page = await visits.open("/docs")
    create = await opened(page, "create_model")
    await axe(page)
    await create.get_by_role("button", name="Execute").click()
    await expect(create.locator(".live-responses-table tbody .response-col_status").first).to_contain_text("201")
    errors = create.locator("tr.problem")
    await expect(errors).to_have_count(11)
    await expect(errors.locator("pre")).to_have_count(0)
    await errors.filter(has_text="422").get_by_role("link").click()
    await expect(page.locator("h1")).to_have_text("Problems")


async def test_streams_cannot_be_executed(visits):
    """They say what to use instead; waiting for their end would last for ever."""
    page = await visits.open("/docs")
    for operation in ("stream_drift", "stream_model", "stream_feedback", "stream_predictions"):
        stream = await opened(page, operation)
        await expect(stream).to_contain_text("curl -N")
        await expect(stream.get_by_role("button", name="Execute")).to_have_count(0)
        await expect(stream.get_by_role("button", name="Try it out")).to_have_count(0)


async def test_padlocks_are_shown_where_keys_are_in_force(visits, locked_url, secrets):
    """None without keys; with them one per route that asks for one, and the key of this tab is used."""
    page = await visits.open("/docs")
    await expect(page.locator(".opblock").first).to_be_visible()
    await expect(page.locator(LOCK)).to_have_count(0)
    page = await visits.open("/docs", url=locked_url, key=secrets["admin"])
    await expect(page.locator(".opblock").first.locator(".authorization__btn")).to_be_visible()
    await expect(page.locator("[id$='-is_alive'] .authorization__btn")).to_have_count(0)
    listed = await opened(page, "list_models")
    await listed.get_by_role("button", name="Execute").click()
    await expect(listed.locator(".live-responses-table tbody .response-col_status").first).to_contain_text("200")


async def test_the_page_has_one_banner_and_fits_a_phone(visits, axe):
    """The name and the links of every page; nothing is cut off, and in the dark it is dark."""
    page = await visits.open("/docs", phone=True, dark=True)
    await expect(page.locator("html.dark-mode")).to_have_count(1)
    await expect(page.locator(".opblock").first).to_be_visible()
    for name, address in (("Models", "/"), ("Guide", "/guide")):
        link = page.get_by_role("navigation", name="Main").get_by_role("link", name=name)
        assert address == await link.evaluate("link => new URL(link.href).pathname")
    assert await page.evaluate("document.documentElement.scrollWidth <= 360")
    await opened(page, "create_model")
    await axe(page)


async def test_redoc_shows_the_document(visits):
    """With its styles and its search, and nothing from elsewhere."""
    page = await visits.open("/redoc")
    await expect(page.get_by_role("heading", name="Create a model").first).to_be_visible()
