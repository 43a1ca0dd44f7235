"""Closed loops of requests: wrk where it is installed, else the Python generator, which takes more of the machine."""

import io
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.benchmarks.load import POOLS, Job, pool
from tests.benchmarks.processes import Load, Process

SCRIPT = """
local requests, heads, tails, at, sent = {}, {}, {}, 0, 0
local id = ',"id":"%s-%010d"}'
local prefix
init = function(arguments)
  local file, models, number = io.open(arguments[1], "rb"), tonumber(arguments[3]), 0
  local headers = {["Content-Type"] = arguments[4]}
  prefix = arguments[5]
  while true do
    local size = file:read("*n")
    if not size then break end
    file:read(1)
    local body, path = file:read(size), string.format(arguments[2], number % models)
    number = number + 1
    if prefix then
      local mark = string.format(id, prefix, 0)
      local whole = wrk.format("POST", path, headers, body:sub(1, -2) .. mark)
      heads[number] = whole:sub(1, -1 - #mark)
    else
      requests[number] = wrk.format("POST", path, headers, body)
    end
  end
end
request = function()
  sent = sent + 1
  if prefix then
    at = at % #heads + 1
    return heads[at] .. string.format(id, prefix, sent)
  end
  at = at % #requests + 1
  return requests[at]
end
"""
"""Goes through requests that are made before the clock runs; an id is all that is put together meanwhile."""
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


class Asked(NamedTuple):
    """What is sent.

    Attributes:
        kind: a key of ``load.POOLS``.
        path: with ``%d`` for the number of a model.
        connections: closed loops.
        models: that are asked in turn.
        ids: give every row an id of its own.
    """

    kind: str
    path: str
    connections: int
    models: int = 1
    ids: bool = False


class Measured(NamedTuple):
    """Answers a second, their latencies, answers in all, and the server's CPU time per answer (with its store's)."""

    rate: float
    p50_ms: float
    p99_ms: float
    answers: int
    cpu_us: float


class Generator:
    """Measures servers.

    Args:
        folder: for what is sent.
    """

    def __init__(self, folder: Path) -> None:
        self._wrk, self._folder, self._runs = shutil.which("wrk"), folder, 0
        self._load = Load()
        self._script = folder / "requests.lua"
        self._script.write_text(SCRIPT)

    def __enter__(self) -> Self:
        self._load.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._load.__exit__(kind, error, at)

    @property
    def name(self) -> str:
        """What sends."""
        return "wrk" if self._wrk else "a Python generator (wrk is not installed: apt install wrk)"

    @property
    def many_models(self) -> bool:
        """Whether several models can be asked in turn."""
        return self._wrk is not None

    def run(self, server: Process, asked: Asked, seconds: int) -> Measured:
        """Send for so many seconds.

        Raises:
            RuntimeError: an answer was not 200, or a connection failed.
        """
        before = sum(server.used())
        found = self._by_wrk(server, asked, seconds) if self._wrk else self._by_python(server, asked, seconds)
        return found._replace(cpu_us=1e6 * (sum(server.used()) - before) / max(1, found.answers))

    def _by_python(self, server: Process, asked: Asked, seconds: int) -> Measured:
        path = asked.path.replace("%d", "0")
        tally = self._load.run(Job(server.port, asked.kind, path, asked.connections, seconds, 0.1, asked.ids))
        return Measured(tally.rate, tally.p50_ms, tally.p99_ms, tally.acknowledged, 0.0)

    def _by_wrk(self, server: Process, asked: Asked, seconds: int) -> Measured:
        self._runs += 1
        own = [str(self._bodies(asked.kind)), asked.path, str(asked.models), POOLS[asked.kind][2]]
        command = [self._wrk or "", "-t1", f"-c{asked.connections}", f"-d{seconds}s", "--latency", "-s"]
        command += [str(self._script), f"http://127.0.0.1:{server.port}", "--", *own]
        command += [f"run-{self._runs}"] if asked.ids else []
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in told or "Socket errors" in told:
            raise RuntimeError(told)
        rate, answers = _found(r"Requests/sec:\s+([\d.]+)", told)[0], _found(r"(\d+) requests in", told)[0]
        p50, p99 = (_milliseconds(_found(rf"{share}%\s+([\d.]+)(us|ms|s|m)\b", told)) for share in (50, 99))
        return Measured(float(rate), p50, p99, int(answers), 0.0)

    def _bodies(self, kind: str) -> Path:
        """The bodies of a kind, each behind its length."""
        path = self._folder / kind
        if not path.exists():
            whole = io.BytesIO()
            for body in pool(kind):
                whole.write(b"%d\n" % len(body) + body)
            path.write_bytes(whole.getvalue())
        return path


def _found(pattern: str, told: str) -> tuple[str, ...]:
    match = re.search(pattern, told)
    if match is None:
        raise RuntimeError(told)
    return match.groups()


def _milliseconds(found: tuple[str, ...]) -> float:
    return float(found[0]) * UNITS_MS[found[1]]
