"""The main figures of one run: ``python -m tests.benchmarks.bench [--parts core,http,recovery,start] [--rounds N]``.

    core       one row in the state machine, by algorithm
    http       single rows beside echoes, many models, batches, streams
    recovery   a log of 50 000 single rows becomes a model
    start      a start of what is installed, and its memory

Each part measures what it compares in turns, and prints medians over the rounds with the ratios' range. The whole
takes about five minutes with the three rounds of the short form; the other benchmarks (``make help``) take longer and
say more. Written are tests/benchmarks/out/bench.json, with the figures of every round, and bench.svg. A figure below
its target is marked; the exit status is 1 only where an acknowledged row was lost.
"""

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.bench import chart, offline, over_http
from tests.benchmarks.bench.table import Table

OUT = Path(__file__).resolve().parents[1] / "out"
PARTS = ("core", "http", "recovery", "start")


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": psutil.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def say(what: str) -> None:
    """Progress."""
    print(f"  ... {what}", file=sys.stderr, flush=True)


def run(parts: list[str], rounds: int, seconds: int) -> tuple[list[Table], list[str]]:
    """The tables, each printed when it is there; and what was lost."""
    tables: list[Table] = []
    lost: list[str] = []
    for part in parts:
        if part == "http":
            found, lost = over_http.measure(rounds, seconds, say)
        else:
            found = {"core": offline.core, "recovery": offline.replay, "start": offline.start}[part](rounds, say)
        for table in found:
            table.show()
        tables += found
    return tables, lost


def main() -> int:
    """Print the tables, write JSON and chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1, help="that each cell is measured in a round")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    ground, begun = machine(), time.monotonic()
    tables, lost = run(given.parts, given.rounds, given.seconds)
    ground["seconds"] = round(time.monotonic() - begun)
    given.out.mkdir(parents=True, exist_ok=True)
    whole = {"machine": ground, "tables": [table.to_json() for table in tables], "lost": lost}
    (given.out / "bench.json").write_text(json.dumps(whole, indent=1) + "\n")
    caption = "{at}: {cores} cores, Python {python}, load {load_before} before, taken in {seconds} s".format(**ground)
    (given.out / "bench.svg").write_text(chart.svg(tables, caption))
    print(f"\n{caption}\n{given.out / 'bench.json'}\n{given.out / 'bench.svg'}")
    for each in lost:
        print(f"LOST  {each}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
