"""Closed loops of requests over keep-alive connections: wrk where it is installed, else this module.

    python -m tests.benchmarks.harness.load JOB      a process of its own; JOB and what is heard are JSON

This module sends a request again, with its id and on another connection, that was cut off or answered 502, 503 or 504;
so it is also what sends while a service is killed. It takes more of the machine than wrk.
"""

import asyncio
import itertools
import json
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import uvloop

from tests.benchmarks.harness import rows
from tests.benchmarks.harness.processes import ROOT, Process

SCRIPT = """
local requests, tails, at, sent = {}, {}, 0, 0
local id, prefix = ',"id":"%s-%010d"}'
init = function(arguments)
  local file, models, number = io.open(arguments[1], "rb"), tonumber(arguments[3]), 0
  local headers = {["Content-Type"] = arguments[4]}
  if arguments[5] ~= "" then headers["Authorization"] = arguments[5] end
  prefix = arguments[6]
  while true do
    local size = file:read("*n")
    if not size then break end
    file:read(1)
    local body, path = file:read(size), string.format(arguments[2], number % models)
    number = number + 1
    if prefix then
      local mark = string.format(id, prefix, 0)
      requests[number] = wrk.format("POST", path, headers, body:sub(1, -2) .. mark):sub(1, -1 - #mark)
    else
      requests[number] = wrk.format("POST", path, headers, body)
    end
  end
end
request = function()
  sent = sent + 1
  at = at % #requests + 1
  if prefix then return requests[at] .. string.format(id, prefix, sent) end
  return requests[at]
end
"""
"""Goes through requests that are made before the clock runs; an id is all that is put together meanwhile."""
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
PRINTED = r"50%\s+([\d.]+)(us|ms|s|m)\b.*99%\s+([\d.]+)(us|ms|s|m)\b.*?(\d+) requests in.*Requests/sec:\s+([\d.]+)"
AGAIN = ("502", "503", "504", "cut")
PAUSE_S, GIVE_UP_S = 0.02, 60.0
"""A row that is not acknowledged in the latter ends the run."""


class Asked(NamedTuple):
    """What is sent: a kind of ``rows.KINDS``, to a path with ``%d`` for the number of a model; ids: one a row."""

    kind: str
    path: str
    connections: int = 1
    models: int = 1
    ids: bool = False

    @property
    def rows(self) -> int:
        """Of a request."""
        return 1 if rows.KINDS[self.kind].count > 1000 else rows.BATCH_ROWS


class Measured(NamedTuple):
    """Answers a second, their latencies, answers in all, and CPU microseconds of server and store per answer."""

    rate: float
    p50_ms: float
    p99_ms: float
    answers: int
    service_us: float = 0.0
    store_us: float = 0.0

    @property
    def cpu_us(self) -> float:
        return self.service_us + self.store_us


