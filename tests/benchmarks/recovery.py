"""How fast a log of single rows becomes a model: ``python -m tests.benchmarks.recovery [--before CHECKOUT]``.

Two figures for a log of 50 000 entries of one row of d = 10, without ids and with one per row.

    replies   from the store's replies, as Python objects, to the state, with the answers to all ids: reading entries,
              decoding, learning, encoding answers. CPU time; nothing of the store's own, nor of its protocol
    recovery  ``Loader.load`` of the same log from a Redis server on a Unix socket: what a restarted service waits for
              before it answers about the model. Wall time, and behind it the CPU time of service and server together

With ``--before`` another checkout, which needs a .venv of its own, is measured in turns with this one, and the digests
of states and answers are compared. Medians over the rounds.
"""

import argparse
import asyncio
import gc
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil

from core.model import save

ENTRIES, ROUNDS, D = 50_000, 5, 10
NAMES = [f"sensor_{column:02d}" for column in range(D)]
ROOT = Path(__file__).resolve().parents[2]
INCARNATION = "inc1"
TIME_MS = 1_700_000_000_000
READ_BYTES_MAX = 4 * 2**20
MODELS = {
    "dfop, fixed rate": {"algorithm": "dfop", "task": "regression", "params": {"forgetting_rate": 0.01}},
    "dfop auto": {"algorithm": "dfop", "task": "regression"},
    "dfop auto, classes": {"algorithm": "dfop", "task": "classification"},
    "dynamic_odm": {"algorithm": "dynamic_odm", "task": "classification"},
    "vigo": {"algorithm": "vigo", "task": "classification"},
}
STORED = "dfop, fixed rate"
"""The model that is also recovered from a server."""


# ---------------------------------------------------------------- in the process of a checkout


def segments(name: str, ids: bool, entries: int) -> "list[tuple[bytes, tuple[str, ...]]]":
    """The rows of a log, encoded, with their ids."""
    from core.config import Config
    from core.entry import Rows
    from service.store.log import codec

    model = MODELS[name]
    space = Config.parse({**model, "features": NAMES}).space
    rng = np.random.default_rng(1)
    X = rng.normal(size=(entries, D)).round(4)
    score = X @ np.linspace(-1.0, 1.0, D) + rng.normal(size=entries) / 2
    found = []
    for row in range(entries):
        y: Any = score[row : row + 1] if model["task"] == "regression" else ["UP" if score[row] > 0 else "DOWN"]
        given = (f"i:{row:08x}-4a",) if ids else ()
        found.append((codec.encode(Rows(space.id, None, X[row : row + 1], y, ids=given)), given))
    return found


class Replies:
    """A connection that has the replies at hand."""

    def __init__(self, blobs: "list[tuple[bytes, tuple[str, ...]]]") -> None:
        from core.state.envelope import FORMAT

        state = str(FORMAT).encode()
        self._head = len(blobs)
        self._items = [
            [
                f"{at}-0".encode(),
                [b"u", uid(at), b"p", uid(at - 1), b"t", b"%d" % (TIME_MS + at), b"n", b"1", b"s", state, b"0", blob],
            ]
            for at, (blob, _) in enumerate(blobs, 1)
        ]

    async def run(self, calls: Any, **_: Any) -> list[Any]:
        """The reply to the only call."""
        ((_, _, (_, version, _, _, most)),) = calls
        found = self._items[version : version + most]
        return [[b"ok", self._head, uid(self._head), int(version + len(found) == self._head), found, 0]]


def uid(version: int) -> bytes:
    """The uid of an entry."""
    return f"writer.{version}".encode() if version else INCARNATION.encode()


async def from_replies(name: str, ids: bool, entries: int, rounds: int) -> dict[str, Any]:
    """CPU seconds of every round; digests of state and answers."""
    from service.runtime.replicas.loader import Loader
    from service.runtime.stats import Stats
    from service.store.catalog import ModelMeta
    from service.store.log.log import Log

    config = json.dumps({**MODELS[name], "features": NAMES}).encode()
    meta = ModelMeta("m", INCARNATION, config, entries, uid(entries).decode(), 0, 0, 0)

    async def read(_: str) -> ModelMeta:
        return meta

    async def listed(*_: Any) -> list[Any]:
        return []

    log: Any = Log(Replies(segments(name, ids, entries)))
    store: Any = SimpleNamespace(
        log=log, catalog=SimpleNamespace(read=read), snapshots=SimpleNamespace(list=listed), states=None
    )
    gc.collect()
    gc.freeze()  # as the service does once it has started: the replies at hand are no part of what is measured
    seconds = []
    for _ in range(rounds):
        begun = time.process_time()
        replica = await Loader(store, Stats(), READ_BYTES_MAX).load("m")
        seconds.append(time.process_time() - begun)
    answers = sorted((identity, *found) for identity, found in replica.answers._held.items())
    found = (save.to_bytes(replica.model), repr(answers).encode())
    return {"seconds": seconds, "digests": [hashlib.blake2b(one, digest_size=8).hexdigest() for one in found]}


