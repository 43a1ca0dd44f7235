"""Webhooks: what is posted, signed and repeated; that a dead one delays nobody; that N replicas deliver once."""

import asyncio
import base64
import hashlib
import hmac
import itertools
import logging

import pytest
from pydantic import SecretStr

from service import logs
from service.app import build
from service.errors import StoreDown
from service.monitor import webhooks as hooks
from service.settings import Settings
from service.settings_validation import validated, webhook_key_of, webhooks_of
from service.store.drift import deliveries
from service.store.drift.deliveries import Deliveries
from service.store.keys import DRIFT_WEBHOOKS
from tests.alarms import HELD_BACK, JOINS
from tests.service.drift.test_api_drift import raise_alarms
from tests.service.receiver import Raw, Receiver
from tests.service.waiting import until

pytestmark = pytest.mark.usefixtures("alarming", "hasty")
SECRET = "s3cret-signing"
CHUNKED = b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOOD = Raw(CHUNKED % 200, b"10000\r\n" + bytes(65536) + b"\r\n")


def refusal(*headers, status=302):
    return Raw(b"\r\n".join((b"HTTP/1.1 %d X" % status, b"Content-Length: 0", *headers, b"", b"")))


HOSTILE = [
    *(refusal(b"Location: " + to) for to in (
        b"mailto:ops@example.com", b"http:a", b"javascript:x", b"http://xn--/", b"http://[::1", b"/" + b"a" * 70_000,
        b"http://a:99999/", b"http://\xff/", b"ftp://h/", b"", b"//",
    )),
    refusal(), refusal(b"Set-Cookie: a=b"), refusal(b"Set-Cookie: \xff=\xfe; Max-Age=" + b"9" * 5000),
    Raw(b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"), refusal(status=999),
    FLOOD._replace(first=CHUNKED % 500), Raw(CHUNKED % 500 + b"zz\r\n"), Raw(b""), Raw(b"HTTP/1.1 200 O"),
    Raw(b"hello\r\n"), Raw(b"HTTP/1.1 ten X\r\n\r\n"), Raw(bytes(range(256)) * 9),
    Raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), Raw(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n"),
    Raw(b"HTTP/1.1 200 OK\r\n", b"a: " + b"b" * 8000 + b"\r\n"), Raw(b"HTTP/1.1 200 OK\r\na: ", b"b"),
    Raw(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    Raw(b"HTTP/1.1 500 X\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"), "silent",
]  # fmt: skip
"""Answers that are no success: redirects to what is no address, statuses, and what is hardly HTTP."""


@pytest.fixture(scope="module")
def hasty():
    """Pauses and limits of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hooks, "BACKOFF_S", 0.01)
        patch.setattr(hooks, "BACKOFF_S_MAX", 0.05)
        patch.setattr(hooks, "LOOK_S", 0.05)
        yield


@pytest.fixture(scope="module")
async def hooked(start):
    """Starts services that post to receivers, and waits until their places in the stream are known."""

    async def started(*receivers, **settings):
        urls = ",".join(receiver.url for receiver in receivers)
        api = await start(webhooks=urls, webhook_secret=SecretStr(SECRET), **settings)
        connection = api.engine.store.connection
        wanted = {hooks.name_of(receiver.url).encode() for receiver in receivers}

        async def known():
            return wanted <= {*(await connection.ask(("HKEYS", DRIFT_WEBHOOKS)))[0]}

        await until(known)
        return api

    return started


async def outcomes(api, number=1):
    """What the metrics say of a webhook."""
    told = await api.scraped()
    return {key[1]: told[key] for key in told if (key[0], key[-1]) == ("onepass_webhook_events_total", str(number))}


async def reaches(api, number=1, **expected):
    """Wait until the counters of a webhook are at least these."""

    async def there():
        found = await outcomes(api, number)
        return all(found[name] >= count for name, count in expected.items())

    await until(there)


async def test_an_event_is_posted_as_it_is_listed_and_signed(hooked):
    """The JSON of the list; an id that is the event's; a signature that the recipe of service/models.md verifies."""
    async with Receiver() as receiver:
        api = await hooked(receiver)
        path = await api.new()
        await raise_alarms(api, path, 2)
        posted = await receiver.got(2)
        listed = (await api.get(f"{path}/drift"))["events"]
        assert [{"type": "drift.detected", "timestamp": one["time"], **one} for one in listed] == [
            one.event for one in posted
        ]
        for one, event in zip(posted, listed, strict=True):
            signed = f"{one.headers['webhook-id']}.{one.headers['webhook-timestamp']}.".encode() + one.body
            mac = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
            assert event["id"] == one.headers["webhook-id"]
            assert "v1," + base64.b64encode(mac).decode() == one.headers["webhook-signature"]
            assert "application/json" == one.headers["content-type"]
        await reaches(api, delivered=2)


async def test_what_a_cool_down_holds_back_is_not_posted(hooked):
    """Nor is what joins an event; the next event is."""
    async with Receiver() as receiver:
        api = await hooked(receiver)
        path = await api.new()
        await raise_alarms(api, path, 1)
        await raise_alarms(api, path, 2, JOINS)
        await raise_alarms(api, path, 2, HELD_BACK)
        await raise_alarms(api, path, 1)
        posted = await receiver.got(2)
        first, *_, last = (await api.get(f"{path}/drift"))["events"]
        assert [first["id"], last["id"]] == [one.event["id"] for one in posted]
        assert ([], 2) == (posted[0].event["alarms"], first["alarm_count"])
        await reaches(api, delivered=2, held_back=2)


async def test_what_fails_is_sent_again_under_the_same_id(hooked):
    """A 500, a redirect and a 404 do not count; the same event comes again until it is taken, then the next one."""
    answers = {1: 500, 2: 307, 3: 404}
    async with Receiver(lambda number: answers.get(number, 200)) as receiver:
        api = await hooked(receiver)
        path = await api.new()
        await raise_alarms(api, path, 2)
        posted = await receiver.got(5)
        ids = [one.headers["webhook-id"] for one in posted]
        assert [ids[0]] * 4 == ids[:4]
        assert ids[0] != ids[4]
        assert {"/hook?token=s3cret-token"} == {one.path for one in posted}
        await reaches(api, failed=3, delivered=2)


async def test_a_dead_webhook_delays_nobody_and_is_counted(hooked, monkeypatch):
    """Others get every event; its own are dropped when their budget ends, and it gets the next one when it is back."""
    monkeypatch.setattr(hooks, "BUDGET_S", 0.1)
    dead = [True]
    async with Receiver(lambda _: 503 if dead[0] else 200) as down, Receiver() as up:
        api = await hooked(down, up)
        path = await api.new()
        await raise_alarms(api, path, 3)
        assert 3 == len(await up.got(3))
        await reaches(api, dropped=3)
        dead[0] = False
        await raise_alarms(api, path, 1)
        await reaches(api, delivered=1)
        last = (await api.get(f"{path}/drift"))["events"][-1]
        assert last.items() <= down.posted[-1].event.items()


async def test_a_store_that_comes_and_goes_does_not_renew_the_budget(hooked, monkeypatch):
    """An event that cannot be delivered is dropped although every other look at the stream fails."""
    monkeypatch.setattr(hooks, "BUDGET_S", 0.5)
    look, looks = Deliveries.next, itertools.count()

    async def unsteady(*given):
        if next(looks) % 2:
            raise StoreDown("the store does not answer")
        return await look(*given)

    async with Receiver(lambda _: 503) as receiver:
        api = await hooked(receiver)
        monkeypatch.setattr(Deliveries, "next", unsteady)
        await raise_alarms(api, await api.new(), 1)
        await reaches(api, dropped=1)


async def test_events_that_leave_the_stream_while_one_is_retried_are_counted(hooked, monkeypatch, caplog):
    """The retried one is among them, a warning says how many; a webhook that is back gets those that are left."""
    monkeypatch.setattr("service.app.KEPT", 4)
    dead = [True]
    async with Receiver(lambda _: 503 if dead[0] else 200) as receiver:
        api = await hooked(receiver)
        path = await api.new()
        await raise_alarms(api, path, 1)
        await reaches(api, failed=1)
        await raise_alarms(api, path, 10)
        await reaches(api, missed=7)
        dead[0] = False
        await reaches(api, delivered=4)
        found = await outcomes(api)
        assert (7, 0) == (found["missed"], found["dropped"])
    assert "webhook 1: 7 entries left the stream of drift events before their turn" in caplog.text


async def test_a_silent_and_a_flooding_receiver_are_given_up(hooked, monkeypatch):
    """No answer in time is a failure; a body without end is not read."""
    monkeypatch.setattr(hooks, "ATTEMPT_S", 1.0)
    answers = {1: "silent"}
    async with Receiver(lambda number: answers.get(number, FLOOD)) as receiver:
        api = await hooked(receiver)
        await raise_alarms(api, await api.new(), 2)
        await reaches(api, failed=1, delivered=2)
        ids = [one.headers["webhook-id"] for one in receiver.posted]
        assert ids[0] == ids[1]
        assert 2 == len(set(ids))


async def test_no_answer_ends_the_task(hooked, monkeypatch, caplog):
    """Whatever a receiver answers but 2xx is one failed attempt; cookies are not sent back; the service stays ready."""
    monkeypatch.setattr(hooks, "ATTEMPT_S", 0.5)
    async with Receiver(lambda number: dict(enumerate(HOSTILE, 1)).get(number, 204)) as receiver:
        api = await hooked(receiver)
        await raise_alarms(api, await api.new(), 1)
        posted = await receiver.got(len(HOSTILE) + 1)
        await reaches(api, delivered=1)
        assert len(HOSTILE) == (await outcomes(api))["failed"] == len(posted) - 1
        assert not any("cookie" in one.headers for one in posted)
    assert [] == [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_webhook_whose_task_dies_does_not_make_the_service_unready(hooked, monkeypatch, caplog):
    """It is started again, and requests are answered meanwhile."""
    died = []

    async def dies(*_):
        died.append(1)
        raise RuntimeError("a bug")

    async with Receiver() as receiver:
        api = await hooked(receiver)
        monkeypatch.setattr(hooks.Webhook, "_next", dies)
        await raise_alarms(api, await api.new(), 1)
        await until(lambda: api.engine._dead)
        assert 200 == (await api.ask("GET", "/readyz")).status_code
        monkeypatch.undo()
        await receiver.got(1)
    assert "the task webhook 1 died; restarting it" in caplog.messages


async def test_replicas_deliver_once_among_them(hooked):
    """Two services, one webhook, every event once."""
    async with Receiver() as receiver:
        pair = [await hooked(receiver) for _ in range(2)]
        path = await pair[0].new()
        for number in range(6):
            await raise_alarms(pair[number % 2], path, 2)
        posted = await receiver.got(12)
        await pair[0].get(f"{path}/drift", params={"consistency": "strong"})
        ids = [one.headers["webhook-id"] for one in posted]
        assert 12 == len(set(ids)) == len(ids)


async def stopped(api):
    """Stop the webhook as the engine does."""
    task = api.engine._tasks["webhook 1"]
    task.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait([task])


async def test_a_service_that_stops_hands_over_at_once_and_doubles_nothing(hooked, monkeypatch):
    """A post that is under way may end, and counts; the next service delivers what follows."""
    monkeypatch.setattr(deliveries, "TURN_MS", 3_600_000)
    async with Receiver(lambda _: "slow") as receiver:
        first = await hooked(receiver)
        path = await first.new()
        await raise_alarms(first, path, 2)
        await receiver.got(1)
        await stopped(first)
        second = await hooked(receiver)
        await receiver.got(2)
        await reaches(second, delivered=1)
        listed = (await second.get(f"{path}/drift"))["events"]
        assert [one["id"] for one in listed] == [one.headers["webhook-id"] for one in receiver.posted]


async def test_a_post_that_fails_during_a_stop_is_sent_again(hooked, monkeypatch):
    """The next service delivers the event."""
    tried = asyncio.Event()

    async def refused(*_):
        tried.set()
        await asyncio.sleep(0.2)
        return "status 500"

    async with Receiver() as receiver:
        first = await hooked(receiver)
        with monkeypatch.context() as patch:
            patch.setattr(hooks.Webhook, "_post", refused)
            await raise_alarms(first, await first.new(), 1)
            await asyncio.wait_for(tried.wait(), 30)
            await stopped(first)
        await reaches(await hooked(receiver), delivered=1)


async def test_what_does_not_answer_holds_no_stop(hooked, monkeypatch):
    """The event comes again from the next service, if need be when the turn is over."""
    away = [True]

    async def silent(*_):
        await asyncio.sleep(3600 * away[0])
        raise StoreDown("the store does not answer")

    monkeypatch.setattr(hooks, "LAST_S", 0.1)
    monkeypatch.setattr(deliveries, "TURN_MS", 200)
    monkeypatch.setattr(Deliveries, "leave", silent)
    async with Receiver(lambda number: "silent" if number < 3 else 204) as receiver:
        for number in (1, 2):
            api = await hooked(receiver)
            if number == 1:
                await raise_alarms(api, await api.new(), 1)
            await receiver.got(number)
            await stopped(api)
            away[0] = False
        await reaches(await hooked(receiver), delivered=1)
        assert 3 == len(receiver.posted)


async def test_no_url_is_ever_said(hooked, caplog):
    """Not in logs, as quiet as ``logs.configure`` makes libraries, nor in metrics: it may hold a token."""
    caplog.set_level(logging.DEBUG)
    for library in logs.QUIET:
        caplog.set_level(logging.WARNING, library)
    async with Receiver(lambda number: 500 if number < 3 else 200) as receiver:
        api = await hooked(receiver)
        await raise_alarms(api, await api.new(), 1)
        await reaches(api, delivered=1)
        assert "s3cret" not in (await api.ask("GET", "/metrics")).text
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("asyncio", "redis"))]
    assert "s3cret" not in "\n".join(ours)


BAD_URLS = [
    "ftp://host/s3cret", "s3cret", "http://", "https:///s3cret", "http://ok/,javascript:s3cret", "gopher://h/s3cret",
    "http://host:99999/s3cret", "http://h/s3cret,http://h/s3cret",
    ",".join(f"http://h{number}/s3cret" for number in range(17)),
]  # fmt: skip


@pytest.mark.parametrize("urls", BAD_URLS)
async def test_urls_that_cannot_be_are_refused_at_the_start(urls, tmp_path):
    """Naming the setting, and not the URL."""
    with pytest.raises(ValueError) as refused:
        build(Settings(webhooks=urls, data_dir=tmp_path))
    assert "ONEPASS_WEBHOOKS" in str(refused.value)
    assert "s3cret" not in str(refused.value)


BAD_SURROUNDINGS = [
    ("ALL_PROXY", "socks5://u:s3cret@127.0.0.1:1"), ("HTTPS_PROXY", "ftp://u:s3cret@x"), ("HTTP_PROXY", "http://u:s3cret/@x"),
    ("NO_PROXY", "[::1"), ("SSL_CERT_FILE", "/nonexistent"), ("SSL_CERT_FILE", __file__),
]  # fmt: skip


@pytest.mark.parametrize(("variable", "value"), BAD_SURROUNDINGS)
async def test_proxies_and_authorities_that_cannot_be_used_are_refused_at_the_start(variable, value, monkeypatch):
    """Naming the variable, and no password of theirs; without webhooks nobody needs them."""
    monkeypatch.setenv(variable, value)
    validated(Settings())
    with pytest.raises(ValueError, match=rf"{variable}.*, for webhooks: .") as refused:
        validated(Settings(webhooks="http://a/,HTTPS://b/"))
    assert "s3cret" not in str(refused.value)


async def test_urls_are_separated_by_commas():
    """Blanks around them and empty items do not count."""
    assert ["http://a/x", "https://b:8443/"] == webhooks_of(" http://a/x ,, https://b:8443/ ,")
    assert [] == webhooks_of("")


async def test_a_secret_may_be_base64():
    """As the Standard Webhooks libraries have it; what is no base64 is refused without being said."""
    assert b"\x00\x01key" == webhook_key_of("whsec_" + base64.b64encode(b"\x00\x01key").decode())
    assert b"plain" == webhook_key_of("plain")
    with pytest.raises(ValueError, match="ONEPASS_WEBHOOK_SECRET") as refused:
        webhook_key_of("whsec_not*base64")
    assert "not*base64" not in str(refused.value)
