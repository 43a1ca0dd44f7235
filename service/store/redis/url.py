"""The store's URL: where its servers are, and how to log in.

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]                       one server
    rediss://...                                                   the same over TLS (?ssl_ca_certs=FILE and the like)
    unix://[USER:PASSWORD@]/PATH[?db=DB]                           the same on a Unix socket
    redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../SERVICE[/DB]  the primary that Sentinels name
    redis+cluster://[USER:PASSWORD@]HOST[:PORT],...                a Redis Cluster, found through any of its nodes
    rediss+sentinel://, rediss+cluster://                          the same two over TLS

Options after ``?`` choose certificates or a database, not behaviour; ``sentinel_username`` and ``sentinel_password``
are the credentials for the Sentinels.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import parse_url

from service.store.redis.tls import TlsConnection

_SINGLE = ("redis", "rediss", "unix")
_MANY = ("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_PORT = {"sentinel": 26379, "cluster": 6379}
_FORMS = (
    "redis://HOST:6379/0 (rediss:// over TLS), unix:///PATH, redis+sentinel://HOST:26379,.../SERVICE or "
    "redis+cluster://HOST:6379,...; empty for a private store"
)

_NO_TEXT = {"connection_class", "credential_provider"}

ServerAddress = tuple[str, int]
"""Host and port."""


class StoreUrl(NamedTuple):
    """A parsed URL."""

    kind: Literal["single", "sentinel", "cluster"]  # how the server in charge is found
    where: dict[str, Any]  # the library's arguments of a connection; without host and port where those have to be found
    seeds: tuple[ServerAddress, ...] = ()  # Sentinels, or nodes of the cluster
    service: str = ""  # the name of the primary that Sentinels know
    sentinel: Mapping[str, Any] = MappingProxyType({})  # arguments of the connections to Sentinels


def parse(url: str) -> StoreUrl:
    """Read a URL; ``ValueError`` if it cannot be used, without repeating the URL, since it may hold a password."""
    parts = urlsplit(url)
    if parts.scheme not in (*_SINGLE, *_MANY):
        raise ValueError(f"the store's URL (ONEPASS_REDIS_URL) is of an unknown kind: use {_FORMS}")
    try:
        if _NO_TEXT & dict(parse_qsl(parts.query)).keys():
            raise ValueError("an option that is an object of the library")
        return StoreUrl("single", _one(url)) if parts.scheme in _SINGLE else _many(parts)
    except (ValueError, KeyError):  # KeyError: there is no host
        raise ValueError(f"the store's URL (ONEPASS_REDIS_URL) cannot be read: use {_FORMS}") from None


def _one(url: str) -> dict[str, Any]:
    """The library's arguments for one server. The library itself would take a database that is not a number for 0."""
    parts = urlsplit(url)
    if parts.scheme != "unix" and not (parts.path.strip("/") or "0").isdecimal():
        raise ValueError("the database is not a number")
    found = dict(parse_url(url))
    return {**found, "connection_class": TlsConnection} if parts.scheme == "rediss" else found


def _many(parts: SplitResult) -> StoreUrl:
    """One URL for many servers: each host is parsed as a separate URL."""
    plain, _, kind = parts.scheme.partition("+")
    user, at, hosts = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    own = {name: options.pop(f"sentinel_{name}") for name in ("username", "password") if f"sentinel_{name}" in options}
    service, _, db = parts.path.strip("/").partition("/")
    if bool(service) is (kind == "cluster"):
        raise ValueError("a cluster has no database number, and a Sentinel URL needs a service name")
    read: list[dict[str, Any]] = [
        _one(f"{plain}://{user}{at}{host}/{db}?{urlencode(options)}") for host in hosts.split(",")
    ]
    seeds = tuple((one.pop("host"), int(one.pop("port", _PORT[kind]))) for one in read)
    if kind == "cluster":
        return StoreUrl("cluster", read[0], seeds)
    sentinel = {name: value for name, value in read[0].items() if name not in ("username", "password", "db")}
    return StoreUrl("sentinel", read[0], seeds, service, sentinel | own)