class Generator:
    """Measures servers; what it sends is kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._wrk, self._folder, self._runs = shutil.which("wrk"), folder, itertools.count(1)
        self._script = folder / "requests.lua"
        self._script.write_text(SCRIPT)

    @property
    def name(self) -> str:
        """What sends."""
        return "wrk" if self._wrk else "a Python generator (wrk is not installed: apt install wrk)"

    def run(self, server: Process, asked: Asked, seconds: float) -> Measured:
        """Send for so many seconds, whole ones with wrk; ``RuntimeError`` unless every answer was 200."""
        before = server.used()
        found = (self._by_wrk if self._wrk else _by_python)(server, asked, seconds)
        service, store = (
            1e6 * (now - old) / max(1, found.answers) for now, old in zip(server.used(), before, strict=True)
        )
        return found._replace(service_us=service, store_us=store)

    def _by_wrk(self, server: Process, asked: Asked, seconds: float) -> Measured:
        kind = rows.KINDS[asked.kind].media_type
        own = [str(self._bodies(asked.kind)), asked.path, str(asked.models), kind]
        own += [server.headers.get("Authorization", ""), *([f"run-{next(self._runs)}"] if asked.ids else [])]
        command = [self._wrk or "", "-t1", f"-c{asked.connections}", f"-d{max(1, round(seconds))}s", "--latency", "-s"]
        command += [str(self._script), f"http://127.0.0.1:{server.port}", "--", *own]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in told or "Socket errors" in told:
            raise RuntimeError(told)
        p50, unit, p99, other, answers, rate = re.search(PRINTED, told, re.DOTALL).groups()
        return Measured(float(rate), float(p50) * UNITS_MS[unit], float(p99) * UNITS_MS[other], int(answers))

    def _bodies(self, kind: str) -> Path:
        """The bodies of a kind, each behind its length."""
        path = self._folder / kind
        if not path.exists():
            path.write_bytes(b"".join(b"%d\n" % len(body) + body for body in rows.pool(kind)))
        return path


# ---------------------------------------------------------------- without wrk


class Heard(NamedTuple):
    """What came back: of each request the second in which it was sent first, and seconds until it was acknowledged."""

    acknowledged: int
    seconds: float
    again: dict[str, int]
    latencies: list[tuple[float, float]]


def begin(server: Process, asked: Asked, seconds: float) -> "subprocess.Popen[str]":
    """Send for so many seconds or until SIGTERM, in a process of its own."""
    job = {"port": server.port, "headers": server.headers, "asked": asked, "seconds": seconds}
    command = [sys.executable, "-m", "tests.benchmarks.harness.load", json.dumps(job)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def end(process: "subprocess.Popen[str]") -> Heard:
    """What it has heard in the end; ``RuntimeError`` if it failed."""
    told, _ = process.communicate()
    if process.returncode:
        raise RuntimeError("the load generator failed")
    return Heard(*json.loads(told))


def _by_python(server: Process, asked: Asked, seconds: float) -> Measured:
    heard = end(begin(server, asked, seconds))
    if heard.again:
        raise RuntimeError(f"{asked.path}: answers that were not 200: {heard.again}")
    waits = sorted(took for _, took in heard.latencies)
    p50, p99 = (1000 * waits[int(share * len(waits))] for share in (0.5, 0.99))
    return Measured(heard.acknowledged / heard.seconds, p50, p99, heard.acknowledged)


class Connection:
    """One closed loop; ``again`` counts what was answered to requests that had to be sent again."""

    def __init__(self, port: int) -> None:
        self._port, self.again = port, Counter[str]()
        self._reader: asyncio.StreamReader | None = None

    async def send(self, message: bytes) -> None:
        """Send a request until it is acknowledged; ``RuntimeError`` if it is refused, or after GIVE_UP_S."""
        begun = perf_counter()
        while (status := await self.try_once(message)) not in ("200", "201"):
            self.again[status] += 1
            if status not in AGAIN or perf_counter() > begun + GIVE_UP_S:
                raise RuntimeError(f"the last answer: {status}")
            await asyncio.sleep(PAUSE_S)

    async def try_once(self, message: bytes) -> str:
        """Send a request; the status of its answer, or "cut" if the connection broke."""
        try:
            if self._reader is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writer.write(message)
            answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            await self._reader.readexactly(int(answer.partition(b"content-length: ")[2].partition(b"\r")[0]))
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self.close()
            return "cut"
        if answer[9:12] not in (b"200", b"201"):
            self.close()
        return answer[9:12].decode()

    def close(self) -> None:
        """Hang up."""
        if self._reader is not None:
            self._writer.close()
            self._reader = None


async def run(job: dict[str, Any]) -> Heard:
    """Send for so long, or until SIGTERM."""
    asked, again, latencies, prefix = Asked(*job["asked"]), Counter[str](), [], secrets.token_hex(4)
    bodies, enough, begun = rows.pool(asked.kind), asyncio.Event(), perf_counter()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, enough.set)

    async def loop(at: int) -> None:
        connection = Connection(job["port"])
        for number in itertools.count():
            sent = perf_counter()
            if sent > begun + job["seconds"] or enough.is_set():
                break
            body = bodies[(at * 61 + number) % len(bodies)]
            if asked.ids:
                body = body[:-1] + f',"id":"{prefix}-{at}-{number}"}}'.encode()
            path = asked.path.replace("%d", str((at * 37 + number) % asked.models))
            await connection.send(
                head("POST", path, rows.KINDS[asked.kind].media_type, len(body), job["headers"]) + body
            )
            latencies.append((round(sent - begun, 3), round(perf_counter() - sent, 6)))
        again.update(connection.again)
        connection.close()

    await asyncio.gather(*(loop(at) for at in range(asked.connections)))
    return Heard(len(latencies), perf_counter() - begun, again, latencies)


def head(method: str, path: str, media_type: str, length: int, headers: dict[str, str]) -> bytes:
    """Request line and headers."""
    every = {"Host": "127.0.0.1", "Content-Type": media_type, "Content-Length": length, **headers}
    lines = (f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in every.items()))
    return "\r\n".join((*lines, "", "")).encode()


if __name__ == "__main__":
    heard = uvloop.run(run(json.loads(sys.argv[1])))
    with open(sys.stdout.fileno(), "w", closefd=False) as whole:  # unbuffered, stdout may write a part only
        json.dump(heard, whole)
