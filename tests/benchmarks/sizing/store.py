"""What rows, ids, tracked predictions and models take of the store, and CPU time of rows by how they are sent.

Bytes are those of MEMORY USAGE by kind of key, of the append-only file, and of the store's connections. Snapshots are
far apart where the log of all rows is weighed, as often as the settings say where models are.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import redis

from tests.benchmarks import rows
from tests.benchmarks.batches import Found
from tests.benchmarks.batches import measure as send
from tests.benchmarks.processes import ROOT, Load, Service, Used
from tests.benchmarks.sizing.cpu import WAYS, Way
from tests.benchmarks.sizing.models import Client
from tests.service.key_kinds import Held, held

NEVER_KB = "1000000"
LEARNING = 5
"""Models that learn beside each other where one at work is weighed; ``scale_load`` sends to m0, m1 and so on."""
CONNECTIONS = 16
SETTLED_S = 0.5
"""Answers to ids are stored within a tenth of a second."""
BATCHES = {"batch": (1000, False), "batch, ids": (1000, True), "batch of 100, ids": (100, True)}
"""Rows of a batch, and whether they have ids."""
BATCHED = 30_000
"""Rows that are sent in batches."""
TRACKED = 2000
WEIGHED = ("chunks", "log", "meta", "seen", "seen_due")


class Totals(NamedTuple):
    """What the store has counted so far."""

    file: int
    received: int
    sent: int

    @classmethod
    def of(cls, store: redis.Redis) -> "Totals":
        """Ask it."""
        info: Mapping[str, Any] = {**store.info("persistence"), **store.info("stats")}
        return cls(info["aof_current_size"], info["total_net_input_bytes"], info["total_net_output_bytes"])


def each_way(seconds: float) -> None:
    """Print what a row leaves in the store, by the way it was sent, before anything is trimmed."""
    names = ("rows", "rows/entry", "service us", "store us", "log", "ids", "file", "received", "sent")
    print(f"\n{'a row: bytes':24}" + "".join(f"{name:>12}" for name in names))
    feedback = {name: way for name, way in WAYS.items() if way.kind == "feedback"}
    for name, way in feedback.items():
        with Service(snapshot_min_kb=NEVER_KB, ids_max="10000000") as service:
            print(f"{name:24}{_sent(service, way, seconds)}", flush=True)
    for name, (size, ids) in BATCHES.items():
        with Service(snapshot_min_kb=NEVER_KB, ids_max="10000000") as service:
            print(f"{name:24}{_batched(service, size, ids)}", flush=True)


def _sent(service: Service, way: Way, seconds: float) -> str:
    service.create("dfop", rows.model({}))
    with _store(service) as store, Load() as generator:
        before, used = Totals.of(store), service.used()
        count = send(service, generator, way.of("dfop"), seconds, Found())
        return _weighed(store, before, _spent(service, used, count), count)


def _batched(service: Service, size: int, ids: bool) -> str:
    service.create("dfop", rows.model({}))
    client, (X, y) = Client(service.port), rows.draw(size, 1)
    table = {"columns": rows.NAMES, "data": X.tolist(), "labels": [rows.LABELS[k] for k in y]}
    with _store(service) as store:
        before, used = Totals.of(store), service.used()
        for number in range(BATCHED // size):
            named = {"ids": [f"{number:06d}-abcdef-{row:06d}" for row in range(size)]} if ids else {}
            client.ask("POST", "/models/dfop/feedback/batch", json.dumps({**table, **named}).encode())
        return _weighed(store, before, _spent(service, used, BATCHED), BATCHED)


def _spent(service: Service, before: Used, count: int) -> str:
    """CPU time of a row, of the service and of the store; answers to ids are stored first."""
    time.sleep(SETTLED_S)
    return "".join(f"{1e6 * (now - early) / count:12.1f}" for now, early in zip(service.used(), before, strict=True))


def _weighed(store: redis.Redis, before: Totals, spent: str, count: int) -> str:
    totals, kinds = Totals.of(store), held(store)
    log, ids = kinds["log"], kinds.get("seen", Held()).bytes + kinds.get("seen_due", Held()).bytes
    parts = (log.bytes, ids, *(after - early for early, after in zip(before, totals, strict=True)))
    return f"{count:12}{count / log.entries:12.1f}{spent}" + "".join(f"{part / count:12.0f}" for part in parts)


def tracked() -> None:
    """Print what a tracked prediction takes until its label comes."""
    with Service() as service, _store(service) as store:
        client = Client(service.port)
        service.create("dfop", rows.model({}))
        client.ask("POST", "/models/dfop/feedback", rows.single(1, 1)[0])
        for body in rows.asked(TRACKED, 1):
            client.ask("POST", "/models/dfop/predict", body[:-1] + b',"track":true}')
        kinds = held(store)
    taken = (kinds["pending"].bytes + kinds["pending_due"].bytes) / TRACKED
    print(f"\n{'a tracked prediction':24}{taken:12.0f} bytes, of ten columns and two classes")


def at_work(algorithm: str, settings: Mapping[str, str], seconds: float) -> None:
    """Print what a model takes that has learned for long: its snapshots, its log, the rest."""
    with Service(**settings) as service, _store(service) as store:
        for number in range(LEARNING):
            service.create(f"m{number}", {**rows.model({}), "algorithm": algorithm})
        arguments = [str(word) for word in (service.port, LEARNING, CONNECTIONS, seconds)]
        command = [sys.executable, "-m", "tests.benchmarks.scale_load", *arguments]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        kinds = held(store)
    taken = {name: kinds.get(name, Held()).bytes / LEARNING / 1024 for name in WEIGHED}
    every = ", ".join(f"{name} {value}" for name, value in settings.items()) or "the defaults"
    figures = json.loads(told.stdout)["acknowledged"] / LEARNING, kinds["log"].entries / LEARNING
    sizes = "".join(f"{size:10.1f}" for size in taken.values())
    print(f"{algorithm:12}{every:24}{figures[0]:8.0f}{figures[1]:10.0f}{sizes}", flush=True)


def at_work_head() -> None:
    """Print the head of these lines."""
    print(f"\n{'KiB of a model at work':36}{'rows':>8}{'entries':>10}" + "".join(f"{name:>10}" for name in WEIGHED))


def at_rest(algorithm: str, models: int) -> None:
    """Print what a model takes that was created, that has learned one row, and that was written at a stop."""
    created = json.dumps({**rows.model({}), "algorithm": algorithm}).encode()
    steps = {"created": ("PUT", "", created), "one row": ("POST", "/feedback", rows.single(1, 1)[0])}
    steps["a snapshot"] = ("POST", "/snapshots", None)
    with Service() as service, _store(service) as store:
        client, before, found = Client(service.port), store.info("memory")["used_memory"], []
        for method, path, body in steps.values():
            for number in range(models):
                client.ask(method, f"/models/m{number}{path}", body)
            found.append((store.info("memory")["used_memory"] - before) / models)
    print(f"{algorithm:12}" + "".join(f"{name:>16}{taken:8.0f}" for name, taken in zip(steps, found, strict=True)))


def _store(service: Service) -> redis.Redis:
    """The service's private store, whose file is not rewritten meanwhile: it would be smaller then."""
    found = redis.Redis(unix_socket_path=str(service.socket))
    found.config_set("auto-aof-rewrite-percentage", 0)
    return found
