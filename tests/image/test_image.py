"""The image, built and run for real: `make test-image`. Not a part of `make test`: it takes minutes and root."""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.benchmarks.processes import free_port
from tests.image.containers import Containers, missing, running

pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(bool(missing()), reason=missing())]
MB = 1_000_000
DEPENDENCIES_MB_MAX, RELEASE_MB_MAX = 450, 45
"""Of the layer that a release leaves alone, and of those that it replaces."""
REST_MB_MAX = 220
CLIENTS = 4
MODEL = {"task": "classification"}


@pytest.fixture(scope="module")
def containers() -> Iterator[Containers]:
    """The image, built unless it is given."""
    if image := os.environ.get("IMAGE"):
        yield Containers(Path(os.environ["STORE"]), image=image)
        return
    made = Containers(Path(tempfile.mkdtemp(prefix="onepass-image-")), os.environ.get("BASE", ""))
    try:
        if not made.base:
            made.make_base()
        made.build()
        yield made
    finally:
        made.end()


@pytest.fixture
def data(containers: Containers) -> Iterator[str]:
    """A volume for the private store."""
    name = f"data-{os.getpid()}-{next(_NUMBERS)}"
    containers.podman("volume", "create", name)
    yield name
    containers.podman("volume", "rm", "--force", name)


_NUMBERS = count()


def test_a_release_replaces_little(containers: Containers) -> None:
    """The dependencies are a layer below the service and its kernels; the sizes are printed."""
    history = json.loads(containers.podman("history", "--format", "json", containers.image))
    sizes = [layer["size"] / MB for layer in history if layer["size"] > MB / 10]
    kernels, service, dependencies, *base = sizes
    print(f"\nMB: base {sum(base):.0f}, dependencies {dependencies:.0f}, service {service:.1f}, kernels {kernels:.1f}")
    assert DEPENDENCIES_MB_MAX > dependencies
    assert RELEASE_MB_MAX > service + kernels


def test_it_serves_with_the_least_that_it_needs(containers: Containers, data: str) -> None:
    """Root read-only, no capabilities, a user id that nobody has heard of, half a gigabyte: ready without compiling."""
    port = free_port()
    options = ("--user", "54321:0", "--volume", f"{data}:/data")
    with running(containers, "least", port, *options, memory="512m") as service:
        service.wait_until_ready()
        log = service.log()
        assert "kernels for" in log
        assert "models have 128 MB" in log
        assert [] == [
            line for line in log.splitlines() if "compiling" in line or "[warning" in line or "[error" in line
        ]
        uid = service.run("id", "-u").strip()
        assert ("54321", "1") == (uid, service.run("sh", "-c", "pgrep -o onepass || echo 1").strip())
        rest = (
            int(
                service.run(
                    "sh",
                    "-c",
                    "cat /sys/fs/cgroup/memory.current /sys/fs/cgroup/memory/memory.usage_in_bytes 2>/dev/null || true",
                ).split()[0]
            )
            / MB
        )
        print(f"\nMB at rest: {rest:.0f}")
        assert REST_MB_MAX > rest
        containers.podman("healthcheck", "run", "least")
        assert 0 == service.stop()


def test_kernels_for_any_processor_serve_on_another_one(containers: Containers, data: str) -> None:
    """Where the builder's do not fit the start says so, and a wide row is learned without compiling anything."""
    port = free_port()
    with running(containers, "other", port, "--volume", f"{data}:/data", NUMBA_ENABLE_AVX="0") as service:
        service.wait_until_ready()
        assert "as there are none for this one" in service.log()
        assert 201 == httpx.put(f"{service.url}/models/wide", json={"task": "regression"}, timeout=60).status_code
        row = {"features": {f"x{at}": at / 300 for at in range(300)}, "label": 1.0}
        assert 200 == httpx.post(f"{service.url}/models/wide/feedback", json=row, timeout=60).status_code
        assert "compiling" not in service.log()


