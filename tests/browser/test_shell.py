"""Common to all pages: no foreign resources, colours, the key, the state of the service."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from playwright.async_api import expect
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.service.local_server import LocalServer, running

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

GUIDE = ["/guide", "/guide/strings-and-gaps", "/problems", "/problems/clash"]
PAGES = ["/", "/ui/models/nobody", *GUIDE]
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


async def test_the_harness_notices_errors(visits):
    """It notices a failing script, an error in the console, a violation of the policy and a request to elsewhere."""
    page = await visits.open("/")
    await page.evaluate("setTimeout(() => { throw new Error('own mistake'); })")
    await page.evaluate("console.error('own complaint')")
    await page.evaluate("document.head.append(Object.assign(document.createElement('style'), {textContent: 'a {}'}))")
    async with page.expect_event("request"):
        await page.evaluate("location.href = 'http://127.0.0.1:9/elsewhere'")
    wanted = ("own mistake", "own complaint", "style-src", "leaves the service")
    async with asyncio.timeout(30):
        while not all(any(word in wrong for wrong in visits.wrong) for word in wanted):
            await asyncio.sleep(0.02)
    visits.wrong.clear()


@pytest.mark.parametrize(
    ("path", "dark"), [("/", True), *((path, False) for path in PAGES[1:]), (GUIDE[1], True), (GUIDE[3], True)]
)
async def test_a_page_is_accessible(visits, axe, path, dark):
    """There is no serious finding, in light or dark colours, once the service has answered."""
    page = await visits.open(path, dark=dark, statuses=[404])
    await expect(page.locator("#service-text")).to_have_text("Ready")
    await axe(page)


async def test_colours_follow_the_system_until_the_user_chooses(visits):
    """From then on the choice holds on this device, on every page."""
    page = await visits.open("/", dark=True)
    dark = await page.evaluate(BACKGROUND)
    await page.get_by_role("button", name="Use light colours").click()
    light = await page.evaluate(BACKGROUND)
    assert dark != light
    await page.reload()
    assert light == await page.evaluate(BACKGROUND)
    await expect(page.get_by_role("button", name="Use dark colours")).to_be_visible()


@pytest.mark.parametrize("path", PAGES)
async def test_a_phone_scrolls_in_one_direction(visits, path):
    """At 360 pixels nothing is wider than the screen unless it scrolls by itself."""
    page = await visits.open(path, phone=True, statuses=[404])
    await expect(page.locator("#service")).to_have_attribute("data-state", "ready")
    assert 360 >= await page.evaluate("document.documentElement.scrollWidth")


async def test_the_keyboard_reaches_the_content_first(visits):
    """The first stop is a link that skips the header."""
    page = await visits.open("/")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()


async def test_an_unreachable_service_is_reported(visits):
    """The message appears once, where screen readers announce it; the list does not go on calling the store up."""
    page = await visits.open("/")
    await expect(page.locator("#service-text")).to_have_text("Ready")
    visits.offline = True
    await page.context.set_offline(True)
    await expect(page.get_by_role("status").filter(has_text=re.compile("^Unreachable$"))).to_be_visible(timeout=30_000)
    await expect(page.locator("#health dd")).to_have_text(["Unreachable", "Unknown", "Unknown", "– entries", "–"])


@contextlib.asynccontextmanager
async def proxied(url: str, prefix: str) -> AsyncIterator[str]:
    """Run a proxy that serves a service under a prefix, which it strips, and yield its address.

    The prefix has a leading slash and no trailing one; the service does not know it.
    """
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:

        async def forward(request: Request) -> StreamingResponse:
            there = httpx.URL(url, path=f"/{request.path_params['path']}", query=request.url.query.encode())
            sent = httpx.Request(request.method, there, headers=request.headers.raw, content=await request.body())
            answer = await client.send(sent, stream=True)
            close = BackgroundTask(answer.aclose)
            return StreamingResponse(answer.aiter_raw(), answer.status_code, answer.headers, background=close)

        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        app = Starlette(routes=[Route(f"{prefix}/{{path:path}}", forward, methods=methods)])
        async with running(LocalServer(app)) as server:
            yield f"http://127.0.0.1:{server.port}{prefix}"


async def test_pages_work_behind_a_proxy_with_a_prefix(visits, api, url):
    """The service does not know the prefix: scripts, calls, streams and links are relative to the page."""
    api.put("/models/prefixed", json={"task": "regression"})
    async with proxied(url, "/some/where") as behind:
        page = await visits.open("/?search=prefixed", url=behind)
        await expect(page.locator("#live-text")).to_have_text("Live")
        await page.get_by_role("link", name="prefixed").click()
        await expect(page).to_have_url(f"{behind}/ui/models/prefixed")
        await expect(page.locator("#live")).to_have_attribute("data-state", "live")
        await page.get_by_role("link", name="Guide").first.click()
        await expect(page).to_have_url(f"{behind}/guide")
        await page.get_by_role("link", name="API").first.click()
        await expect(page).to_have_url(f"{behind}/docs")
        await expect(page.get_by_text("Create a model", exact=True).first).to_be_visible()
        await visits.close()
    api.delete("/models/prefixed")
