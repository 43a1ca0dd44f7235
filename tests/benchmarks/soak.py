"""A day of many models, compressed in time: ``python -m tests.benchmarks.soak [--hours H] [--seconds S] [--models N]``.

N models (20) of many algorithms learn a row a second, each with an id, for H hours (24) within S seconds (300): a batch
of 60 rows for each model and minute. Every minute a prediction of each is tracked, of which half get their label in the
next one; the others expire. Every three hours rows and labels drift. Every hour one model is deleted and created
again, and another restored from its snapshot. Snapshots and trimming are as the defaults say. Ids and predictions live
for a quarter of the compressed day (--id-hours), so that there is time to see whether they stop growing, and a model
keeps 5 drift events, all of them 50, so that these bounds are reached.

Each hour: what the store takes, and of that each kind of key; its file; the service's memory. Fails (status 1) where
something is larger in the last third than in the middle one, or where a row is not learned. In the end the append-only
file is rewritten, and the service stopped and started.
"""

import argparse
import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import redis

from tests.benchmarks import rows
from tests.benchmarks.key_kinds import Held, held
from tests.benchmarks.processes import Service

MIB = 2**20
KINDS = [
    *[(own, "classification") for own in ("auto", "dfop", "rls", "gdfop", "dynamic_odm", "odm", "vigo", "vigod")],
    *[(own, "classification") for own in ("vigow", "ga2m", "fesl_c", "fesl_s")],
    *[(own, "regression") for own in ("auto", "dfop", "rls", "gdfop", "fesl_c", "fesl_s")],
]
"""Algorithms and tasks that models have in turn."""
BATCH, BODIES = 60, 16
WORKERS = 4
DRIFT_EVERY = 180
"""Minutes between two drifts."""
GROWTH_MAX, SLACK_MIB = 1.1, 1.0
"""What the last third may be of the middle one, and how much more."""
HEADS = ("log", "chunks", "seen", "seen_due", "pending", "meta", "drift", "alarms")


class Day(NamedTuple):
    """What is sent.

    Attributes:
        models: how many learn.
        minutes: of the day.
        seconds: that it is compressed to.
    """

    models: int
    minutes: int
    seconds: float

    @property
    def begins(self) -> Iterator[float]:
        """The second in which each minute begins."""
        return (minute * self.seconds / self.minutes for minute in range(self.minutes))


class Sample(NamedTuple):
    """What there is at one moment; MiB."""

    minute: int
    store: float
    resident: float
    file: float
    service: float
    kinds: Mapping[str, Held]

    @property
    def sizes(self) -> dict[str, float]:
        """All that must not grow."""
        kinds = {name: own.bytes / MIB for name, own in self.kinds.items()}
        return {"used_memory": self.store, "the service": self.service, **kinds}

    def __str__(self) -> str:
        others = sum(own.bytes for name, own in self.kinds.items() if name not in HEADS)
        shown = [*(self.kinds.get(name, Held()).bytes for name in HEADS), others]
        entries = self.kinds.get("log", Held()).entries
        first = f"{self.minute / 60:6.1f}{self.store:8.1f}{self.resident:8.1f}{self.file:8.1f}{self.service:9.0f}"
        return first + f"{entries:9d}" + "".join(f"{size / MIB:9.2f}" for size in shown)


@cache
def tables(task: str, drifted: bool) -> list[bytes]:
    """Batches of a minute, without their last brace; drifted ones lie elsewhere and follow the opposite rule."""
    rng = np.random.default_rng(3 + drifted)
    made = []
    for _ in range(BODIES):
        X = (rng.normal(size=(BATCH, rows.DIMENSION)) + 1.5 * drifted).round(4)
        score = X @ np.linspace(-1.0, 1.0, rows.DIMENSION) * (-1 if drifted else 1)
        labels = score.round(3).tolist() if task == "regression" else [rows.LABELS[int(one > 0)] for one in score]
        made.append(json.dumps({"columns": rows.NAMES, "data": X.tolist(), "labels": labels}).encode()[:-1])
    return made


