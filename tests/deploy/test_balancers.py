"""HAProxy with the file in deploy/: a model goes to one service, and no row is sent twice."""

import asyncio
import os
import socket
import subprocess
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.deploy.balancers import PATIENCE_S, ROOT, balancing, binary, configured, haproxy
from tests.deploy.stub_service import StubService
from tests.faults.servers import free_port

NAMES = [f"model-{number}" for number in range(40)]


class Site:
    """Two services behind a balancer."""

    def __init__(self, services, client):
        self.services, self.client = services, client

    async def asks(self, method, path, **how):
        """Send a request and return the name of the service that answers."""
        answer = await self.client.request(method, path, **how)
        assert 200 == answer.status_code, answer.text
        return answer.text

    async def fails(self, method, path, **how):
        """Whether the balancer reports that there is no answer, or closes the connection as the service did."""
        try:
            return (await self.client.request(method, path, **how)).status_code in (502, 503)
        except httpx.RemoteProtocolError:
            return True

    async def homes(self):
        """The service of each model."""
        return {name: await self.asks("GET", f"/models/{name}") for name in NAMES}

    async def until(self, homes):
        """Wait until models go where they should; the balancer may not have noticed yet that a service is back."""
        async with asyncio.timeout(PATIENCE_S):
            while {name: (await self.client.get(f"/models/{name}")).text for name in NAMES} != homes:
                await asyncio.sleep(0.05)

    def of(self, name):
        """The service with that name, then the other one."""
        return sorted(self.services, key=lambda service: service.name != name)


@pytest.fixture(scope="module")
async def site(tmp_path_factory):
    """The balancer, with two ready services."""
    binary()
    directory = tmp_path_factory.mktemp("haproxy")
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(StubService(name).running()) for name in ("one", "two")]
        ports = [service.port for service in services]
        url = await stack.enter_async_context(balancing(directory, ports))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=PATIENCE_S))
        yield Site(services, client)


async def test_a_model_goes_to_one_service(site):
    """For every request, including the Open Inference Protocol; each service has its share of models."""
    homes = await site.homes()
    for name, home in homes.items():
        assert home == await site.asks("POST", f"/models/{name}/feedback", json={"label": 1})
        assert home == await site.asks("GET", f"/models/{name}/metrics?history=1")
        assert home == await site.asks("POST", f"/v2/models/{name}/infer", json={})
    shares = [[*homes.values()].count(service.name) for service in site.services]
    assert 12 <= min(shares), shares


@pytest.mark.slow
async def test_a_prefix_changes_nothing(site):
    """If a proxy leaves a prefix in the path, a model still goes to the same service, even one named "models"."""
    homes = await site.homes() | {"models": await site.asks("GET", "/models/models")}
    for name, home in homes.items():
        assert home == await site.asks("POST", f"/ml/models/{name}/feedback?x=/models/y", json={"label": 1})
        assert home == await site.asks("POST", f"/a/ml/v2/models/{name}/infer", json={})
        assert home == await site.asks("GET", f"/ml/ui/models/{name}")


@pytest.mark.slow
async def test_requests_without_a_model_go_anywhere(site):
    """Lists, and the stream of all drift events."""
    assert {"one", "two"} == {await site.asks("GET", f"/drift?limit={number}") for number in range(1, 40)}


async def test_only_the_models_of_a_stopped_service_move(site):
    """Unsent rows go to the other service without a failure, and return once it is back."""
    homes = await site.homes()
    gone, other = site.services
    await gone.close()
    for name in NAMES:
        assert other.name == await site.asks("POST", f"/models/{name}/feedback", json={})
    await gone.open()
    await site.until(homes)


@pytest.mark.slow
async def test_only_the_models_of_an_unready_service_move(site):
    """It gets no requests although it would answer; if no service is ready, all get requests."""
    homes, (leaving, other) = await site.homes(), site.services
    leaving.ready = False
    await site.until(dict.fromkeys(NAMES, other.name))
    other.ready = False
    await site.until(homes)
    other.ready = True
    await site.until(dict.fromkeys(NAMES, other.name))
    leaving.ready = True
    await site.until(homes)


