"""The settings of webhooks, checked before anything is compiled or started."""

import base64
import binascii
from urllib.parse import urlsplit

URLS_MAX = 16  # each has a task, a group and a label of its own
_PREFIX = "whsec_"


def parse(text: str) -> list[str]:
    """The URLs of ``ONEPASS_WEBHOOKS``.

    ``ValueError`` names the setting and the number of the URL, never the URL: it may hold a secret.
    """
    urls = [url for item in text.split(",") if (url := item.strip())]
    for at, url in enumerate(urls):
        if not _is_http(url):
            raise ValueError(f"ONEPASS_WEBHOOKS: URL {at + 1} is not http:// or https:// with a host")
        if url in urls[:at]:
            raise ValueError(f"ONEPASS_WEBHOOKS: URL {at + 1} is listed twice")
    if len(urls) > URLS_MAX:
        raise ValueError(f"ONEPASS_WEBHOOKS: {len(urls)} URLs; at most {URLS_MAX}")
    return urls


def _is_http(url: str) -> bool:
    import httpx  # noqa: PLC0415  only where there are webhooks

    try:
        httpx.URL(url)
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False


def key_of(secret: str) -> bytes:
    """The signing bytes of ``ONEPASS_WEBHOOK_SECRET``; ``ValueError``, without it, if no base64 follows whsec_."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("ONEPASS_WEBHOOK_SECRET: the text after whsec_ is not base64") from None
