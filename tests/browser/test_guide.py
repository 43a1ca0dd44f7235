"""The guide and the problem pages in a browser."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.model_pages import refusal

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

GUIDE = Path(__file__).parents[2] / "service" / "pages" / "guide"


async def test_a_call_is_copied_for_this_service(visits, url):
    """The copied call has the address of this service instead of the documented one, and no answer."""
    page = await visits.open("/guide/first-model")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy").first.click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert f'curl -s -X PUT {url}/models/boiler --json \'{{"task": "regression"}}\'' == copied


async def test_calls_send_the_key_of_this_tab(visits, locked_url, secrets):
    """Each curl has the header, with a variable in place of the secret."""
    page = await visits.open("/guide/first-model", url=locked_url, key=secrets["read"])
    await expect(page.get_by_role("button", name="Copy").first).to_be_visible()
    calls = await page.locator(".code code").filter(has_text="curl").all_text_contents()
    curls = {line.partition("-s")[0] for call in calls for line in call.splitlines() if line.startswith("curl")}
    assert {'curl -H "Authorization: Bearer $ONEPASS_API_KEY" '} == curls


async def test_the_guide_is_read_from_page_to_page(visits):
    """The last link of each page leads through all pages; the contents mark the current one."""
    page = await visits.open("/guide")
    await page.get_by_role("link", name="A first model").click()
    for _ in range(len([*GUIDE.glob("*.md")]) - 1):
        title = await page.locator("h1").inner_text()
        await expect(page.locator(".contents [aria-current=page]")).to_have_text(title)
        await page.locator("a[rel=next]").click()
        await expect(page.locator("h1")).not_to_have_text(title)
    await expect(page.locator("a[rel=next]")).to_have_count(0)


async def test_a_refusal_on_a_page_leads_to_what_to_do(visits, api, url):
    """A link below the message opens the problem page named by the service in a new tab."""
    assert api.put("/models/guided", json={"task": "regression", "features": ["load"]}).is_success
    page = await visits.open("/ui/models/guided#settings", statuses=[503])
    refused = refusal("store-full", "the store is out of memory")
    await page.route(
        "**/snapshots", lambda route: route.fulfill(**refused) if route.request.method == "POST" else route.continue_()
    )
    await page.get_by_role("button", name="Take a snapshot").click()
    async with page.context.expect_page() as opened:
        await page.get_by_role("link", name="What to do").click()
    found = await opened.value
    await expect(found.locator("h1")).to_have_text("The store has no room")
    assert f"{url}/problems/store-full" == found.url