async def from_store(name: str, ids: bool, entries: int, rounds: int) -> dict[str, Any]:
    """Wall seconds of every load from a server, and the CPU seconds of both."""
    from service.app import store as open_store
    from service.runtime.replicas.loader import Loader
    from service.runtime.stats import Stats
    from service.store.log.log import Append, SegmentIn

    blobs = segments(name, ids, entries)
    with server() as (url, process):
        store = open_store(url, 10.0)
        await store.catalog.create("m", INCARNATION, json.dumps({**MODELS[name], "features": NAMES}).encode())
        for first in range(0, entries, 500):
            appends = []
            for at in range(first, min(first + 500, entries)):
                blob, given = blobs[at]
                sent = SegmentIn(blob, given, ("d",) * len(given), 1)
                appends.append(
                    Append(
                        name="m", incarnation=INCARNATION, version=at, uid=uid(at).decode(), writer="writer",
                        sequence=at + 1, new_uid=uid(at + 1).decode(), segments=(sent,), id_ttl_ms=10**9, id_cap=10**7,
                        max_bytes=100,
                    )
                )  # fmt: skip
            made, _ = await store.log.exchange(appends)
            assert [each.made for each in made] == [*range(first + 1, first + len(made) + 1)]
        seconds, cpu = [], []
        for _ in range(rounds):
            gc.collect()
            used, begun = _used_s(process), time.perf_counter()
            replica = await Loader(store, Stats(), READ_BYTES_MAX).load("m")
            seconds.append(time.perf_counter() - begun)
            cpu.append(_used_s(process) - used)
        await store.connection.close()
    return {"seconds": seconds, "cpu": cpu, "digests": [str(replica.version)]}


def _used_s(process: psutil.Process) -> float:
    """CPU seconds of this process and a server."""
    times = process.cpu_times()
    return time.process_time() + times.user + times.system


@contextmanager
def server() -> "Iterator[tuple[str, psutil.Process]]":
    """A Redis server of its own: its URL and process."""
    folder = tempfile.mkdtemp(prefix="op-", dir="/tmp")
    socket = Path(folder) / "s"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", folder, "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            time.sleep(0.02)
        yield f"unix://{socket}", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- both checkouts, in turns


class Side:
    """One checkout.

    Args:
        checkout: where its code is.
    """

    def __init__(self, checkout: Path) -> None:
        self._checkout = checkout

    def measure(self, kind: str, name: str, ids: bool, entries: int) -> dict[str, Any]:
        """One process: what ``from_replies`` or ``from_store`` gives."""
        python = sys.executable if self._checkout == ROOT else str(self._checkout / ".venv" / "bin" / "python")
        # -P: the folder of this file has modules that are named as packages of the checkout are
        command = [python, "-P", __file__, "--worker", kind, name, str(int(ids)), str(entries)]
        given = {**os.environ, "PYTHONPATH": str(self._checkout)}
        done = subprocess.run(command, cwd=self._checkout, env=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def compare(sides: list[Side], kind: str, name: str, ids: bool, given: Any) -> None:
    """One line."""
    seconds: list[list[float]] = [[] for _ in sides]
    cpu: list[list[float]] = [[] for _ in sides]
    digests: list[Any] = []
    for turn in range(given.rounds):
        for at in (0, 1)[: len(sides)] if turn % 2 == 0 else (1, 0)[-len(sides) :]:
            found = sides[at % len(sides)].measure(kind, name, ids, given.entries)
            seconds[at % len(sides)].append(min(found["seconds"]))
            cpu[at % len(sides)].append(min(found.get("cpu", [0.0])))
            digests.append(found["digests"])
    taken = [median(each) for each in seconds]
    rates = "".join(f"{given.entries / each:14,.0f}" for each in taken)
    each_us = "".join(f"{each / given.entries * 1e6:11.2f}" for each in taken)
    ratio = f"{taken[0] / taken[1]:8.1f}x" if len(taken) == 2 else ""
    same = "" if all(one == digests[0] for one in digests) else "  DIFFERENT"
    label = f"{name}{', ids' if ids else ''}"
    used = "  CPU " + ", ".join(f"{median(each):.2f} s" for each in cpu) if kind == "recovery" else ""
    print(f"{kind:9} {label:26}{rates}{each_us}{taken[-1]:8.2f} s{ratio}{used}{same}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given: Any = parser.parse_args()
    sides = [*([Side(given.before.resolve())] if given.before else []), Side(ROOT)]
    shown = ("before", "after") if len(sides) == 2 else ("",)
    heads = "".join(f"{f'{each} rows/s':>14}" for each in shown) + "".join(f"{f'{each} us':>11}" for each in shown)
    print(f"{'':36}{heads}")
    for name in MODELS:
        for ids in (False, True):
            compare(sides, "replies", name, ids, given)
    for ids in (False, True):
        compare(sides, "recovery", STORED, ids, given)


def worker(kind: str, name: str, ids: str, entries: str) -> None:
    """Measure the code of the checkout that this process imports."""
    measure = from_replies if kind == "replies" else from_store
    print(json.dumps(asyncio.run(measure(name, ids == "1", int(entries), 2))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        main()
