"""What a backup costs: ``python -m tests.benchmarks.backup [--models N] [--wide N]``.

N small models (10000) of two columns and a few wide ones (12) of 2000 learn under a small memory budget. ``onepass
backup`` writes them to a file while one of them learns row by row, ``onepass restore`` brings them into an empty one.
For both: seconds, bytes, the peak of the service's memory beside what it had before, and for the backup the longest
wait of a row. Fails where the memory grows with the backup, or the states differ.
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.benchmarks.processes import Service

WIDE = 2000
STATES_MAX, LIBRARIES_MIB = 6, 128
"""The service may grow by so many times the memory of the largest state, which it packs, holds, checks and writes, and
by what it imports for its first model."""
MIB = 2**20
SMALL = {"algorithm": "rls", "task": "regression", "features": ["a", "b"]}


class Peak(threading.Thread):
    """The peak of a service's memory, and the longest wait of a row of its model ``busy``."""

    def __init__(self, service: Service, learns: bool) -> None:
        super().__init__()
        self._service, self._learns, self._over = service, learns, threading.Event()
        self.before = self.most = service.system.memory_info().rss
        self.waits: list[float] = []

    def run(self) -> None:
        """Look, until it is stopped."""
        connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=60)
        while not self._over.wait(0.005):
            self.most = max(self.most, self._service.system.memory_info().rss)
            if self._learns:
                begun = time.perf_counter()
                row = json.dumps({"features": {"a": 0.5, "b": 1.0}, "label": 2.0})
                connection.request("POST", "/models/busy/feedback", row, {"Content-Type": "application/json"})
                connection.getresponse().read()
                self.waits.append(time.perf_counter() - begun)

    def stop(self) -> None:
        """The end of it."""
        self._over.set()
        self.join()

    @property
    def grown(self) -> float:
        """MiB."""
        return (self.most - self.before) / MIB


def _fill(service: Service, models: int, wide: int) -> None:
    """Models that have learned."""
    draw = np.random.default_rng(0)
    names = [f"x{at}" for at in range(WIDE)]
    for at in range(wide):
        service.create(f"wide-{at}", {**SMALL, "features": names})
        table = {"columns": names, "data": draw.normal(size=(2, WIDE)).round(3).tolist(), "labels": [1.0, 2.0]}
        status, answer = service.call("POST", f"/models/wide-{at}/feedback/batch", table)
        if status != 200:
            raise RuntimeError(answer)
    for at in range(models):
        service.create(f"small-{at}", SMALL)
        service.call(
            "POST", f"/models/small-{at}/feedback", {"features": {"a": 1.0, "b": at}, "label": 1.0, "id": "one"}
        )
    service.create("busy", SMALL)


def _timed(service: Service, learns: bool, *command: str) -> tuple[float, Peak]:
    peak = Peak(service, learns)
    peak.start()
    begun = time.monotonic()
    try:
        subprocess.run(
            [sys.executable, "-m", "service.cli", *command, "--url", f"http://127.0.0.1:{service.port}"], check=True
        )
    finally:
        peak.stop()
    return time.monotonic() - begun, peak


def _told(what: str, seconds: float, size: int, peak: Peak) -> None:
    waits = f", a row waited {1000 * max(peak.waits):.0f} ms at most" if peak.waits else ""
    print(f"{what}: {seconds:.1f} s, {size / MIB:.0f} MiB, the service grew by {peak.grown:.0f} MiB{waits}", flush=True)


def main() -> int:
    """Print the figures; 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--wide", type=int, default=12)
    given = parser.parse_args()
    allowed = LIBRARIES_MIB + STATES_MAX * 8 * WIDE**2 / MIB
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder, Service(memory_budget_mb="64") as one, Service() as two:
        file = Path(folder) / "backup"
        _fill(one, given.models, given.wide)
        seconds, peak = _timed(one, True, "backup", str(file))
        _told("backup", seconds, file.stat().st_size, peak)
        again, restored = _timed(two, False, "restore", str(file))
        _told("restore", again, file.stat().st_size, restored)
        for what, found in (("backup", peak), ("restore", restored)):
            if found.grown > allowed:
                missed.append(f"{what}: the service grew by {found.grown:.0f} MiB, of at most {allowed:.0f}")
        state: Callable[[Service, str], bytes] = lambda service, name: service.call("GET", f"/models/{name}/state")[1]  # noqa: E731
        for name in ("wide-0", f"small-{given.models - 1}"):
            if state(one, name) != state(two, name):
                missed.append(f"{name} is another one")
    for line in missed:
        print(f"MISSED  {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
