"""A service that is sent something heavy, and what single rows of its model "other" wait for meanwhile."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.benchmarks import heavy
from tests.benchmarks.heavy import Ask, ask
from tests.benchmarks.probe import MODEL, Waits
from tests.benchmarks.processes import ROOT, Service

WORST_MS_MAX = 250.0
DONE = ("200", "201")
IDLE_S, BEFORE_S, AFTER_S = 2.0, 0.3, 1.0

Work = Callable[[], list[str]]


@dataclass
class Found:
    """One line of the table."""

    what: str
    waits: Waits
    answers: list[str]
    expected: Sequence[str]
    seconds: float
    peak_mib: float

    @property
    def misses(self) -> list[str]:
        """What is not as it should be."""
        waits, found = self.waits, []
        if waits.worst_ms >= WORST_MS_MAX:
            found.append(f"worst {waits.worst_ms:.0f} ms (own lag {waits.lag_worst_ms:.0f})")
        if set(waits.statuses) != {"200"}:
            found.append(f"answers {waits.statuses}")
        if wrong := [status for status in self.answers if status not in self.expected]:
            found.append(f"heavy answers {dict(Counter(wrong))}")
        return [f"{self.what}: {miss}" for miss in found]

    def __str__(self) -> str:
        waits = self.waits
        statuses = " ".join(f"{status}x{count}" for status, count in sorted(waits.statuses.items()))
        told = " ".join(f"{status}x{count}" for status, count in sorted(Counter(self.answers).items()))
        return (
            f"{self.what:34}{waits.p50_ms:8.1f}{waits.p99_ms:9.1f}{waits.worst_ms:9.1f}{waits.lag_worst_ms:9.1f}"
            f"{self.peak_mib:8.0f}{self.seconds:8.1f}  {statuses:16}  {told}"
        )


HEADER = f"{'ms':34}{'p50':>8}{'p99':>9}{'worst':>9}{'own lag':>9}{'peak':>8}{'s':>8}  {'rows':16}  heavy"


class Stage:
    """A service with the model "other", and the process that measures it."""

    def __init__(self, service: Service, rows: list[Found]) -> None:
        self.service, self._rows = service, rows

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.benchmarks.probe", str(self.service.port)]
        if self.service.call("GET", f"/models/{MODEL}")[0] != 200:
            self.service.create(MODEL, heavy.model(["x1"]))
            self.done(Ask("POST", f"/models/{MODEL}/feedback", b'{"features":{"x1":0.5},"label":1.0}'))
        self._probe = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.beside("at rest", lambda: time.sleep(IDLE_S) or [])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._probe.kill()
        self._probe.wait()

    def ask(self, *requests: Ask) -> list[str]:
        """Send requests, all at once; their statuses."""
        with ThreadPoolExecutor(len(requests)) as threads:
            return [status for status, _ in threads.map(lambda each: ask(self.service.port, each), requests)]

    def done(self, *requests: Ask) -> bytes:
        """Prepare something, one request after the other; the last answer's body.

        Raises:
            RuntimeError: an answer is not 200 or 201.
        """
        body = b""
        for request in requests:
            status, body = ask(self.service.port, request)
            if status not in DONE:
                raise RuntimeError(f"{request.method} {request.path}: {status} {body[:500]!r}")
        return body

    def beside(self, what: str, work: Work, expected: Sequence[str] = DONE) -> None:
        """Measure while the work, which returns the statuses of its answers, is done."""
        self._say("start")
        reset_peaks(self.service)
        time.sleep(BEFORE_S)
        begun = time.monotonic()
        answers = work()
        seconds = time.monotonic() - begun
        time.sleep(AFTER_S)
        self._say("stop")
        waits = Waits(**json.loads(self._probe.stdout.readline()))
        found = Found(what, waits, answers, expected, seconds, peak_mib(self.service))
        self._rows.append(found)
        print(found, flush=True)

    def _say(self, word: str) -> None:
        self._probe.stdin.write(word + "\n")
        self._probe.stdin.flush()


def reset_peaks(service: Service) -> None:
    """Forget the highest memory so far."""
    for process in service.own_processes():
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def peak_mib(service: Service) -> float:
    """Sum of the highest resident memory of the service's processes."""
    total_kb = 0
    for process in service.own_processes():
        with suppress(OSError, psutil.Error):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            total_kb += next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return total_kb / 1024


@dataclass
class Bench:
    """Whose code is measured, and what has been found in the scenario under way."""

    checkout: Path
    rows: list[Found] = field(default_factory=list)

    @contextmanager
    def service(self, **settings: str) -> Iterator[Service]:
        """A service, ended by force: what it would write in the end is of no use."""
        service = Service(self.checkout, **settings)
        try:
            service.start()
            yield service
        finally:
            service.kill()
            service.remove()

    def on(self, service: Service) -> Stage:
        """Measure a service."""
        return Stage(service, self.rows)

    @contextmanager
    def stage(self, **settings: str) -> Iterator[Stage]:
        """A service of its own, measured as long as it runs."""
        with self.service(**settings) as service, self.on(service) as stage:
            yield stage