@pytest.mark.parametrize("kind", ["TERM", "KILL"])
def test_no_acknowledged_row_is_lost_under_load(containers: Containers, data: str, kind: str) -> None:
    """Clients learn while the service is ended; another container finds every row that was acknowledged."""
    port, options = free_port(), ("--volume", f"{data}:/data")
    with running(containers, "first", port, *options) as service:
        service.wait_until_ready()
        assert 201 == httpx.put(f"{service.url}/models/m", json=MODEL, timeout=60).status_code
        acknowledged, clients = _load(service.url, 300)
        status = service.stop(kind)
        for client in clients:
            client.join()
    assert {"TERM": 0, "KILL": 137}[kind] == status
    with running(containers, "second", port, *options) as service:
        service.wait_until_ready()
        learned = httpx.get(f"{service.url}/models/m", timeout=60).json()["rows"]
    print(f"\nSIG{kind}: {len(acknowledged)} acknowledged, {learned} learned")
    assert len(acknowledged) <= learned <= len(acknowledged) + CLIENTS


def test_too_little_memory_is_refused_in_a_line(containers: Containers, data: str) -> None:
    """Instead of being killed without a word."""
    with running(containers, "small", free_port(), "--volume", f"{data}:/data", memory="300m") as service:
        assert 2 == int(containers.podman("wait", "small"))
        assert "the memory limit of this container or unit is 300 MB; Onepass needs 384 MB" in service.log()


def test_secrets_are_read_from_files(containers: Containers, data: str, tmp_path: Path) -> None:
    """Without keys it does not listen for others; with keys from a file it does, and asks for them."""
    keys = tmp_path / "keys"
    keys.write_text("me:s3cret-of-mine:admin\n")
    keys.chmod(0o644)
    port, empty = free_port(), ("--volume", f"{data}:/data")
    with running(containers, "open", port, *empty, ONEPASS_HOST="0.0.0.0") as service:
        assert 2 == int(containers.podman("wait", "open"))
        assert "ONEPASS_API_KEYS" in service.log()
    mounted = (*empty, "--volume", f"{keys}:/run/secrets/keys:ro")
    settings = {"ONEPASS_HOST": "0.0.0.0", "ONEPASS_API_KEYS_FILE": "/run/secrets/keys"}
    with running(containers, "closed", port, *mounted, **settings) as service:
        service.wait_until_ready()
        asked = [httpx.get(f"{service.url}/models", headers=given) for given in ({}, {"X-API-Key": "s3cret-of-mine"})]
        assert [401, 200] == [answer.status_code for answer in asked]
        assert "s3cret" not in service.log()


def test_the_demo_and_a_comparison_run_against_it(containers: Containers, data: str, tmp_path: Path) -> None:
    """From inside of the container, `compare` with a service of its own, and all of it within its memory."""
    rows = "\n".join(f"{at % 7},{at % 11},{'yes' if at % 7 > 3 else 'no'}" for at in range(2000))
    (tmp_path / "rows.csv").write_text(f"a,b,label\n{rows}\n")
    (tmp_path / "rows.csv").chmod(0o644)
    options = ("--volume", f"{data}:/data", "--volume", f"{tmp_path / 'rows.csv'}:/rows.csv:ro")
    with running(containers, "shown", free_port(), *options) as service:
        service.wait_until_ready()
        service.run("onepass", "demo", "--url", service.url, "--for", "10")
        compared = service.run("onepass", "compare", "/rows.csv", "--label", "label", "--algorithms", "dfop,vigo")
        assert "dfop" in compared
        assert "vigo" in compared
        assert ("running", "false") == (service.state("Status"), service.state("OOMKilled"))


def _load(url: str, least: int) -> tuple[list[str], list[threading.Thread]]:
    """Clients that learn until the service is gone; returns when some rows are acknowledged."""
    acknowledged: list[str] = []
    enough = threading.Event()

    def learn(own: int) -> None:
        with httpx.Client(base_url=url, timeout=30) as client:
            for number in count():
                row = {"id": f"{own}-{number}", "features": {"a": number % 7, "b": own}, "label": number % 2}
                try:
                    if not client.post("/models/m/feedback", json=row).is_success:
                        return
                except httpx.TransportError:
                    return
                acknowledged.append(row["id"])
                if len(acknowledged) >= least:
                    enough.set()

    clients = [threading.Thread(target=learn, args=(own,)) for own in range(CLIENTS)]
    for client in clients:
        client.start()
    assert enough.wait(120)
    return acknowledged, clients
