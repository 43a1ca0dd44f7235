"""The figures of deploy/sizing.md: ``python -m tests.benchmarks.sizing [--parts cpu,core,...] [--quick]``.

    cpu      CPU time of a row over HTTP, of service and store: by algorithm, and by how rows are sent
    core     CPU time of a row of 10, 30 and 100 columns, and the size of the model: by algorithm
    models   memory of a loaded model, and what loading one costs: by algorithm
    store    what a row, an id, a tracked prediction and a model at rest take of the store, its file and the network
    work     what a model takes of the store that has learned for long: snapshots, log, ids

CPU time and bytes depend little on what else the machine does; the whole takes a quarter of an hour on two cores. Write
down the machine with the figures: its cores are what they are of.
"""

import argparse
import os
import platform
import time

from tests.benchmarks.sizing import cpu, models, store

PARTS = ("cpu", "core", "models", "store", "work")
AT_WORK = (
    ("dfop", {}, 25.0),
    ("dfop", {"snapshots_kept": "2"}, 25.0),
    ("dfop", {"snapshots_kept": "1"}, 25.0),
    ("auto", {}, 75.0),
)
"""Algorithms, settings, and seconds after which every model has written more snapshots than it keeps."""


def of_the_store(seconds: float, quick: bool) -> None:
    """The part ``store``."""
    store.each_way(seconds)
    store.tracked()
    print("\nbytes of a model at rest")
    for algorithm in cpu.FULL:
        store.at_rest(algorithm, 50 if quick else 500)


def at_work(quick: bool) -> None:
    """The part ``work``."""
    store.at_work_head()
    for algorithm, settings, seconds in AT_WORK:
        store.at_work(algorithm, settings, 2.0 if quick else seconds)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--algorithms", type=lambda text: text.split(","), default=list(cpu.DENSE))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each cell in each round")
    parser.add_argument("--models", type=int, default=100, help="of each algorithm, in the part models")
    parser.add_argument("--quick", action="store_true", help="one short round of everything, to see that it runs")
    given = parser.parse_args()
    if unknown := {*given.parts} - {*PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    rounds, seconds = (1, 0.2) if given.quick else (given.rounds, given.seconds)
    begun = time.monotonic()
    print(f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, load {os.getloadavg()[0]:.1f} before")
    if "cpu" in given.parts:
        cpu.over_http(given.algorithms, rounds, seconds)
    if "core" in given.parts:
        cpu.in_core(given.algorithms, rounds)
        cpu.drifted()
    if "models" in given.parts:
        models.in_service(given.algorithms, 10 if given.quick else given.models)
    if "store" in given.parts:
        of_the_store(seconds, given.quick)
    if "work" in given.parts:
        at_work(given.quick)
    print(f"\n{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
