"""The image, built and run for real: `make test-image`. Not a part of `make test`: it takes minutes and root."""

import json
import socketserver
import threading
from pathlib import Path

import httpx
import pytest

from tests.benchmarks.harness.processes import free_port
from tests.image.containers import Container, Containers, missing, running
from tests.image.load import CLIENTS, Load

pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(bool(missing()), reason=missing())]
MB = 1_000_000
IMAGE_MB_MAX, RELEASE_MB_MAX = 500, 45
"""Of everything, and of the layers that a release replaces."""
REST_MB_MAX = 220
READY_CPU_S_MAX = 6.0
"""Three times what it takes; without bytecode, or with a kernel to compile, it is more."""
LOG_LINES_MAX = 60
MODEL = {"task": "classification"}


def test_the_image_is_small_and_a_release_replaces_little(containers: Containers) -> None:
    """The dependencies are a layer below the service and its kernels; the sizes are printed."""
    history = json.loads(containers.podman("history", "--format", "json", containers.image))
    sizes = [layer["size"] / MB for layer in history if layer["size"] > MB / 10]
    kernels, service, dependencies, *system = sizes
    print(
        f"\nMB: {sum(sizes):.0f}, of which system {sum(system):.0f}, dependencies {dependencies:.0f}, "
        f"service {service:.1f}, kernels {kernels:.1f}"
    )
    assert IMAGE_MB_MAX >= sum(sizes)
    assert RELEASE_MB_MAX > service + kernels


def test_it_serves_with_the_least_that_it_needs(containers: Containers, data: str) -> None:
    """Root read-only, no capabilities, a user id that nobody has heard of, half a gigabyte: ready without compiling."""
    port = free_port()
    options = ("--user", "54321:0", "--volume", f"{data}:/data")
    with running(containers, "least", port, *options, memory="512m") as service:
        service.wait_until_ready()
        log = service.log()
        assert "kernels for" in log
        assert "models may take 128 MB" in log
        assert "store may take 81 MB" in log
        assert [] == [
            line for line in log.splitlines() if "compiling" in line or "[warning" in line or "[error" in line
        ]
        uid = service.run("id", "-u").strip()
        assert ("54321", "1") == (uid, service.run("sh", "-c", "pgrep -o onepass || echo 1").strip())
        ready = _cgroup(service, "cpuacct/cpuacct.usage", "cpu.stat") / 1e9
        rest = _cgroup(service, "memory/memory.usage_in_bytes", "memory.current") / MB
        print(f"\nCPU seconds until it is ready: {ready:.1f}; MB at rest: {rest:.0f}")
        assert READY_CPU_S_MAX > ready
        assert REST_MB_MAX > rest
        assert "" == service.run("find", "/data", "-type", "s")  # not every volume can hold the store's socket
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
        with Load(service.url, again=False) as load:
            load.more(300)
            status = service.stop(kind)
    assert {"TERM": 0, "KILL": 137}[kind] == status
    with running(containers, "second", port, *options) as service:
        service.wait_until_ready()
        learned = httpx.get(f"{service.url}/models/m", timeout=60).json()["rows"]
    print(f"\nSIG{kind}: {len(load.acknowledged)} acknowledged, {learned} learned")
    assert len(load.acknowledged) <= learned <= len(load.acknowledged) + CLIENTS


def test_too_little_memory_is_refused_in_a_line(containers: Containers, data: str) -> None:
    """Instead of being killed without a word."""
    with running(containers, "small", free_port(), "--volume", f"{data}:/data", memory="300m") as service:
        assert 2 == int(containers.podman("wait", "small"))
        assert "the memory limit of this container or unit is 300 MB; Onepass needs 384 MB" in service.log()


def test_a_store_that_lets_nobody_in_is_told_in_few_lines(containers: Containers) -> None:
    """A Redis in protected mode refuses every connection and hangs up: the log says why, without a traceback."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Denies) as denies:
        threading.Thread(target=denies.serve_forever, daemon=True).start()
        url = f"redis://127.0.0.1:{denies.server_address[1]}/0"
        with running(containers, "denied", free_port(), ONEPASS_REDIS_URL=url) as service:
            service.wait_until_ready(status=503)
            for _ in range(20):
                assert 503 == httpx.put(f"{service.url}/models/m", json=MODEL, timeout=60).status_code
            log = service.log()
        denies.shutdown()
    assert "protected mode" in log
    assert "Traceback" not in log
    assert LOG_LINES_MAX > log.count("\n")


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


def _cgroup(service: Container, of_one: str, of_two: str) -> float:
    """A figure of the container's control group, version 1 or 2; of time in ns."""
    said = service.run("sh", "-c", f"cat /sys/fs/cgroup/{of_one} 2>/dev/null || cat /sys/fs/cgroup/{of_two}").split()
    return float(said[1]) * 1000 if said[0] == "usage_usec" else float(said[0])


class _Denies(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"-DENIED Redis is running in protected mode because protected mode is enabled\r\n")
