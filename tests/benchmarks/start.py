"""How long people wait for a start: the first ``make run`` of a clone and later ones, by phase; memory at rest.

    python -m tests.benchmarks.start [--first] [--second N] [--checkout DIRECTORY] [--make ARGUMENT ...]

The first start runs in a new clone of the checkout's last commit in a temporary folder, with the package caches of this
machine: ``--make UV=no`` measures pip. Second starts run in the checkout itself. A phase ends with its line of the
output; the last one ends with the first 200 of /readyz. CPU seconds are those of make's
finished steps and of the service: on a machine that is busy with other things they tell more than the seconds on the
wall. Memory is measured a second after the start without a model, and after three rows of a ``dfop`` model: what is
resident, and the part of it that no file backs. Needs Linux, git and make.
"""

import argparse
import http.client
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

import psutil

from tests.benchmarks.processes import ROOT, free_port

START_S_MAX = 540.0
AT_REST_S = 1.0
MIB = 2**20
PHASES = {
    "Making .venv": "environment",
    "Installing service": "packages",
    "Installing onepass": "project",
    "Compiling kernels": "kernels",
}
"""What the line of a phase begins with."""


class Phase(NamedTuple):
    """One phase of a start: seconds on the wall and of CPU."""

    name: str
    wall_s: float
    cpu_s: float


class Start:
    """``make run`` in a checkout, followed until the service is ready, and stopped with the block.

    Args:
        checkout: the folder.
        arguments: for make.
    """

    def __init__(self, checkout: Path, arguments: list[str]) -> None:
        self._data = tempfile.TemporaryDirectory(prefix="onepass-start-")
        self.port = free_port()
        own = {name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_")}
        own.pop("PYTHONDONTWRITEBYTECODE", None)
        settings = {"ONEPASS_PORT": str(self.port), "ONEPASS_DATA_DIR": self._data.name}
        self._begun = time.monotonic()
        self._make = psutil.Popen(
            ["make", "run", *arguments],
            cwd=checkout, env=own | settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._make.children(recursive=True), self._make]:
            process.terminate()
        self._make.wait()
        self._data.cleanup()

    def _read(self) -> None:
        for line in self._make.stdout:
            self._lines.put(line)

    def phases(self) -> list[Phase]:
        """Wait until the service is ready; what the time went into."""
        done, wall, cpu = [], self._begun, 0.0
        while not self._ready():
            if self._make.poll() is not None or time.monotonic() > self._begun + START_S_MAX:
                raise RuntimeError("the service does not come up:\n" + "".join(self._left()))
            for line in self._left():
                if ended := next((phase for start, phase in PHASES.items() if line.startswith(start)), None):
                    done.append(Phase(ended, time.monotonic() - wall, self._cpu() - cpu))
                    wall, cpu = time.monotonic(), self._cpu()
            time.sleep(0.01)
        return [*done, Phase("serving", time.monotonic() - wall, self._cpu() - cpu)]

    def memory(self) -> tuple[float, float]:
        """MiB that are resident, and that no file backs, once the service is at rest."""
        time.sleep(AT_REST_S)
        used = self._service().memory_info()
        rolled = Path(f"/proc/{self._service().pid}/smaps_rollup").read_text()
        anonymous = next(int(line.split()[1]) for line in rolled.splitlines() if line.startswith("Anonymous:"))
        return used.rss / MIB, anonymous * 1024 / MIB

    def ask(self, method: str, path: str, body: object = None) -> int:
        """The status of a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        status = connection.getresponse().status
        connection.close()
        return status

    def _ready(self) -> bool:
        try:
            return self.ask("GET", "/readyz") == 200
        except OSError:
            return False

    def _left(self) -> list[str]:
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def _service(self) -> psutil.Process:
        """``onepass serve``, a child of make or make itself."""
        found = [one for one in [self._make, *self._make.children()] if "serve" in one.cmdline()]
        return psutil.Process(found[-1].pid)

    def _cpu(self) -> float:
        """CPU seconds of make, of its steps that have ended, and of those that run."""
        total = 0.0
        for process in [self._make, *self._make.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue  # its parent has it
            total += times.user + times.system + times.children_user + times.children_system
        return total


def first(checkout: Path, arguments: list[str]) -> list[Phase]:
    """The phases of a first start, in a clone."""
    with tempfile.TemporaryDirectory(prefix="onepass-clone-") as folder:
        subprocess.run(["git", "clone", "--quiet", str(checkout), folder], check=True)
        with Start(Path(folder), arguments) as start:
            return start.phases()


def second(checkout: Path, arguments: list[str]) -> tuple[Phase, tuple[float, float], tuple[float, float]]:
    """A start with everything there, as a whole; memory without a model and with one."""
    with Start(checkout, arguments) as start:
        phases = start.phases()
        empty = start.memory()
        assert start.ask("PUT", "/models/m", {"algorithm": "dfop", "task": "regression", "features": ["a"]}) == 201
        for row in range(3):
            assert start.ask("POST", "/models/m/feedback", {"features": {"a": float(row)}, "label": 1.0}) == 200
        whole = Phase("second start", sum(one.wall_s for one in phases), sum(one.cpu_s for one in phases))
        return whole, empty, start.memory()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", action="store_true", help="the first start too: it installs and compiles everything")
    parser.add_argument("--second", type=int, default=5, metavar="N", help="how many second starts; default: 5")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose starts; default: this one's")
    parser.add_argument(
        "--make", nargs="*", default=[], metavar="ARGUMENT", help="arguments for make, UV=no for example"
    )
    options = parser.parse_args()
    print(f"{'phase':<14}{'wall s':>8}{'CPU s':>8}")
    if options.first:
        phases = first(options.checkout, options.make)
        total = Phase("first start", sum(one.wall_s for one in phases), sum(one.cpu_s for one in phases))
        for phase in [*phases, total]:
            print(f"{phase.name:<14}{phase.wall_s:>8.2f}{phase.cpu_s:>8.2f}", flush=True)
    runs = [second(options.checkout, options.make) for _ in range(options.second)]
    for phase, _, _ in runs:
        print(f"{phase.name:<14}{phase.wall_s:>8.2f}{phase.cpu_s:>8.2f}", flush=True)
    if runs:
        for name, at in (("no model", 1), ("one of dfop", 2)):
            resident, own = (median(run[at][part] for run in runs) for part in (0, 1))
            print(f"memory at rest, {name}: {resident:.0f} MiB resident, {own:.0f} of them not of files")


if __name__ == "__main__":
    main()