async def test_rows_are_sent_once(site):
    """A broken connection is left to the client unless an Idempotency-Key makes a second try safe."""
    home, other = site.of(await site.asks("GET", "/models/m"))
    for service in site.services:
        service.asked.clear()
    home.cutting = True
    try:
        assert await site.fails("POST", "/models/m/feedback", json={"label": 1})
        assert (1, 0) == (len(home.asked), len(other.asked))
        headers = {"Idempotency-Key": "k"}
        assert other.name == await site.asks("POST", "/models/m/feedback", json={"label": 1}, headers=headers)
    finally:
        home.cutting = False


@pytest.mark.slow
async def test_events_are_not_delayed(site):
    """The balancer passes on each event at once."""
    for service in site.services:
        service.goes_on.clear()
    async with asyncio.timeout(PATIENCE_S), site.client.stream("GET", "/drift/stream") as answer:
        chunks = answer.aiter_raw()
        assert b"one" == await anext(chunks)
        for service in site.services:
            service.goes_on.set()
        assert b"two" == await anext(chunks)


@pytest.mark.slow
async def test_haproxy_refuses_as_onepass_does(site):
    """With both services dead, before and after HAProxy notices, the answer is a problem with Retry-After.

    Each request uses a new connection: on a kept one HAProxy may close it instead, so that the client tries again.
    """
    homes = await site.homes()
    for service in site.services:
        await service.close()
    answers = []
    for name in NAMES:
        async with httpx.AsyncClient(base_url=site.client.base_url, timeout=PATIENCE_S) as client:
            answers.append(await client.get(f"/models/{name}"))
    for service in site.services:
        await service.open()
    await site.until(homes)
    for answer in answers:
        found = answer.json()
        assert answer.status_code in (502, 503)
        assert ("application/problem+json", "1") == (answer.headers["content-type"], answer.headers["retry-after"])
        assert ("about:blank", answer.status_code) == (found["type"], found["status"])
        assert found["title"]
        assert found["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("host", ["", "localhost"])
async def test_haproxy_accepts_addresses_or_a_name(host):
    """For processes on one machine, and for the services of a compose file."""
    command = [binary(), "-c", "-f", str(ROOT / "deploy/haproxy.cfg")]
    env = os.environ | ({"ONEPASS_HOST": host} if host else {})
    done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True)
    assert (0, "Configuration file is valid") == (done.returncode, done.stdout.strip()), done.stderr


class Names(asyncio.DatagramProtocol):
    """A name server that answers every question with the same addresses."""

    def __init__(self, addresses):
        self.addresses = addresses

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, client):
        question = data[12 : data.index(0, 12) + 5]
        found = self.addresses if question.endswith(b"\0\1\0\1") else []  # of type A, class IN
        answers = [b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(address) for address in found]
        counts = b"\0\1\0%c\0\0\0\0" % len(answers)
        self.transport.sendto(data[:2] + b"\x85\x80" + counts + question + b"".join(answers), client)


@pytest.mark.slow
async def test_a_new_address_takes_the_slot_of_the_one_it_replaces(tmp_path, monkeypatch):
    """So a rolling update moves no models of the other services."""
    binary()
    monkeypatch.setenv("ONEPASS_HOST", "services.onepass")
    names, admin, port = Names(["127.0.0.2", "127.0.0.3", "127.0.0.4"]), tmp_path / "admin", free_port()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: names, ("127.0.0.1", 0))
    config, (_, dns) = configured(tmp_path, [port] * 3), transport.get_extra_info("sockname")
    text = config.read_text().replace("parse-resolv-conf", f"nameserver one 127.0.0.1:{dns}")
    config.write_text(text.replace("global\n", f"global\n    stats socket {admin}\n"))

    async def slots():
        """The addresses in the order of the slots, once they are those that the name server knows."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                reader, writer = await asyncio.open_unix_connection(admin)
                writer.write(b"show servers state models\n")
                _, _, *lines = (await reader.read()).decode().splitlines()
                writer.close()
                found = [line.split()[4] for line in lines if line and "-" != line.split()[4]]
                if {*names.addresses} == {*found}:
                    return found
                await asyncio.sleep(0.05)

    async with haproxy(config, port):
        first, _, last = await slots()
        names.addresses = [first, last, "127.0.0.9"]
        assert [first, "127.0.0.9", last] == await slots()
        names.addresses = [first, "127.0.0.9"]
        assert [first, "127.0.0.9"] == await slots()
        names.addresses = [first, "127.0.0.9", last]
        assert [first, "127.0.0.9", last] == await slots()
    transport.close()
