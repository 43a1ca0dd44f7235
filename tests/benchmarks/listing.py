"""What it costs to list many models of which few fit into memory.

    python -m tests.benchmarks.listing [--models N] [--checkout DIRECTORY]

N models (10000) with d = 10 learn two rows each under the smallest memory budget (16 MiB). The service is started
again; then all pages of ``GET /models?limit=1000`` are read, twice, and all of the order ``worst``. For each: the time
per page, models loaded and evicted meanwhile, and the longest wait of ``/healthz``, asked every 10 ms. Fails where a
list loads anything or leaves a model out. ``--checkout`` runs another checkout's code with its own Python; what that
does not know is passed over.
"""

import argparse
import http.client
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from urllib.parse import quote

from tests.benchmarks import rows
from tests.benchmarks.processes import ROOT, Service

LIMIT = 1000
PROBE_S = 0.01
CONNECTIONS = 8
COUNTERS = ("onepass_loads_total", "onepass_evictions_total")
LISTS = (("by name", ""), ("again", ""), ("worst first", "&sort=worst"))


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body."""
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()


class Probe(threading.Thread):
    """Asks for /healthz until it is stopped; ``worst`` is the longest wait in seconds."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._client, self._over, self.worst = Client(port), threading.Event(), 0.0

    def run(self) -> None:
        """Ask."""
        while not self._over.wait(PROBE_S):
            begun = perf_counter()
            self._client.ask("GET", "/healthz")
            self.worst = max(self.worst, perf_counter() - begun)

    def stop(self) -> float:
        """End it; the longest wait."""
        self._over.set()
        self.join()
        return self.worst


def fill(service: Service, names: list[str]) -> None:
    """Create the models, unwatched, since a start looks into the logs of watched ones; two rows each."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(_fill, service.port, names[at::CONNECTIONS]) for at in range(CONNECTIONS)]:
            done.result()


def _fill(port: int, names: list[str]) -> None:
    client, bodies = Client(port), rows.single(2, 1)
    created = json.dumps({**rows.model({}), "watch": None}).encode()
    for name in names:
        asked = [("PUT", f"/models/{name}", created)]
        asked += [("POST", f"/models/{name}/feedback", body) for body in bodies]
        for method, path, body in asked:
            status, answer = client.ask(method, path, body)
            if status not in (200, 201):
                raise RuntimeError(f"{method} {path}: {status} {answer!r}")


def read_all(client: Client, query: str) -> tuple[list[float], set[str], int] | None:
    """Seconds of each page, the names found and how many of them have two rows; None where it cannot be asked for."""
    seconds: list[float] = []
    found: set[str] = set()
    learned, cursor = 0, ""
    while True:
        begun = perf_counter()
        status, body = client.ask("GET", f"/models?limit={LIMIT}{query}{cursor}")
        seconds.append(perf_counter() - begun)
        if status != 200:
            return None
        page = json.loads(body)
        found |= {model["name"] for model in page["models"]}
        learned += sum(model["rows"] == 2 for model in page["models"])
        if page["next"] is None:
            return seconds, found, learned
        cursor = f"&cursor={quote(page['next'])}"


def main() -> int:
    """Print the table; 1 where a list loads something or is not whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    options = parser.parse_args()
    names = [f"model-{number:06d}" for number in range(options.models)]
    missed = []
    with Service(options.checkout, memory_budget_mb="16") as service:
        begun = perf_counter()
        fill(service, names)
        print(f"{len(names)} models made in {perf_counter() - begun:.0f} s", flush=True)
        service.stop()
        service.start()
        sleep(1.0)  # what a start does in the background is over
        client = Client(service.port)
        print(
            f"{'list':14}{'pages':>7}{'ms a page':>11}{'worst':>8}{'loads':>8}{'evictions':>11}{'healthz worst ms':>18}"
        )
        for what, query in LISTS:
            before = [service.counter(name) for name in COUNTERS]
            probe = Probe(service.port)
            probe.start()
            read = read_all(client, query)
            waited = probe.stop()
            loads, evictions = (service.counter(name) - was for name, was in zip(COUNTERS, before, strict=True))
            if read is None:
                print(f"{what:14}  not known to this checkout")
                continue
            seconds, found, learned = read
            figures = f"{len(seconds):7}{1000 * median(seconds):11.1f}{1000 * max(seconds):8.1f}"
            print(f"{what:14}{figures}{loads:8.0f}{evictions:11.0f}{1000 * waited:18.1f}", flush=True)
            if found != set(names) or learned != len(names):
                missed.append(f"{what}: {len(found)} models listed, {learned} of them with their two rows")
            if loads or evictions:
                missed.append(f"{what}: {loads:.0f} loads, {evictions:.0f} evictions")
    for miss in missed:
        print(f"MISSED  {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
