"""A million feedback rows on one model: ``python -m tests.benchmarks.million [--rows N]``.

Batches of 1000 rows in .npy. Every tenth of the way: memory of the service and of its store, entries on the log,
snapshots kept. In the end the service is killed -9 and started again: how long until the model answers, and with what.
"""

import argparse
import http.client
import json
import sys
import time
from collections.abc import Mapping
from itertools import cycle

import redis

from tests.benchmarks import rows
from tests.benchmarks.processes import Service

GROWTH_MAX = {"service MiB": 1.1, "store MiB": 1.5, "log entries": 1.5}
"""The most of the second half over the most of the first; the store's go up and down between snapshots."""
RECOVERY_S_MAX = 2.0
MIB = 2**20


def _look(service: Service) -> Mapping[str, float]:
    with redis.Redis(unix_socket_path=str(service.socket)) as store:
        used = store.info("memory")["used_memory"]
        (log,) = store.keys("onepass:{hot}:*:log")
        entries = store.xlen(log)
    kept = json.loads(service.call("GET", "/models/hot/snapshots")[1])["snapshots"]
    rss = service.system.memory_info().rss
    return {"service MiB": rss / MIB, "store MiB": used / MIB, "log entries": entries, "snapshots": len(kept)}


def _send(service: Service, body: bytes) -> None:

    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
    connection.request("POST", "/models/hot/feedback/batch", body, {"Content-Type": "application/x-npy"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status} {answer.read()!r}")
    answer.read()
    connection.close()


def main() -> int:
    """Print the table; 1 where something grows or recovery is slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    batches = parser.parse_args().rows // rows.BATCH_ROWS
    bodies = cycle(rows.npy(16, 3))
    found: list[Mapping[str, float]] = []
    missed = []
    with Service() as service:
        service.create("hot", rows.model({}, (0, 1)))
        begun = time.monotonic()
        for number in range(1, batches + 1):
            _send(service, next(bodies))
            if number % max(1, batches // 10) == 0:
                found.append(_look(service))
                if len(found) == 1:
                    print(f"{'rows':>10}" + "".join(f"{name:>14}" for name in found[0]))
                print(f"{number * rows.BATCH_ROWS:10}" + "".join(f"{v:14.1f}" for v in found[-1].values()), flush=True)
        print(f"{batches * rows.BATCH_ROWS / (time.monotonic() - begun):.0f} rows/s")
        service.kill()
        time.sleep(1.0)
        started = service.start()
        begun = time.monotonic()
        learned = service.rows("hot")
        seconds = time.monotonic() - begun
        print(f"killed -9; started in {started:.2f} s, the model in {seconds:.2f} s with {learned} rows")
        for name, growth in GROWTH_MAX.items():
            late = max(each[name] for each in found[len(found) // 2 :])
            early = max(each[name] for each in found[: len(found) // 2])
            if late > growth * early:
                missed.append(f"{name} grows: {early:.1f} in the first half, {late:.1f} in the second")
        if learned != batches * rows.BATCH_ROWS:
            missed.append(f"{learned} rows learned")
        if seconds > RECOVERY_S_MAX:
            missed.append(f"recovery took {seconds:.2f} s, target {RECOVERY_S_MAX:g}")
    for miss in missed:
        print(f"MISSED  {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
