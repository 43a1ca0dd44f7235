"""HAProxy with the configuration in deploy/, really run, on free ports."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.faults.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0


def binary() -> str:
    """The path of HAProxy; skips the test if it is not installed."""
    found = shutil.which("haproxy", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if found is None:
        pytest.skip("needs haproxy: apt install haproxy")
    return found


def configured(directory: Path, ports: Sequence[int]) -> Path:
    """A copy of the configuration with other ports instead of 8000, 8001 and 8002, and checks ten times as often."""
    text = (ROOT / "deploy/haproxy.cfg").read_text().replace("inter 1s", "inter 100ms")
    path = directory / "haproxy.cfg"
    path.write_text(re.sub(r"\b800([012])\b", lambda found: str(ports[int(found[1])]), text))
    return path


@contextlib.asynccontextmanager
async def balancing(directory: Path, services: Sequence[int]) -> AsyncIterator[str]:
    """Run the balancer in front of two services and yield its address."""
    port = free_port()
    async with haproxy(configured(directory, [port, *services]), port):
        yield f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def haproxy(config: Path, port: int) -> AsyncIterator[None]:
    """Run HAProxy, which listens on ``port``, with its log next to its configuration."""
    path = config.with_name("log")
    with path.open("wb") as log:
        process = subprocess.Popen([binary(), "-db", "-f", str(config)], stdout=log, stderr=log)
    try:
        await _until_listening(port, process, path)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


async def _until_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)
