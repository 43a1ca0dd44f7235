"""What a loaded model takes of a service's memory, and what it costs to load one that is not."""

import http.client
import json
from collections.abc import Sequence
from statistics import median
from time import perf_counter

from tests.benchmarks import rows
from tests.benchmarks.processes import Service
from tests.benchmarks.sizing.cpu import DENSE

KIB, MIB = 1024, 2**20
TAUGHT = 2000
"""Rows that each model has learned, in one batch: its windows of a thousand rows are full."""


class Client:
    """One connection to a service."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of an answer.

        Raises:
            RuntimeError: it is a refusal.
        """
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        told = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {told[:500]!r}")
        return told


def create(client: Client, algorithm: str, name: str) -> None:
    """A model that has learned."""
    client.ask("PUT", f"/models/{name}", json.dumps({**rows.model({}), "algorithm": algorithm}).encode())
    X, y = rows.draw(TAUGHT, 1)
    table = {"columns": rows.NAMES, "data": X.tolist(), "labels": [rows.LABELS[k] for k in y]}
    client.ask("POST", f"/models/{name}/feedback/batch", json.dumps(table).encode())


def in_memory(service: Service) -> tuple[int, float]:
    """Resident bytes of a service, and what it says that its models take."""
    return service.system.memory_info().rss, service.counter("onepass_models_bytes")


def measure(service: Service, algorithm: str, models: int) -> str:
    """A line: memory of each of so many models, and loads of them after a start."""
    client = Client(service.port)
    begin, _ = in_memory(service)
    create(client, algorithm, f"{algorithm}-first")
    first, before = in_memory(service)
    names = [f"{algorithm}-{number}" for number in range(models)]
    for name in names:
        create(client, algorithm, name)
    rss, counted = in_memory(service)
    service.stop()
    service.start()
    client = Client(service.port)
    client.ask("GET", f"/models/{algorithm}-first")  # imports what the algorithm needs
    waits, used, empty = [], service.used(), in_memory(service)[0]
    for name in names:
        at = perf_counter()
        client.ask("GET", f"/models/{name}")
        waits.append(perf_counter() - at)
    spent = 1e3 * (service.used().service - used.service) / models
    sizes = [size / models / KIB for size in (rss - first, in_memory(service)[0] - empty, counted - before)]
    times = 1e3 * median(waits), 1e3 * sorted(waits)[int(0.99 * models)]
    shown = "".join(f"{size:14.1f}" for size in (*sizes, *times))
    return f"{algorithm:16}{(first - begin) / MIB:14.0f}{shown}{spent:14.2f}"


def in_service(algorithms: Sequence[str], models: int) -> None:
    """Print a line for each algorithm."""
    print(f"\n{models} models of ten columns and two classes, {TAUGHT} rows each")
    heads = ("first, MiB", "taught, KiB", "loaded, KiB", "counted, KiB", "load, ms", "p99", "CPU, ms")
    print(f"{'':16}" + "".join(f"{name:>14}" for name in heads))
    for algorithm in algorithms or DENSE:
        with Service() as service:
            print(measure(service, algorithm, models), flush=True)
