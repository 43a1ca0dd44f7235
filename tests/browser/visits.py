"""Visits of pages, and everything that goes wrong on a page while it is open."""

import re
from collections.abc import Collection
from typing import Any, Literal

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 800}
SECRET = "sessionStorage.setItem('onepass.key', {!r})"
STATUS = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")


class Visits:
    """The pages that a test opens.

    Args:
        browser: opens the pages.
        url: the service, unless a visit gives another one.

    Attributes:
        wrong: errors in scripts and in the console, violations of the policy, requests that leave the service.
        received: bytes of bodies that each page has received so far, including streams.
        offline: whether pages may report that there is no network.
    """

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self._contexts: list[BrowserContext] = []
        self.wrong: list[str] = []
        self.received: dict[Page, int] = {}
        self.offline = False

    async def open(
        self,
        path: str,
        *,
        url: str | None = None,
        dark: bool = False,
        phone: bool = False,
        key: str | None = None,
        statuses: Collection[int] = (),
        wait_until: Literal["load", "commit"] = "load",
        **context: Any,
    ) -> Page:
        """Open a page, and return it once its document and scripts are loaded; their own requests may still be open.

        Args:
            path: the path of the page.
            url: another service.
            dark: use the dark colours of the system.
            phone: make it 360 pixels wide.
            key: a secret that this tab was given before.
            wait_until: the event to wait for.
            statuses: answers from 400 on that the page may get.
            context: more arguments of Playwright's ``new_context``.
        """
        base = url or self._url
        how = {"viewport": PHONE if phone else DESK, "color_scheme": "dark" if dark else "light", **context}
        made = await self._browser.new_context(**how)
        self._contexts.append(made)
        if key is not None:
            await made.add_init_script(SECRET.format(key))
        page = await made.new_page()
        page.on("console", lambda message: self._console(message, statuses))
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("request", lambda request: self._request(request, base))
        await self._count(page)
        await page.goto(base + path, wait_until=wait_until)
        return page

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()

    async def _count(self, page: Page) -> None:
        self.received[page] = 0
        session = await page.context.new_cdp_session(page)

        def received(event: dict[str, Any]) -> None:
            self.received[page] += event["dataLength"]

        session.on("Network.dataReceived", received)
        await session.send("Network.enable")

    def _console(self, message: ConsoleMessage, statuses: Collection[int]) -> None:
        status = STATUS.match(message.text)
        allowed = status is not None and int(status[1]) in statuses
        allowed = allowed or (self.offline and "ERR_INTERNET_DISCONNECTED" in message.text)
        if message.type in ("error", "warning") and not allowed:
            self.wrong.append(f"console: {message.text} ({message.location.get('url')})")

    def _request(self, request: Request, base: str) -> None:
        if not request.url.startswith((f"{base}/", "data:", "blob:")):
            self.wrong.append(f"a request leaves the service: {request.url}")
