"""The image, built and run by buildah, podman and runc, with a storage of its own that is gone afterwards.

make test-image                          on a base of Debian, made by debootstrap (root, a mirror)
make test-image BASE=debian:trixie-slim    on another one, which has to be there or to be had
make test-image IMAGE=onepass:0.1.0 STORE=DIRECTORY    an image that is built already, in this storage
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("buildah", "podman", "runc")
NAME = "localhost/onepass:under-test"
DEBIAN = ("trixie", "http://deb.debian.org/debian", "ca-certificates")
UNUSED = ("var/lib/apt/lists", "var/cache/apt", "usr/share/doc", "usr/share/man", "usr/share/locale")
READY_S = 90.0
"""On a machine that is busy; an idle one takes three seconds."""
LIMITS = ("--ulimit", "nofile=10000:10000", "--ulimit", "nproc=2000:2000")


def missing() -> str:
    """What there has to be and is not; empty: nothing."""
    wanted = [*TOOLS, *([] if os.environ.get("BASE") or os.environ.get("IMAGE") else ["debootstrap"])]
    lacking = [tool for tool in wanted if shutil.which(tool) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed (apt install buildah podman runc debootstrap)"
    return "" if os.getuid() == 0 else "containers are run by root here"


@dataclass
class Containers:
    """Images and containers in one directory.

    Attributes:
        store: the directory.
        base: the image that is built on.
    """

    store: Path
    base: str = ""
    image: str = NAME
    _places: list[str] = field(init=False)

    def __post_init__(self) -> None:
        driver = "overlay" if "overlay" in Path("/proc/filesystems").read_text() else "vfs"
        place = ("--root", self.store / "images", "--runroot", self.store / "run", "--storage-driver", driver)
        self._places = [str(part) for part in place]

    @property
    def podman_options(self) -> list[str]:
        """What every call of podman begins with."""
        return [*self._places, "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc"]

    def buildah(self, *arguments: object) -> str:
        """What buildah says."""
        return _said("buildah", *self._places, *arguments)

    def podman(self, *arguments: object) -> str:
        """What podman says on standard output."""
        return _said("podman", *self.podman_options, *arguments)

    def make_base(self) -> None:
        """A base of Debian, which trusts whom this machine trusts."""
        root = self.store / "debian"
        suite, mirror, packages = DEBIAN
        _said("debootstrap", "--variant=minbase", f"--include={packages}", suite, root, mirror)
        for name in UNUSED:
            shutil.rmtree(root / name, ignore_errors=True)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs")
        self.base = "localhost/onepass-base:debian"
        archive = self.store / "debian.tar"
        _said("tar", "-C", root, "-cf", archive, ".")
        self.podman("import", archive, self.base)
        archive.unlink()
        shutil.rmtree(root)

    def build(self) -> None:
        """Build the image."""
        how = ("--layers", "--format", "docker", "--isolation", "chroot", "--network", "host", "--timestamp", 0)
        ignore = ROOT / "docker/Dockerfile.dockerignore"
        what = ("--ignorefile", ignore, "-f", ROOT / "docker/Dockerfile", "-t", self.image)
        self.buildah("bud", *how, "--build-arg", f"BASE={self.base}", *what, ROOT)

    def end(self) -> None:
        """Remove every container and image, and the directory."""
        self.podman("rm", "--all", "--force")
        self.buildah("rm", "--all")
        for mounted in sorted(_mounts(self.store), reverse=True):
            subprocess.run(["umount", mounted], check=False)
        if not _mounts(self.store):
            shutil.rmtree(self.store, ignore_errors=True)


@dataclass
class Container:
    """A container that runs."""

    of: Containers
    name: str
    url: str

    def log(self) -> str:
        """What it has written so far, on both of its streams."""
        return self.of.podman("logs", self.name)

    def run(self, *command: object) -> str:
        """What a command in it says."""
        return self.of.podman("exec", self.name, *command)

    def wait_until_ready(self, status: int = 200) -> None:
        """Wait until /readyz has this status; fails with its log where it ends instead, or takes for ever."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                if status == httpx.get(f"{self.url}/readyz", timeout=5).status_code:
                    return
            except httpx.TransportError:
                assert "running" == self.state("Status"), self.log()
            time.sleep(0.1)
        raise AssertionError(f"not ready after {READY_S:g} s\n{self.log()}")

    def state(self, name: str) -> str:
        """A field of its state: Status, ExitCode, OOMKilled."""
        return self.of.podman("inspect", "--format", f"{{{{.State.{name}}}}}", self.name).strip()

    def stop(self, signal: str = "TERM") -> int:
        """Send it a signal and wait for its end: its exit status."""
        self.of.podman("kill", "--signal", signal, self.name)
        return int(self.of.podman("wait", self.name))


@contextmanager
def running(
    of: Containers, name: str, port: int, *options: str, memory: str = "768m", **settings: str
) -> Iterator[Container]:
    """A container as an orchestrator would run it: read-only, without capabilities, limited in memory."""
    given = {"ONEPASS_PORT": str(port), "ONEPASS_HOST": "127.0.0.1"} | settings
    variables = [part for key, value in given.items() for part in ("--env", f"{key}={value}")]
    how = ("--detach", "--name", name, "--network", "host", "--memory", memory, *LIMITS)
    strict = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all", "--security-opt", "no-new-privileges")
    of.podman("run", *how, *strict, *variables, *options, of.image)
    try:
        yield Container(of, name, f"http://127.0.0.1:{port}")
    finally:
        of.podman("rm", "--force", "--time", "5", name)


def _said(*command: object) -> str:
    finished = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert 0 == finished.returncode, f"{command[0]}: {finished.stderr[-3000:]}"
    logs = command[0] == "podman" and "logs" in command
    return finished.stdout + (finished.stderr if logs else "")


def _mounts(below: Path) -> list[str]:
    points = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
    return [point for point in points if Path(point).is_relative_to(below)]
