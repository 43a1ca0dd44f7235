"""Where a webhook is posted to: to an address that its name may lead to, and to no other.

A URL that names an address, ``localhost`` or a name without a dot says itself what it means. Any other name may lead
anywhere, and somewhere else tomorrow: so it is looked up for every post, refused where one of its addresses is not
public, unless that is allowed, and the post goes to the address that was judged.
"""

import asyncio
import ipaddress
import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class PrivateAddress(OSError):
    """The name of a URL leads to an address that is not public."""


class Request(NamedTuple):
    """How a post gets there: its URL, header lines and extensions of the HTTP client."""

    url: str
    headers: dict[str, str]
    extensions: dict[str, Any]


class Target:
    """One URL.

    Args:
        url: as configured.
        private: whether its name may lead to an address that is not public.
    """

    def __init__(self, url: str, private: bool) -> None:
        self._url, self._private, self._parts = url, private, urlsplit(url)

    async def request(self) -> Request:
        """How to post now.

        Raises:
            PrivateAddress: it may not be posted there.
            OSError: the name leads nowhere.
        """
        host = self._parts.hostname or ""
        if self._private or is_plain(host):
            return Request(self._url, {}, {})
        port = self._parts.port or (443 if self._parts.scheme == "https" else 80)
        found = await addresses(host, port)
        if not found or not all(map(is_public, found)):
            raise PrivateAddress(host)
        address = f"[{found[0]}]" if ":" in found[0] else found[0]
        url = self._parts._replace(netloc=f"{self._userinfo}{address}:{port}").geturl()
        return Request(url, {"host": self._parts.netloc.rpartition("@")[2]}, {"sni_hostname": host})

    @property
    def _userinfo(self) -> str:
        name, at, _ = self._parts.netloc.rpartition("@")
        return name + at


def is_plain(host: str) -> bool:
    """Whether a host is an address, or a name that no public name server knows."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(".localhost")
    return True


def is_public(address: str) -> bool:
    """Whether an address may be anybody's on the internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    found = mapped or found
    return found.is_global and not found.is_multicast


async def addresses(host: str, port: int) -> list[str]:
    """The addresses that a name leads to.

    Raises:
        OSError: none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(own[4][0]) for own in found]
