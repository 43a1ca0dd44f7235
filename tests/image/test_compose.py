"""docker/compose.yaml, up for real: what is stored, what is allowed, what is killed under load, the profile `scale`."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml

from tests.benchmarks.harness.processes import free_port
from tests.image.composition import COMPOSE, Composition, composed, make_stand_ins
from tests.image.containers import ROOT, Containers, missing
from tests.image.load import Load

LACKING = missing() or ("" if COMPOSE.exists() else f"{COMPOSE.name} not installed (make test-image installs it)")
pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(bool(LACKING), reason=LACKING)]
MODEL = {"task": "classification"}
MODELS = [f"m{at}" for at in range(6)]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def images(containers: Containers, tmp_path_factory: pytest.TempPathFactory) -> Containers:
    """The images that compose.yaml names: the one under test, and stand-ins of the others."""
    if not containers.base:
        pytest.skip("the image was given without BASE: nothing to make stand-ins for Redis and HAProxy of")
    make_stand_ins(containers, tmp_path_factory.mktemp("stand-ins"))
    name = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]["onepass"]["image"]
    containers.podman("tag", containers.image, f"localhost/{name}")
    return containers


@pytest.fixture
def alone(images: Containers, tmp_path: Path) -> Iterator[Composition]:
    """A service and its store."""
    port = free_port()
    with composed(images, tmp_path, port=port, ONEPASS_PORT=str(port)) as one:
        one.container("onepass").wait_until_ready()
        yield one


def test_it_serves_within_what_it_is_allowed(alone: Composition) -> None:
    """Learns and predicts; nothing may write to its root, has capabilities, or takes more than its limits."""
    with httpx.Client(base_url=alone.url, timeout=60) as client:
        assert "everysec" in client.get("/readyz").text
        assert 201 == client.put("/models/m", json=MODEL).status_code
        assert client.post("/models/m/feedback", json={"features": {"a": 1.0}, "label": "yes"}).is_success
        assert "yes" == client.post("/models/m/predict", json={"features": {"a": 1.0}}).json()["prediction"]
    for service, mb in (("onepass", 1536), ("redis", 2048)):
        found = json.loads(alone.of.podman("inspect", alone.container(service).name))[0]
        given = found["HostConfig"]
        assert (True, mb * 2**20, 256) == (given["ReadonlyRootfs"], given["Memory"], given["PidsLimit"])
        assert "0" * 16 == alone.container(service).run("grep", "CapEff", "/proc/1/status").split()[1]
        assert "no-new-privileges" in str(given["SecurityOpt"])
        assert "0" != alone.container(service).run("id", "-u").strip()


def test_no_acknowledged_row_is_lost(alone: Composition) -> None:
    """Service and store are killed, the service is stopped and started, while clients learn."""
    assert 201 == httpx.put(f"{alone.url}/models/m", json=MODEL, timeout=60).status_code
    with Load(alone.url, again=True) as load:
        load.more(200)
        for service in ("onepass", "redis"):
            alone.kill(service)
            load.more(200)
        alone.compose("stop", "onepass")
        assert "0" == alone.container("onepass").state("ExitCode")
        alone.compose("start", "onepass")
        load.more(200)
        acknowledged = load.finish()
    learned = httpx.get(f"{alone.url}/models/m", timeout=60).json()["rows"]
    print(f"\nservice and store killed, service stopped: {acknowledged} acknowledged, {learned} learned")
    assert acknowledged == learned


def test_others_reach_it_with_keys_alone(images: Containers, tmp_path: Path) -> None:
    """Published without keys it does not start; with keys from a file, even a replaced one, it asks for them."""
    port = free_port()
    published = {"ONEPASS_ADDRESS": "0.0.0.0", "ONEPASS_PORT": str(port)}
    with composed(images, tmp_path, port=port, ONEPASS_INSECURE="0", **published) as one:
        _until_said(one, "ONEPASS_API_KEYS")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{one.url}/healthz", timeout=5)
    keys, renewed = tmp_path / "keys/api-keys", tmp_path / "keys/new"
    keys.parent.mkdir(mode=0o755)
    for path, secret in ((keys, "s3cret-of-mine"), (renewed, "s3cret-of-another")):
        path.write_text(f"me:{secret}:admin\n")
        path.chmod(0o644)
    with composed(images, tmp_path, port=port, ONEPASS_INSECURE="0", ONEPASS_KEYS=str(keys.parent), **published) as one:
        service = one.container("onepass")
        service.wait_until_ready()
        mine = {"X-API-Key": "s3cret-of-mine"}
        asked = [httpx.get(f"{one.url}/models", headers=given) for given in ({}, mine)]
        assert [401, 200] == [answer.status_code for answer in asked]
        renewed.replace(keys)
        _until(lambda: httpx.get(f"{one.url}/models", headers=mine).status_code == 401, "a removed key stays valid")
        assert "s3cret" not in service.log() + one.of.podman("inspect", service.name)


def test_the_profile_scale(images: Containers, tmp_path: Path) -> None:
    """Both services have models; one is killed under load and comes back, and every acknowledged row is there."""
    ports = {"ONEPASS_PORT": str(free_port()), "ONEPASS_BALANCER_PORT": str(port := free_port())}
    with composed(images, tmp_path, "--profile", "scale", port=port, **ports) as one:
        one.container("balancer").wait_until_ready()
        for name in MODELS:
            assert httpx.put(f"{one.url}/models/{name}", json=MODEL, timeout=60).is_success
        with ExitStack() as stack:
            loads = [stack.enter_context(Load(one.url, again=True, model=name)) for name in MODELS]
            _until(lambda: all(_learned(one, service) for service in ("onepass", "replica")), "one has no model")
            for load in loads:
                load.more(20)
            one.kill("replica")
            for load in loads:
                load.more(20)
            _until(lambda: _learned(one, "replica") > 0, "the one that was killed gets no model again")
            acknowledged = [load.finish() for load in loads]
        learned = [httpx.get(f"{one.url}/models/{name}", timeout=60).json()["rows"] for name in MODELS]
        print(f"\nscale, one of two killed: {sum(acknowledged)} acknowledged, {sum(learned)} learned")
        assert acknowledged == learned


def _learned(one: Composition, service: str) -> int:
    """How many rows a service has learned for its clients since its start; 0: none, or it starts."""
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/metrics', timeout=9).read().decode())"
    try:
        said = one.container(service).run("python", "-c", script)
    except AssertionError:
        return 0
    lines = [line for line in said.splitlines() if line.startswith("onepass_requests_total") and "feedback" in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.2)


def _until_said(one: Composition, words: str) -> None:
    _until(lambda: words in one.container("onepass").log(), f"the log does not say {words}")
