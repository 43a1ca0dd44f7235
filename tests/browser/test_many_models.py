"""The list of models on a service that is empty at first and then has ten thousand models."""

import re
import shutil
import subprocess

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from service.client import private
from service.embedded import EmbeddedStore
from tests.browser import many

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MODELS = 10_000
BYTES_MAX = 200_000
"""The limit for a page of the list, including its scripts and styles."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The address of a separate store."""
    held = EmbeddedStore(tmp_path_factory.mktemp("store"), "everysec")
    yield held.start()
    held.stop()


@pytest.fixture(scope="module")
def empty_url(store):
    """A service on that store."""
    with private.session(ONEPASS_REDIS_URL=store) as found:
        yield found.url


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def many_url(empty_url, store):
    """The same service with ten thousand models, stored as if the service had created them."""
    await many.create(store, MODELS)
    return empty_url


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt install curl")
async def test_the_calls_of_an_empty_service_work(visits, axe, empty_url):
    """Copied unchanged they create a model, and the page then shows it without a reload."""
    page = await visits.open("/", url=empty_url, permissions=["clipboard-read", "clipboard-write"])
    await expect(page.get_by_role("heading", name="No models yet")).to_be_visible()
    await axe(page)
    calls = page.locator(".calls li")
    assert 3 == await calls.count()
    assert "onepass demo" == await page.locator("pre").last.inner_text()
    commands = []
    for call in await calls.all():
        commands.append(await call.locator("pre").inner_text())
        await call.get_by_role("button").click()
        copied = "text => navigator.clipboard.readText().then(copy => copy === text)"
        await page.wait_for_function(copied, arg=commands[-1])
    run = {"shell": True, "capture_output": True, "text": True, "timeout": 30}
    answers = [subprocess.run(command, **run).stdout for command in commands]
    assert '"version":0' in answers[0]
    assert '"rows":1' in answers[1]
    assert re.search(r'"prediction":61\.', answers[2])
    await expect(page.get_by_role("link", name="boiler")).to_be_visible(timeout=20_000)
    await expect(page.get_by_role("heading", name="No models yet")).to_have_count(0)
    httpx.delete(f"{empty_url}/models/boiler")


async def test_ten_thousand_models_come_in_small_pages(visits, many_url):
    """Fifty at a time, worst first, in under 200 KB with all scripts; paging works both ways, search finds names."""
    page = await visits.open("/", url=many_url)
    await expect(page.locator("tbody tr")).to_have_count(50)
    assert BYTES_MAX > visits.received[page] > 20_000
    names = page.locator("tbody th a")
    await expect(names.first).to_have_text("many-00000")
    await page.get_by_role("button", name="Next").click()
    await expect(names.first).to_have_text("many-00050")
    await expect(page.locator("tbody tr")).to_have_count(50)
    await page.get_by_role("button", name="Next").click()
    await expect(names.first).to_have_text("many-00100")
    await page.get_by_role("button", name="Previous").click()
    await expect(names.first).to_have_text("many-00050")
    await page.go_back()
    await expect(names.first).to_have_text("many-00100")
    await page.get_by_label("Search by name").fill("09998")
    await expect(names).to_have_text(["many-09998"])