class Sender(threading.Thread):
    """Sends the day of some models over one connection.

    Args:
        day: how long and how fast.
        port: of the service.
        models: numbers of the models.
    """

    def __init__(self, day: Day, port: int, models: Sequence[int]) -> None:
        super().__init__()
        self._day, self._models = day, models
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._waiting: dict[int, str] = {}
        self.learned = dict.fromkeys(models, 0)
        self.minute = 0

    def run(self) -> None:
        """Send, each minute not before its time."""
        begun = time.monotonic()
        for minute, due in enumerate(self._day.begins):
            time.sleep(max(0.0, begun + due - time.monotonic()))
            for model in self._models:
                self._learn(model, minute)
            self.minute = minute + 1

    def ask(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            RuntimeError: it was refused.
        """
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        told = answer.read()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {told[:500]!r}")
        return dict(json.loads(told))

    def _learn(self, model: int, minute: int) -> None:
        """A minute's rows, the label of the prediction of the minute before, and another prediction."""
        task, path = KINDS[model % len(KINDS)][1], f"/models/m{model}"
        table = tables(task, minute // DRIFT_EVERY % 2 == 1)[(minute + model) % BODIES]
        ids = json.dumps([f"{minute}-{row}" for row in range(BATCH)]).encode()
        self.ask("POST", f"{path}/feedback/batch", b'%b,"ids":%b}' % (table, ids))
        self.learned[model] += BATCH
        waiting = self._waiting.pop(model, None)
        if waiting is not None and minute % 2:
            label = 1.0 if task == "regression" else rows.LABELS[0]
            self.ask("POST", f"{path}/feedback", json.dumps({"prediction_id": waiting, "label": label}).encode())
            self.learned[model] += 1
        features = dict(zip(rows.NAMES, (0.1 * minute % 1 for _ in rows.NAMES), strict=True))
        told = self.ask("POST", f"{path}/predict", json.dumps({"features": features, "track": True}).encode())
        self._waiting[model] = told["prediction_id"]


def create(service: Service, models: int) -> None:
    """The models of the day, the first with a challenger, and the two that are deleted and restored."""
    space = {"features": list(rows.NAMES), "on_drift": "report"}
    for number in range(models):
        algorithm, task = KINDS[number % len(KINDS)]
        labels = {"labels": list(rows.LABELS)} if task == "classification" else {}
        service.create(f"m{number}", {"algorithm": algorithm, "task": task, **space, **labels})
    service.create("m0/challengers/beside", {"algorithm": "rls"})
    for name in ("deleted", "restored"):
        service.create(name, rows.model({}))


def each_hour(sender: Sender) -> None:
    """Delete a model and create it again; restore another one from its snapshot."""
    row = rows.single(1, 1)[0]
    for name in ("deleted", "restored"):
        sender.ask("POST", f"/models/{name}/feedback", row)
    taken = sender.ask("POST", "/models/restored/snapshots")
    sender.ask("POST", "/models/restored/restore", json.dumps({"version": taken["version"]}).encode())


def sample(service: Service, store: redis.Redis, minute: int) -> Sample:
    """Look at everything."""
    memory: Any = store.info("memory")
    resident = service.system.memory_info().rss / MIB
    used = memory["used_memory"] / MIB, memory["used_memory_rss"] / MIB
    return Sample(minute, *used, file_mib(service.directory), resident, held(store))


def file_mib(directory: Path) -> float:
    """What the append-only file takes on the disk, all its parts."""
    return sum(part.stat().st_size for part in directory.glob("appendonly*/*") if part.exists()) / MIB


def watch(service: Service, store: redis.Redis, senders: Sequence[Sender], day: Day) -> list[Sample]:
    """The samples of every hour, until all is sent."""
    names = ("hour", "store", "rss", "file", "service", "entries")
    print(f"{'MiB':6}{names[1]:>8}{names[2]:>8}{names[3]:>8}{names[4]:>9}{names[5]:>9}", end="")
    print("".join(f"{name:>9}" for name in (*HEADS, "others")), flush=True)
    found: list[Sample] = []
    while any(one.is_alive() for one in senders) or not found or found[-1].minute < day.minutes:
        minute = min(one.minute for one in senders)
        if minute >= 60 * (len(found) + 1) or minute == day.minutes:
            service.call("DELETE", "/models/deleted")
            service.create("deleted", rows.model({}))
            each_hour(Sender(day, service.port, ()))  # an idle connection would be closed within the hour
            found.append(sample(service, store, minute))
            print(found[-1], flush=True)
        elif not any(one.is_alive() for one in senders):
            raise RuntimeError("a sender has ended before the day")
        time.sleep(0.05)
    return found


def grown(found: Sequence[Sample]) -> list[str]:
    """What is larger in the last third than in the middle one."""
    third, missed = len(found) // 3, []
    for what in found[-1].sizes:
        middle, late = (max(one.sizes.get(what, 0.0) for one in part) for part in (found[third:-third], found[-third:]))
        if late > GROWTH_MAX * middle + SLACK_MIB:
            missed.append(f"{what} grows: {middle:.1f} MiB in the middle, {late:.1f} in the end")
    return missed


def rewrite(service: Service, store: redis.Redis) -> None:
    """Rewrite the append-only file, and say what it took before and takes then."""
    before, begun = file_mib(service.directory), time.monotonic()
    store.bgrewriteaof()
    while any(store.info("persistence")[f"aof_rewrite_{what}"] for what in ("in_progress", "scheduled")):
        time.sleep(0.05)
    seconds, after, memory = time.monotonic() - begun, file_mib(service.directory), store.info("memory")
    print(f"append-only file {before:.1f} MiB, rewritten in {seconds:.1f} s to {after:.1f} MiB")
    used, peak = (memory[name] / MIB for name in ("used_memory", "used_memory_peak"))
    print(f"used_memory {used:.1f} MiB, {peak:.1f} at most; resident / used {memory['mem_fragmentation_ratio']}")


def loaded(directory: Path) -> str:
    """What a store says of how long it took to read its file."""
    said = re.findall(r"DB loaded from append only file: [\d.]+ seconds", (directory / "store.log").read_text())
    return said[-1] if said else "nothing is said of its file"


def entries(found: Mapping[str, Held]) -> None:
    """What a key of each kind holds in the end."""
    print(f"{'in the end':32}{'keys':>8}{'entries':>10}{'most':>8}{'KiB':>10}{'bytes an entry':>16}")
    for name, own in sorted(found.items(), key=lambda item: -item[1].bytes):
        each = own.bytes / own.entries if own.entries else 0.0
        print(f"{name:32}{own.keys:8}{own.entries:10}{own.most:8}{own.bytes / 1024:10.1f}{each:16.0f}")


def wrong(service: Service, senders: Sequence[Sender]) -> list[str]:
    """Models that have not learned what was acknowledged."""
    expected = {f"m{model}": count for one in senders for model, count in one.learned.items()}
    with ThreadPoolExecutor(WORKERS) as pool:
        told = dict(zip(expected, pool.map(service.rows, expected), strict=True))
    return [f"{name}: {told[name]} rows learned of {count}" for name, count in expected.items() if told[name] != count]


def soak(day: Day, id_hours: float) -> list[str]:
    """The day, and what is missed."""
    life_s = max(1.0, id_hours * 60 * day.seconds / day.minutes)
    settings = {"id_ttl_s": str(round(life_s)), "prediction_ttl_s": str(round(life_s))}
    with Service(**settings, drift_events_max="5", drift_events_all_max="50") as service:
        create(service, day.models)
        with redis.Redis(unix_socket_path=str(service.socket)) as store:
            senders = [Sender(day, service.port, range(at, day.models, WORKERS)) for at in range(WORKERS)]
            before, begun = service.used(), time.monotonic()
            for one in senders:
                one.start()
            found = watch(service, store, senders, day)
            seconds, used = time.monotonic() - begun, service.used()
            learned = sum(count for one in senders for count in one.learned.values())
            each = [1e6 * (late - early) / learned for late, early in zip(used, before, strict=True)]
            print(f"{learned} rows in {seconds:.0f} s; CPU us a row: service {each[0]:.1f}, store {each[1]:.1f}")
            entries(found[-1].kinds)
            rewrite(service, store)
        missed = grown(found) + wrong(service, senders)
        print(f"stopped in {service.stop():.1f} s, started in {service.start():.1f} s, {loaded(service.directory)}")
        return missed + wrong(service, senders)


def main() -> int:
    """Print the table; 1 where something grows or is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--hours", type=int, default=24, help="of rows, one a second and model")
    parser.add_argument("--seconds", type=float, default=300.0, help="that they are compressed to, if the machine can")
    parser.add_argument(
        "--id-hours", type=float, help="of these, how long ids and predictions live; default: a quarter"
    )
    given = parser.parse_args()
    missed = soak(Day(given.models, 60 * given.hours, given.seconds), given.id_hours or given.hours / 4)
    for miss in missed:
        print(f"MISSED  {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
