"""Single rows before and after: ``python -m tests.benchmarks.paired BEFORE AFTER``, two checkouts, each with a .venv.

Feedback and predict at 1, 16 and 64 connections, each request to the next of 1, 100 or 1000 models of ``dfop`` with
d = 10. Both services run all the time, each with a private store; in every round one is measured right after the other,
in turns first and second, so that what else the machine does falls on both. Printed are medians over the rounds: rates,
the ratio of the rates and its range, and the same of the CPU time that service and store used per request, which
depends less on what else the machine does. The load generator is wrk (Debian and Ubuntu: apt install wrk).

Exits with 1 where a cell is slower: a ratio of the rates below 0.97, and one of the CPU time above 1.03.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.benchmarks import rows
from tests.benchmarks.load import Job
from tests.benchmarks.processes import Load, Service

ROUTES = ("feedback", "predict")
CONNECTIONS = (1, 16, 64)
MODELS = (1, 100, 1000)
BODIES = 2048
RATE_RATIO_MIN, CPU_RATIO_MAX = 0.97, 1.03
PARAMS = {"forgetting_rate": 0.01}
SCRIPT = """
local requests, at = {}, 0
init = function(arguments)
  local models, headers = tonumber(arguments[2]), {["Content-Type"] = "application/json"}
  local number = 0
  for body in io.lines(arguments[1]) do
    local path = string.format("/models/m%d/%s", number % models, arguments[3])
    requests[#requests + 1] = wrk.format("POST", path, headers, body)
    number = number + 1
  end
end
request = function()
  at = at % #requests + 1
  return requests[at]
end
"""
"""Goes through requests that are made before the clock runs; ``wrk ... -- BODIES MODELS ROUTE``."""


class Cell(NamedTuple):
    """What is measured."""

    route: str
    connections: int
    models: int


@dataclass
class Side:
    """The figures of one checkout in one cell: requests per second and microseconds of CPU per request."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


class Generator:
    """wrk and what it sends."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("wrk")
        if found is None:
            raise SystemExit("wrk is not installed (Debian and Ubuntu: apt install wrk)")
        self._wrk, self._script = found, folder / "requests.lua"
        self._script.write_text(SCRIPT)
        self._bodies = {"feedback": folder / "feedback", "predict": folder / "predict"}
        for route, bodies in (("feedback", rows.single(BODIES, 1)), ("predict", rows.asked(BODIES, 1))):
            self._bodies[route].write_bytes(b"\n".join(bodies) + b"\n")

    def run(self, service: Service, cell: Cell, seconds: int) -> tuple[float, float]:
        """Requests per second, and microseconds of CPU that each took.

        Raises:
            RuntimeError: an answer was not 200, or a connection failed.
        """
        own = [str(self._bodies[cell.route]), str(cell.models), cell.route]
        url = f"http://127.0.0.1:{service.port}"
        command = [self._wrk, "-t1", f"-c{cell.connections}", f"-d{seconds}s", "-s", str(self._script), url, "--", *own]
        before = service.used()
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        after = service.used()
        if "Non-2xx" in told or "Socket errors" in told:
            raise RuntimeError(told)
        rate, requests = re.search(r"Requests/sec:\s+([\d.]+)", told), re.search(r"(\d+) requests in", told)
        if rate is None or requests is None:
            raise RuntimeError(told)
        used_s = sum(after) - sum(before)
        return float(rate[1]), 1e6 * used_s / int(requests[1])


def measure(services: list[Service], cell: Cell, rounds: int, seconds: int, generator: Generator) -> list[Side]:
    """Both sides of one cell, before and after."""
    sides = [Side(), Side()]
    for service in services:
        generator.run(service, cell, 1)
    for number in range(rounds):
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            rate, cpu_us = generator.run(services[at], cell, seconds)
            sides[at].rates.append(rate)
            sides[at].cpu_us.append(cpu_us)
    return sides


def ratios(before: list[float], after: list[float]) -> list[float]:
    """After over before, round by round, in order of size."""
    return sorted(new / old for old, new in zip(before, after, strict=True))


def report(cell: Cell, before: Side, after: Side) -> Iterator[str]:
    """Print the line of a cell; what is slower in it."""
    rates, cpu = ratios(before.rates, after.rates), ratios(before.cpu_us, after.cpu_us)
    print(
        f"{cell.route:10}{cell.connections:>6}{cell.models:>8}{median(before.rates):>9.0f}{median(after.rates):>9.0f}"
        f"{median(rates):>8.3f}  {rates[0]:.2f}..{rates[-1]:.2f}"
        f"{median(before.cpu_us):>9.0f}{median(after.cpu_us):>9.0f}{median(cpu):>8.3f}  {cpu[0]:.2f}..{cpu[-1]:.2f}",
        flush=True,
    )
    if median(rates) < RATE_RATIO_MIN and median(cpu) > CPU_RATIO_MAX:
        yield f"{cell.route} at {cell.connections} connections, {cell.models} models: {median(rates):.3f} of the rate"


def prepare(service: Service, models: int) -> None:
    """Create the models and teach each a row."""
    with Load() as load:
        names = tuple(f"m{number}" for number in range(models))
        for kind in ("create", "feed"):
            load.run(Job(service.port, kind, connections=16, models=names, params=PARAMS))


def numbers(text: str) -> tuple[int, ...]:
    """What stands between commas."""
    return tuple(map(int, text.split(",")))


def options() -> Any:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="that each round measures a checkout")
    parser.add_argument("--connections", type=numbers, default=CONNECTIONS, help="1,16,64")
    parser.add_argument("--models", type=numbers, default=MODELS, help="1,100,1000")
    parser.add_argument("--routes", type=lambda text: text.split(","), default=ROUTES, help="feedback,predict")
    return parser.parse_args()


def main() -> int:
    """Print the table; 1 where a cell is slower."""
    given = options()
    slower: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Service(given.before.resolve()) as before,
        Service(given.after.resolve()) as after,
    ):
        generator = Generator(Path(folder))
        for service in (before, after):
            prepare(service, max(given.models))
        print(f"{'':10}{'conns':>6}{'models':>8}{'before/s':>9}{'after/s':>9}{'ratio':>8}  {'range':10}", end="")
        print(f"{'CPU us':>9}{'after':>9}{'ratio':>8}  range")
        for cell in (Cell(*each) for each in product(given.routes, given.connections, given.models)):
            sides = measure([before, after], cell, given.rounds, given.seconds, generator)
            slower += report(cell, *sides)
    for each in slower:
        print(f"SLOWER  {each}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
