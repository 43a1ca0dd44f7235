"""HAProxy with the file in deploy/: a model goes to one service, and no row is sent twice."""

import asyncio
import os
import subprocess
from contextlib import AsyncExitStack

import httpx
import pytest

from tests.deploy.balancers import PATIENCE_S, ROOT, balancing, binary
from tests.deploy.stub_service import StubService

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
