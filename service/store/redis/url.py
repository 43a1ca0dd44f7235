"""The store's URL: where its servers are, and how to log in.

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]                       one server
    rediss://...                                                   the same over TLS (?ssl_ca_certs=FILE and the like)
    unix://[USER:PASSWORD@]/PATH[?db=DB]                           the same on a Unix socket
    redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../SERVICE[/DB]  the primary that Sentinels name
    redis+cluster://[USER:PASSWORD@]HOST[:PORT],...                a Redis Cluster, found through any of its nodes
    rediss+sentinel://, rediss+cluster://                          the same two over TLS

Options after ``?`` choose certificates or a database, no behaviour; ``sentinel_username`` and ``sentinel_password`` are
the credentials for the Sentinels.
"""

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import parse_url

_SINGLE = ("redis", "rediss", "unix")
_MANY = ("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_PORT = {"sentinel": 26379, "cluster": 6379}
_UNREADABLE = "the store's {}:// URL cannot be read"
_FORMS = (
    "redis://HOST:6379/0 (rediss:// over TLS), unix:///PATH, redis+sentinel://HOST:26379,.../SERVICE or "
    "redis+cluster://HOST:6379,...; empty for a private store"
)

Server = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True)
class StoreUrl:
    """A parsed URL.

    Attributes:
        kind: how the server in charge is found.
        where: the library's arguments of a connection; without host and port where those have to be found.
        seeds: Sentinels, or nodes of the cluster.
        service: the name of the primary that Sentinels know.
        sentinel: arguments of the connections to Sentinels.
    """

    kind: Literal["single", "sentinel", "cluster"]
    where: dict[str, Any]
    seeds: tuple[Server, ...] = ()
    service: str = ""
    sentinel: dict[str, Any] | None = None


def parse(url: str) -> StoreUrl:
    """Read a URL.

    Raises:
        ValueError: it cannot be used; the message does not repeat it, since it may hold a password.
    """
    scheme = urlsplit(url).scheme
    if scheme not in (*_SINGLE, *_MANY):
        raise ValueError(f"the store's URL (ONEPASS_REDIS_URL) names no kind of store that is known: write {_FORMS}")
    try:
        return StoreUrl("single", dict(parse_url(url))) if scheme in _SINGLE else _many(url, scheme)
    except ValueError:
        raise ValueError(_UNREADABLE.format(scheme)) from None


def _many(url: str, scheme: str) -> StoreUrl:
    """One URL for many servers: each host is parsed as a URL of its own."""
    plain, _, kind = scheme.partition("+")
    parts = urlsplit(url)
    who, at, hosts = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    own = {name: options.pop(f"sentinel_{name}") for name in ("username", "password") if f"sentinel_{name}" in options}
    service, _, db = parts.path.strip("/").partition("/")
    if bool(service) is (kind == "cluster"):
        raise ValueError("a cluster has no database, and Sentinels have to be asked for a service")
    query = f"?{urlencode(options)}" if options else ""
    read: list[dict[str, Any]] = [
        dict(parse_url(f"{plain}://{who}{at}{host}/{db}{query}")) for host in hosts.split(",")
    ]
    seeds = tuple((found.pop("host"), int(found.pop("port", _PORT[kind]))) for found in read)
    where = read[0]
    if kind == "cluster":
        return StoreUrl("cluster", where, seeds)
    unasked = ("username", "password", "db")
    sentinel = {name: value for name, value in where.items() if name not in unasked} | own
    return StoreUrl("sentinel", where, seeds, service, sentinel)
