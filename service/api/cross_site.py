"""What stands in for keys where none are configured: pages of other sites, opened on this machine, get nowhere.

A browser sends what a page of another site tells it to, and where no key is asked for, that would be done. So

- a name in ``Host`` that may be anybody's is refused: a page may let its own name lead here (DNS rebinding). Addresses,
  ``localhost`` and names without a dot are nobody's; others are listed in ``ONEPASS_ALLOWED_HOSTS``.
  Behind a proxy of ``ONEPASS_TRUSTED_PROXIES`` the name is that of ``X-Forwarded-Host``, where there is one.
- a request that may change something is refused where the browser says that it is of another site (``Sec-Fetch-Site``,
  or else ``Origin``), unless ``ONEPASS_CORS_ORIGINS`` lists it.

Programs that are no browsers send neither header, and are not concerned. With keys none of this is needed: no browser
adds one by itself.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from starlette.types import Scope

from core.problems import Problem
from service.errors import Forbidden

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE = frozenset({b"same-origin", b"none"})
"""What a browser says of a request of our own pages, and of one that its user has made."""
KNOWN_MAX = 1000
"""Values of ``Host`` whose verdict is remembered."""
_HOST, _SITE, _ORIGIN, _FORWARDED = b"host", b"sec-fetch-site", b"origin", b"x-forwarded-host"
_WANTED = frozenset({_HOST, _SITE, _ORIGIN})
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORT = re.compile(r":\d*$")
_ORIGIN_FORM = re.compile(r"https?://[^/?#@\s]+")


def origins_of(text: str) -> tuple[str, ...]:
    """The origins of ``ONEPASS_CORS_ORIGINS``.

    Raises:
        ValueError: one that is none.
    """
    found = tuple(own.strip().lower().removesuffix("/") for own in text.split(",") if own.strip())
    for own in found:
        if own != "*" and _ORIGIN_FORM.fullmatch(own) is None:
            raise ValueError(f"ONEPASS_CORS_ORIGINS: {own!r} is no origin such as https://app.example:8443")
    return found


def proxies_of(text: str) -> tuple[Network, ...]:
    """The networks of ``ONEPASS_TRUSTED_PROXIES``; an address is a network of one.

    Raises:
        ValueError: one that is none.
    """
    try:
        return tuple(ipaddress.ip_network(own.strip()) for own in text.split(",") if own.strip())
    except ValueError as error:
        raise ValueError(f"ONEPASS_TRUSTED_PROXIES: {error}") from None


class Guard:
    """Refuses what may be a page of another site.

    Args:
        hosts: of ``ONEPASS_ALLOWED_HOSTS``: names, or ``*`` for any.
        origins: of ``ONEPASS_CORS_ORIGINS``.
        proxies: of ``ONEPASS_TRUSTED_PROXIES``.
    """

    def __init__(self, hosts: str = "", origins: Iterable[str] = (), proxies: Sequence[Network] = ()) -> None:
        self._hosts = frozenset(own.strip().lower() for own in hosts.split(",") if own.strip())
        self._origins = frozenset(own.encode() for own in origins)
        self._verdicts: dict[bytes, bool] = {}
        self._proxies = proxies

    def check(self, scope: Scope) -> None:
        """Let a request in.

        Raises:
            Forbidden: it may be one of another site's page.
        """
        found = {name: value for name, value in scope["headers"] if name in _WANTED}
        if self._proxies:
            self._look_behind_proxy(scope, found)
        host = found.get(_HOST)
        if host is not None and not (self._verdicts.get(host) or self._knows(host)):
            problem = Problem("Host", "is a name that is not known to be this service's", "ONEPASS_ALLOWED_HOSTS")
            raise Forbidden("without keys the service answers to addresses and to names it knows", [problem])
        if len(found) > (host is not None) and scope["method"] not in SAFE and not self._own_site(found):
            field = "Sec-Fetch-Site" if _SITE in found else "Origin"
            problem = Problem(field, "is another site's", "this service's own pages, or ONEPASS_CORS_ORIGINS")
            raise Forbidden("without keys pages of other sites may change nothing", [problem])

    def _look_behind_proxy(self, scope: Scope, found: dict[bytes, bytes]) -> None:
        """Put what a trusted proxy was asked for in place of what it asks; of several names its own is the last."""
        named = [value for name, value in scope["headers"] if name == _FORWARDED]
        if named and self._trusts(scope["client"]):
            found[_HOST] = named[-1].rpartition(b",")[2].strip()

    def _trusts(self, client: tuple[str, int] | None) -> bool:
        if client is None:  # by a socket in the file system
            return False
        address = ipaddress.ip_address(client[0].partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._proxies)

    def _own_site(self, found: dict[bytes, bytes]) -> bool:
        origin, site = found.get(_ORIGIN), found.get(_SITE)
        if origin is not None and origin.lower() in self._origins:
            return True
        if site is not None:
            return site in OWN_SITE
        assert origin is not None
        return urlsplit(origin.decode("latin-1").lower()).netloc.encode("latin-1") == found.get(_HOST, b"").lower()

    def _knows(self, host: bytes) -> bool:
        verdict = self._verdicts.get(host)
        if verdict is None:
            verdict = self._judge(host.decode("latin-1").lower())
            if len(self._verdicts) < KNOWN_MAX:
                self._verdicts[host] = verdict
        return verdict

    def _judge(self, host: str) -> bool:
        name = _PORT.sub("", host).removesuffix(".")
        return not self._hosts.isdisjoint({"*", host, name}) or is_nobodys(name)


def is_nobodys(name: str) -> bool:
    """Whether a host can be no name that somebody has registered: an address, or a name without a dot."""
    if "." not in name and ":" not in name:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name.endswith(".localhost")
    return True


def is_browser(scope: Scope) -> bool:
    """Whether a browser says that it has sent the request."""
    return any(name in (_SITE, _ORIGIN) for name, _ in scope["headers"])
