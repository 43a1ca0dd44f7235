"""Requests before and after: ``python -m tests.benchmarks.paired BEFORE AFTER``, two checkouts, each with a .venv.

Feedback, predict and batches of 1000 rows as JSON at 1, 16 and 64 connections, each request to the next of 1, 100 or
1000 models of ``dfop`` with d = 10. Both services run side by side, each with a private store; in every round one is
measured right after the other, in turns first and second, so that what else the machine does falls on both. Two
processes of one and the same checkout differ by up to 15 % for as long as they live, so both begin anew ``--starts``
times, in turns first and second. Printed are medians over all rounds of all starts: rates, the ratio of the rates and
its range over the starts, and the same of the CPU time that service and store used per request, which depends less on
what else the machine does. The load generator is wrk (Debian and Ubuntu: apt install wrk).

Exits with 1 where a cell is slower: a ratio of the rates below 0.97, and one of the CPU time above 1.03.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.benchmarks import rows
from tests.benchmarks.load import Job
from tests.benchmarks.processes import Load, Service

ROUTES = ("feedback", "predict", "feedback/batch")
CONNECTIONS = (1, 16, 64)
MODELS = (1, 100, 1000)
BODIES = 2048
BATCHES = 20
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
    """The figures of one checkout in one cell, by start: requests per second and microseconds of CPU per request."""

    rates: list[list[float]] = field(default_factory=list)
    cpu_us: list[list[float]] = field(default_factory=list)


class Generator:
    """wrk and what it sends."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("wrk")
        if found is None:
            raise SystemExit("wrk is not installed (Debian and Ubuntu: apt install wrk)")
        self._wrk, self._script = found, folder / "requests.lua"
        self._script.write_text(SCRIPT)
        drawn = (rows.single(BODIES, 1), rows.asked(BODIES, 1), rows.columns(BATCHES, 1))
        made = dict(zip(ROUTES, drawn, strict=True))
        self._bodies = {route: folder / str(number) for number, route in enumerate(made)}
        for route, bodies in made.items():
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


def measure(
    services: list[Service], sides: list[Side], cell: Cell, rounds: int, seconds: int, generator: Generator
) -> None:
    """One start of both sides of one cell, before and after."""
    for service, side in zip(services, sides, strict=True):
        generator.run(service, cell, 1)
        side.rates.append([])
        side.cpu_us.append([])
    for number in range(rounds):
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            rate, cpu_us = generator.run(services[at], cell, seconds)
            sides[at].rates[-1].append(rate)
            sides[at].cpu_us[-1].append(cpu_us)


def ratios(before: list[list[float]], after: list[list[float]]) -> list[float]:
    """After over before: the median of each start's rounds, in order of size."""
    pairs = zip(before, after, strict=True)
    return sorted(median(new / old for old, new in zip(*pair, strict=True)) for pair in pairs)


def report(cell: Cell, before: Side, after: Side) -> Iterator[str]:
    """Print the line of a cell; what is slower in it."""
    rates, cpu = ratios(before.rates, after.rates), ratios(before.cpu_us, after.cpu_us)
    rate, rate_after, us, us_after = (
        median(chain(*each)) for each in (before.rates, after.rates, before.cpu_us, after.cpu_us)
    )
    print(
        f"{cell.route:15}{cell.connections:>6}{cell.models:>8}{rate:>9.0f}{rate_after:>9.0f}"
        f"{median(rates):>8.3f}  {rates[0]:.2f}..{rates[-1]:.2f}"
        f"{us:>9.0f}{us_after:>9.0f}{median(cpu):>8.3f}  {cpu[0]:.2f}..{cpu[-1]:.2f}",
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
    parser.add_argument("--starts", type=int, default=5, help="of both services")
    parser.add_argument("--rounds", type=int, default=4, help="of each start")
    parser.add_argument("--seconds", type=int, default=1, help="that each round measures a checkout")
    parser.add_argument("--connections", type=numbers, default=CONNECTIONS, help="1,16,64")
    parser.add_argument("--models", type=numbers, default=MODELS, help="1,100,1000")
    parser.add_argument("--routes", type=lambda text: text.split(","), default=ROUTES, help=",".join(ROUTES))
    return parser.parse_args()


def main() -> int:
    """Print the table; 1 where a cell is slower."""
    given = options()
    cells = [Cell(*each) for each in product(given.routes, given.connections, given.models)]
    sides = {cell: [Side(), Side()] for cell in cells}
    with tempfile.TemporaryDirectory() as folder:
        generator = Generator(Path(folder))
        for start in range(given.starts):
            turn = 1 if start % 2 == 0 else -1
            with ExitStack() as stack:
                begun = [stack.enter_context(Service(each.resolve())) for each in (given.before, given.after)[::turn]]
                for service in begun:
                    prepare(service, max(given.models))
                for cell in cells:
                    measure(begun[::turn], sides[cell], cell, given.rounds, given.seconds, generator)
    print(f"{'':15}{'conns':>6}{'models':>8}{'before/s':>9}{'after/s':>9}{'ratio':>8}  {'range':10}", end="")
    print(f"{'CPU us':>9}{'after':>9}{'ratio':>8}  range")
    slower = [line for cell in cells for line in report(cell, *sides[cell])]
    for each in slower:
        print(f"SLOWER  {each}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
