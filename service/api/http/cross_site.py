"""Protection without keys: rejects requests from pages of other sites that are open on this machine.

A browser sends the requests of any page, and without keys the service would execute them. So

- a request is refused if its ``Host`` is a name that someone may have registered: a page can point its own name to this
  machine (DNS rebinding). Addresses, ``localhost`` and names without a dot are safe; others must be listed in
  ``ONEPASS_ALLOWED_HOSTS``.
- a request that may change something is refused if the browser says that it comes from another site
  (``Sec-Fetch-Site``, or else ``Origin``), unless ``ONEPASS_CORS_ORIGINS`` lists it.

Programs other than browsers send neither header and are not affected. With keys, none of this is needed: browsers do
not add them automatically.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from starlette.types import Scope

from core.problems import Problem
from service.errors import Forbidden

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE = frozenset({b"same-origin", b"none"})
"""What a browser sends with a request of our own pages, and with one that its user made directly."""
KNOWN_MAX = 1000  # most hosts whose verdict is cached
HOST_BYTES_MAX = 260  # a name, a dot and a port; no valid host is longer
_HOST, _SITE, _ORIGIN, _CLIENTS = b"host", b"sec-fetch-site", b"origin", b"x-forwarded-for"
_WANTED = frozenset({_HOST, _SITE, _ORIGIN})
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORT = re.compile(r":\d*$")
_ORIGIN_FORM = re.compile(r"https?://[^/?#@\s]+")
_HOST_FORM = re.compile(r"\*|[^./?#@*\s][^/?#@*\s]*")


def origins_of(text: str) -> tuple[str, ...]:
    """The origins of ``ONEPASS_CORS_ORIGINS``; ``ValueError`` if one is invalid."""
    found = tuple(own.strip().lower().removesuffix("/") for own in text.split(",") if own.strip())
    for own in found:
        if own != "*" and _ORIGIN_FORM.fullmatch(own) is None:
            raise ValueError(f"ONEPASS_CORS_ORIGINS: {own!r} is not an origin such as https://app.example:8443")
    # Browsers leave out the default port of the scheme.
    return tuple(own.removesuffix(":443" if own.startswith("https:") else ":80") for own in found)


def proxies_of(text: str) -> tuple[Network, ...]:
    """The networks of ``ONEPASS_TRUSTED_PROXIES``; an address is a network of one. ``ValueError`` if one is invalid."""
    try:
        return tuple(ipaddress.ip_network(own.strip()) for own in text.split(",") if own.strip())
    except ValueError as error:
        raise ValueError(f"ONEPASS_TRUSTED_PROXIES: {error}") from None


class Guard:
    """Refuses requests that may come from a page of another site, by their host and origin.

    The arguments are those of ``ONEPASS_ALLOWED_HOSTS`` (names, or ``*`` for any; ``ValueError`` if one is invalid),
    ``ONEPASS_CORS_ORIGINS`` and ``ONEPASS_TRUSTED_PROXIES``.
    """

    def __init__(self, hosts: str = "", origins: Iterable[str] = (), proxies: Sequence[Network] = ()) -> None:
        self._hosts = frozenset(own.strip().lower() for own in hosts.split(",") if own.strip())
        for own in self._hosts:
            if _HOST_FORM.fullmatch(own) is None:
                raise ValueError(
                    f"ONEPASS_ALLOWED_HOSTS: {own!r} is not a name such as app.example or app.example:8443; list every "
                    "name in full, or * for any"
                )
        self._origins, self._proxies = frozenset(origins), proxies

    def check(self, scope: Scope) -> None:
        """``Forbidden`` if a request may come from another site's page."""
        sent = {name: value for name, value in scope["headers"] if name in _WANTED}
        host = sent.get(_HOST, b"")
        if len(host) > HOST_BYTES_MAX or not is_known(host, self._hosts):
            problem = Problem("Host", "is not a known name of this service", "ONEPASS_ALLOWED_HOSTS")
            raise Forbidden("without keys, Host must be an address or a known name of the service", [problem])
        if (_SITE in sent or _ORIGIN in sent) and scope["method"] not in SAFE and not self._own_site(sent):
            field = "Sec-Fetch-Site" if _SITE in sent else "Origin"
            problem = Problem(field, "is another site's", "this service's own pages, or ONEPASS_CORS_ORIGINS")
            raise Forbidden("without keys, pages of other sites may not change anything", [problem])

    def _own_site(self, sent: Mapping[bytes, bytes]) -> bool:
        origin, host = (sent.get(name, b"").decode("latin-1").lower() for name in (_ORIGIN, _HOST))
        if origin in self._origins:
            return True
        if _SITE in sent:
            return sent[_SITE] in OWN_SITE
        return not origin or origin.partition("://")[2] == host != ""

    def client(self, scope: Scope) -> str:
        """The client's address: among those that trusted proxies report, the last that is not their own."""
        found = (scope.get("client") or ("",))[0]
        lines = [value for name, value in scope["headers"] if name == _CLIENTS]
        named = b",".join(lines).decode("latin-1").split(",")
        while self._trusts(found) and named:
            found = named.pop().strip()
        return found

    def _trusts(self, client: str) -> bool:
        try:
            address = ipaddress.ip_address(client.partition("%")[0])
        except ValueError:  # not an address: a socket in the file system, or a proxy's own name for it
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._proxies)


@lru_cache(KNOWN_MAX)
def is_known(sent: bytes, hosts: frozenset[str]) -> bool:
    """Whether a host is listed, or not a registrable name: an address, or a name without a dot."""
    host = sent.decode("latin-1").lower()
    name = _PORT.sub("", host).removesuffix(".")
    if hosts & {"*", host, name} or ("." not in name and ":" not in name):
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name.endswith(".localhost")
    return True


def is_browser(scope: Scope) -> bool:
    """Whether the headers show that a browser sent the request."""
    return any(name in (_SITE, _ORIGIN) for name, _ in scope["headers"])
