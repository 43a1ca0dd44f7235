"""docker/compose.yaml, run for real by podman-compose, with podman's storage of the image under test.

Images of Redis and HAProxy are not fetched: stand-ins of Debian's packages of both take their names here.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.image.containers import LIMITS, ROOT, Container, Containers

COMPOSE = Path(sys.executable).with_name("podman-compose")
STAND_IN = """
FROM {base}
RUN apt-get update \\
    && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends {package} \\
    && install -d -o 999 -g 999 /data
WORKDIR /data
{more}
"""
STAND_INS = {
    "docker.io/library/redis:7.4-bookworm": ("redis-server", ""),
    "docker.io/library/haproxy:3.0-bookworm": (
        "haproxy",
        'USER haproxy\nSTOPSIGNAL SIGUSR1\nCMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]',
    ),
}
"""As the images are, as far as compose.yaml relies on it: the user, the directory, the command."""


@dataclass
class Composition:
    """A composition that runs.

    Attributes:
        of: its storage.
        project: its name, which its containers' begin with.
        url: of the service, or of the balancer.
    """

    of: Containers
    project: str
    command: list[str]
    environment: dict[str, str]
    url: str

    def compose(self, *arguments: str) -> str:
        """What podman-compose says, on both of its streams."""
        command = [*self.command, *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, f"{' '.join(arguments)}: {done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def container(self, service: str) -> Container:
        """The container of a service."""
        return Container(self.of, f"{self.project}_{service}_1", self.url)

    def kill(self, service: str) -> None:
        """End its process as the machine's memory killer would: podman does not know, and starts it again."""
        os.kill(int(self.container(service).state("Pid")), 9)


def make_stand_ins(of: Containers, directory: Path) -> None:
    """Build what stands in for the images that compose.yaml names."""
    for image, (package, more) in STAND_INS.items():
        file = directory / f"{package}.Dockerfile"
        file.write_text(STAND_IN.format(base=of.base, package=package, more=more))
        how = ("--format", "docker", "--isolation", "chroot", "--network", "host", "--pull-never")
        of.buildah("bud", *how, "-f", file, "-t", image, directory)


@contextmanager
def composed(of: Containers, directory: Path, *options: str, port: int, **settings: str) -> Iterator[Composition]:
    """The composition with these options, up; removed with its volumes afterwards.

    Args:
        of: where the images are.
        directory: files are written to it.
        options: of podman-compose: more files, profiles.
        port: which its clients ask, of the service or of the balancer.
        settings: variables that compose.yaml reads.
    """
    podman = directory / "podman"
    podman.write_text(f'#!/bin/sh\nexec podman {" ".join(of.podman_options)} "$@"\n')
    podman.chmod(0o755)
    limits = [f'"{limit}"' for limit in LIMITS if "=" in limit]
    (directory / "containers.conf").write_text(f"[containers]\ndefault_ulimits = [{', '.join(limits)}]\n")
    project = directory.name
    files = ("--podman-path", podman, "-p", project, "-f", ROOT / "docker/compose.yaml", *options)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_")}
    environment["CONTAINERS_CONF"] = str(directory / "containers.conf")
    one = Composition(of, project, [str(COMPOSE), *map(str, files)], environment | settings, f"http://127.0.0.1:{port}")
    try:
        one.compose("up", "--detach", "--no-build")
        yield one
    finally:
        one.compose("down", "--volumes", "--timeout", "5")
