"""Webhooks go where their names may lead, and to the address that was judged."""

import asyncio

import pytest

from service.monitor import webhook_target
from service.monitor.webhook_target import PrivateAddress, Request, Target
from service.monitor.webhooks import Webhook, enveloped
from service.store.events import StoredEvent, StreamPosition
from tests.service.receiver import Receiver

PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
]  # fmt: skip
EVENT = StoredEvent(StreamPosition(1, 1), "m", "inc-1-0", 1_770_000_000_000, b'{"id":"inc-1-0","challenger":null}')


@pytest.fixture
def leads_to(monkeypatch):
    """Every name leads to these addresses."""

    def set_to(*found):
        async def addresses(*_):
            return [*found]

        monkeypatch.setattr(webhook_target, "addresses", addresses)

    return set_to


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_leads_to_a_private_address(leads_to, address):
    """Is refused, also where another of its addresses is public; and taken where that is allowed."""
    for found in ([address], ["93.184.216.34", address]):
        leads_to(*found)
        with pytest.raises(PrivateAddress):
            await Target("https://hooks.example/x", private=False).request()
    assert Request("https://hooks.example/x", {}, {}) == await Target("https://hooks.example/x", private=True).request()


async def test_a_public_name_is_posted_to_the_address_that_was_judged(leads_to):
    """A name server that answers otherwise the second time changes nothing; the host and its certificate stay."""
    leads_to("93.184.216.34", "2606:2800:220:1::1")
    found = await Target("https://me:pw@hooks.example/x?y=1", private=False).request()
    expected = "https://me:pw@93.184.216.34:443/x?y=1", {"host": "hooks.example"}, {"sni_hostname": "hooks.example"}
    assert expected == found
    leads_to("2606:2800:220:1::1")
    found = await Target("http://hooks.example:8080/x", private=False).request()
    assert ("http://[2606:2800:220:1::1]:8080/x", {"host": "hooks.example:8080"}) == found[:2]


@pytest.mark.parametrize("host", ["127.0.0.1:9", "[::1]:9", "10.0.0.1", "localhost", "receiver", "a.localhost"])
async def test_what_says_itself_where_it_is(host):
    """Is not looked up."""
    assert Request(f"http://{host}/x", {}, {}) == await Target(f"http://{host}/x", private=False).request()


async def test_nothing_reaches_a_private_address_and_what_is_judged_is_reached(leads_to, monkeypatch):
    """The attack: a name of the outside that leads to this machine."""
    import httpx

    async with Receiver() as receiver, httpx.AsyncClient() as client:
        url = f"http://hooks.example:{receiver.port}/hook"
        hook = Webhook(1, url, b"", None, None, 1.0)
        leads_to("127.0.0.1")
        assert "PrivateAddress" == await hook._post(client, EVENT)
        assert [] == receiver.posted
        monkeypatch.setattr(webhook_target, "is_public", lambda address: address == "127.0.0.1")
        assert await asyncio.wait_for(hook._post(client, EVENT), 20) is None
        (posted,) = receiver.posted
        assert f"hooks.example:{receiver.port}" == posted.headers["host"]
        assert "/hook" == posted.path
        assert {
            "type": "drift.detected",
            "timestamp": "2026-02-02T02:40:00.000Z",
            "id": "inc-1-0",
        }.items() <= posted.event.items()


def test_the_envelope_holds_the_event():
    """Type and time first, then the fields that clients know."""
    told = b'{"type":"drift.detected","timestamp":"2026-02-02T02:40:00.000Z","id":"inc-1-0",'
    assert enveloped(EVENT).startswith(told)
