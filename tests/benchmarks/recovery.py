"""A log of single rows becomes a model: what a restarted service waits for before it answers about it.

``measure`` loads a log of 50 000 entries of one row of d = 10 with ids from a store of its own, in a
process of its own: ``python -m tests.benchmarks.recovery MODEL ENTRIES`` prints seconds on the wall and of CPU as JSON.
"""

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from core.config import Config
from core.entry import Rows
from service.app import YOUNG_OBJECTS
from service.embedded import EmbeddedStore
from service.runtime.replicas.loader import Loader, Store
from service.runtime.stats import Stats
from service.store.log import codec
from service.store.log.appends import Append, SegmentIn
from service.store.redis.connection import Connection
from tests.benchmarks.harness.processes import ROOT

ENTRIES, D, CHUNK = 50_000, 10, 500
MODELS: dict[str, dict[str, Any]] = {"fixed rate": {"params": {"forgetting_rate": 0.01}}, "auto": {}}


def measure(model: str, entries: int) -> dict[str, float]:
    """The seconds of a load: ``wall``, and ``cpu`` of the service alone."""
    command = [sys.executable, "-m", "tests.benchmarks.recovery", model, str(entries)]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(json.loads(told.splitlines()[-1]))


async def load(model: str, entries: int) -> dict[str, float]:
    """Write the log, load it twice, tell of the second time."""
    config = {"algorithm": "dfop", "task": "regression", "features": [f"x{j}" for j in range(D)], **MODELS[model]}
    with tempfile.TemporaryDirectory(prefix="op-", dir="/tmp") as folder:
        server = EmbeddedStore(Path(folder), "everysec")
        store = Store(Connection(server.start(), 10.0))
        await store.catalog.create("m", "inc1", json.dumps(config).encode())
        await _write(store, config, entries)
        gc.set_threshold(YOUNG_OBJECTS)  # as the service does once it has started, which also freezes
        for _ in range(2):
            gc.collect()
            gc.freeze()
            used, begun = time.process_time(), time.perf_counter()
            replica = await Loader(store, Stats()).load("m")
            found = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - used}
            assert entries == replica.version
        await store.connection.close()
        server.stop()
    return found


async def _write(store: Any, config: dict[str, Any], entries: int) -> None:
    space, rng = Config.parse(config).space, np.random.default_rng(1)
    X = rng.normal(size=(entries, D)).round(4)
    y = X @ np.linspace(-1.0, 1.0, D) + rng.normal(size=entries) / 2

    def append(at: int) -> Append:
        ids = (f"i:{at:08x}-4a",)
        row = codec.encode(Rows(space.id, None, X[at : at + 1], y[at : at + 1], ids=ids))
        return Append(
            name="m", incarnation="inc1", version=at, uid=f"w.{at}" if at else "inc1", writer="w", sequence=at + 1,
            new_uid=f"w.{at + 1}", segments=(SegmentIn(row, ids, ("d",), 1),), id_ttl_ms=10**9, id_cap=10**7,
            max_bytes=100,
        )  # fmt: skip

    for first in range(0, entries, CHUNK):
        await store.log.append([append(at) for at in range(first, min(first + CHUNK, entries))])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(sys.argv[1], int(sys.argv[2])))))
