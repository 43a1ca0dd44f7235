"""Checks the settings as a whole, before kernels are compiled; ``client.serving`` also checks certificates."""

import base64
import binascii
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

from service.api.http.cross_site import Guard, origins_of, proxies_of
from service.api.http.keys import Keys
from service.api.http.root_path import parse as root_path_of
from service.settings import Settings
from service.store.redis.connection import Connection

URLS_MAX = 16  # webhooks: each has its own task, group and label
RATE_MIN_PER_S = 1 / 86_400
_PREFIX = "whsec_"


@dataclass(slots=True)
class ValidSettings:
    """Valid settings in the form in which they are used."""

    keys: Keys  # who may do what
    origins: tuple[str, ...]  # whose pages may use the API
    guard: Guard  # protects the service in place of keys if there are none
    webhooks: list[str]  # where drift events are posted to
    webhook_key: bytes  # what signs them; empty: they are not signed


def validated(settings: Settings, keys_file: Path | None = None) -> ValidSettings:
    """Check what depends on several settings, or on more than a type; ``ValueError`` names them but repeats no secret.

    ``keys_file`` is the file that the keys were read from, if there is one.
    """
    text = settings.api_keys.get_secret_value()
    if 0 < settings.rate_per_s < RATE_MIN_PER_S:
        raise ValueError("ONEPASS_RATE_PER_S: less than a request per day; 0 is no limit")
    keys = Keys(text, settings.rate_per_s, monotonic, from_file=keys_file is not None)
    webhooks = webhooks_of(settings.webhooks.get_secret_value())
    webhook_key = webhook_key_of(settings.webhook_secret.get_secret_value())
    origins = origins_of(settings.cors_origins)
    if "*" in origins and not keys.required:
        raise ValueError("ONEPASS_CORS_ORIGINS: without keys, * would let any page change every model: list origins")
    if not (keys.required or settings.insecure or is_local(settings.host)):
        raise ValueError(
            f"ONEPASS_HOST: {settings.host} can be reached from other machines, and no keys are configured: anyone "
            "could read, change and delete every model. Set ONEPASS_API_KEYS or ONEPASS_API_KEYS_FILE; or "
            "ONEPASS_INSECURE=1 where something else keeps others out, such as a port published to 127.0.0.1 only"
        )
    root_path_of(settings.root_path)
    if settings.redis_url:
        # finds an invalid URL
        Connection(settings.redis_url.get_secret_value(), settings.store_timeout_s)
    elif settings.min_replicas:
        raise ValueError("ONEPASS_MIN_REPLICAS: the private store has no replicas; set ONEPASS_REDIS_URL too")
    guard = Guard(settings.allowed_hosts, origins, proxies_of(settings.trusted_proxies))
    return ValidSettings(keys, origins, guard, webhooks, webhook_key)


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address; a name other than localhost may stand for any address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def webhooks_of(text: str) -> list[str]:
    """The URLs of ``ONEPASS_WEBHOOKS``; checks that the environment lets a client be made for them.

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
    if urls:
        _client_can_be_made(urls)
    return urls


def _client_can_be_made(urls: list[str]) -> None:
    """``ValueError`` if the environment names a proxy or authorities that the webhooks' client cannot use."""
    import httpx  # noqa: PLC0415  only where there are webhooks

    proxies = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY, for webhooks"
    secure = any(url.lower().startswith("https:") for url in urls)
    try:
        httpx.Client(verify=secure and httpx.create_ssl_context()).close()
    except OSError as error:
        raise ValueError(f"SSL_CERT_FILE, for webhooks: {error.strerror}") from None
    except httpx.InvalidURL:  # which may quote a password
        raise ValueError(f"{proxies}: not a URL") from None
    except (ImportError, ValueError) as error:
        raise ValueError(f"{proxies}: {error}") from None


def _is_http(url: str) -> bool:
    import httpx  # noqa: PLC0415  only where there are webhooks

    try:
        httpx.URL(url)
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False


def webhook_key_of(secret: str) -> bytes:
    """The signing bytes of ``ONEPASS_WEBHOOK_SECRET``; ``ValueError``, not quoting it, if no base64 follows whsec_."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("ONEPASS_WEBHOOK_SECRET: the text after whsec_ is not base64") from None
