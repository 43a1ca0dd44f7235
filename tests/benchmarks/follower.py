"""A service that only reads a model that learns a million rows with ids elsewhere.

    python -m tests.benchmarks.follower [--rows N] [--checkout DIRECTORY]

Two services share a store. One learns batches of 2000 rows, each row with an id; the other is asked for the model once
in the beginning and follows the log from then on. Every tenth of the way: its resident memory, what it counts against
its memory budget, the same of the one that learns, and the store's memory. In the end the reader is asked for a
snapshot, which has to record the answers to all ids that no snapshot covers.

Exits with 1 where the reader's memory grows, or its snapshot is not written.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.benchmarks import heavy
from tests.benchmarks.heavy import MIB, Ask, ask
from tests.benchmarks.processes import ROOT, Service

BATCH = 2_000
FOLLOW_S_MAX = 60.0
GROWTH_MIB_MAX = 32.0
"""The most that the reader's resident memory may grow in the second half."""


class Taken(NamedTuple):
    """MiB."""

    reader_rss: float
    reader_counted: float
    learner_rss: float
    learner_counted: float
    store: float


def take(learner: Service, reader: Service) -> Taken:
    """Ask both services and their store."""
    with redis.Redis(unix_socket_path=str(learner.socket)) as store:
        used = store.info("memory")["used_memory"]
    own = [(each.system.memory_info().rss, each.counter("onepass_models_bytes")) for each in (reader, learner)]
    return Taken(*(size / MIB for pair in own for size in pair), used / MIB)


def follow(reader: Service, rows: int) -> None:
    """Wait until the reader has applied so many rows.

    Raises:
        RuntimeError: it does not.
    """
    until = time.monotonic() + FOLLOW_S_MAX
    while reader.rows("hot") < rows:
        if time.monotonic() > until:
            raise RuntimeError(f"the reader has {reader.rows('hot')} of {rows} rows")
        time.sleep(0.05)


def learn(learner: Service, reader: Service, rows: int) -> list[Taken]:
    """Teach the rows; memory at every tenth of them."""
    print(f"{'rows':>10}" + "".join(f"{name.replace('_', ' '):>17}" for name in Taken._fields) + "  MiB")
    found, batches = [], rows // BATCH
    for number in range(batches):
        body = heavy.with_ids(BATCH, BATCH * number, 2)
        status, answer = ask(learner.port, Ask("POST", "/models/hot/feedback/batch", body))
        if status != "200":
            raise RuntimeError(f"batch {number}: {status} {answer[:500]!r}")
        if (number + 1) % max(1, batches // 10) == 0:
            follow(reader, BATCH * (number + 1))
            found.append(take(learner, reader))
            print(f"{BATCH * (number + 1):10}" + "".join(f"{each:17.1f}" for each in found[-1]), flush=True)
    return found


def main() -> int:
    """Print the table; 1 where the reader grows or cannot write a snapshot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose code to measure (this one)")
    given: Any = parser.parse_args()
    checkout = given.checkout.resolve()
    with (
        Service(checkout, ids_max=str(2 * given.rows)) as learner,
        Service(checkout, redis_url=f"unix://{learner.socket}", ids_max=str(2 * given.rows)) as reader,
    ):
        learner.create("hot", heavy.model(heavy.COLUMNS[:2]))
        follow(reader, 0)
        found = learn(learner, reader, given.rows)
        begun = time.monotonic()
        status, _ = ask(reader.port, Ask("POST", "/models/hot/snapshots"))
        print(f"snapshot by the reader: {status} in {time.monotonic() - begun:.2f} s")
        if status == "201":
            print(f"{'after it':>10}" + "".join(f"{each:17.1f}" for each in take(learner, reader)))
    grown = found[-1].reader_rss - found[len(found) // 2].reader_rss
    missed = [f"the reader grows by {grown:.0f} MiB in the second half"] if grown > GROWTH_MIB_MAX else []
    missed += [f"the reader's snapshot was answered {status}"] if status != "201" else []
    for miss in missed:
        print(f"MISSED  {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
