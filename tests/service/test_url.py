"""What the store's URL says."""

import pytest

from service.store.redis.url import parse

SENTINELS = "redis+sentinel://u:p@a,b:7/store/2?sentinel_username=su&sentinel_password=sp"


@pytest.mark.parametrize(
    ("url", "kind", "seeds", "where"),
    [
        ("redis://h", "single", (), {"host": "h"}),
        ("redis://u:p@h:1/2", "single", (), {"host": "h", "port": 1, "username": "u", "password": "p", "db": 2}),
        ("unix:///a/b?db=3", "single", (), {"path": "/a/b", "db": 3}),
        (SENTINELS, "sentinel", (("a", 26379), ("b", 7)), {"username": "u", "password": "p", "db": 2}),
        ("redis+cluster://u:p@a:1,b", "cluster", (("a", 1), ("b", 6379)), {"username": "u", "password": "p"}),
    ],
)
def test_where_a_store_is(url, kind, seeds, where):
    """Host or path, or the servers that know it; credentials and database."""
    found = parse(url)
    assert (kind, seeds) == (found.kind, found.seeds)
    assert where == {name: found.where.get(name) for name in where}
    assert kind == "single" or where == found.where


def test_sentinels():
    """They are asked for a service, with credentials of their own."""
    found = parse(SENTINELS)
    assert ("store", {"username": "su", "password": "sp"}) == (found.service, found.sentinel)


@pytest.mark.parametrize("scheme", ["rediss+sentinel", "rediss+cluster"])
def test_several_servers_behind_tls(scheme):
    """Certificates are told once, for all of them."""
    found = parse(f"{scheme}://a:1,b:2/{'store' if scheme.endswith('sentinel') else ''}?ssl_ca_certs=/c.pem")
    assert "SSLConnection" == found.where["connection_class"].__name__
    assert "/c.pem" == found.where["ssl_ca_certs"]
    assert (("a", 1), ("b", 2)) == found.seeds
