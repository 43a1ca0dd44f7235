"""Onepass beside other programs: ``python -m tests.benchmarks.peers [--only NAME,...]``.

Each peer is installed into an environment of its own below tests/benchmarks/out/peers, when it is first asked for (some
1 GB and two minutes for all); one that cannot be had here is reported and left out. Rows are the same: ten numbers,
two labels. In process, every row is predicted, then learned; the learners are not the same, and no accuracy is
compared. Over HTTP, both are asked by the same load, in turns. Below each peer stands what it does not promise.
It takes two minutes, once all is installed. Written is tests/benchmarks/out/peers.json.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks import one_row
from tests.benchmarks.harness import rows
from tests.benchmarks.harness.environments import CAPYMOA, RIVER, Environment, Unavailable, answer_of
from tests.benchmarks.harness.load import Asked, Generator
from tests.benchmarks.harness.processes import OUT, Process, Service
from tests.benchmarks.harness.report import Report, Row, Table, at, say

WORKERS = Path(__file__).resolve().parent / "workers"
WORKER_S_MAX = 120.0
PROMISES = {
    "river": "durability, rows learned once, drift tests without being wired, one state on many machines",
    "capymoa": "durability, rows learned once, drift tests without being wired, a change of features",
    "vowpalwabbit": "durability before it is told to save, rows learned once, drift tests; names are hashed",
    "river-http": "durability (a restart loses all), rows learned once on a retry, drift tests, several processes",
}
CORE = ("dfop fixed, classes", "dfop auto, classes")
CONNECTIONS, ROWS = (1, 64), 5000


IN_PROCESS = {"river": RIVER, "capymoa": CAPYMOA, "vowpalwabbit": Environment("vowpalwabbit")}


def in_process(names: list[str], rounds: int) -> Table:
    """Rows a second that are predicted and learned one by one, without a network; each peer in turns with Onepass."""
    note = "one row predicted, then learned; rows per second of CPU time; ratios are the peer's to ours beside it"
    table = Table("Peers in process", note)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text("[" + ",".join(body.decode() for body in rows.single(ROWS, 1)) + "]")
        for case in CORE:
            alone, block, _ = zip(*one_row.measured(case, rounds), strict=True)
            table.rows.append(Row(f"Onepass, {case}", [1e6 / each for each in alone], "rows/s"))
            table.rows.append(Row(f"Onepass, {case}, blocks", [1e6 / each for each in block], "rows/s"))
        for name in names:
            _measured(table, name, lambda own: _learned(own, path, rounds))
    return table


def _measured(table: Table, name: str, measure: Callable[[str], Iterator[Row]]) -> None:
    """Add what a peer does, and what it does not promise; or that it is not to be had."""
    try:
        table.rows += measure(name)
        table.remarks.append(f"{name} does not promise: {PROMISES[name]}")
        say(f"{name}: done")
    except (Unavailable, RuntimeError) as error:
        table.remarks.append(f"NOT MEASURED  {name}: {error}")


def _learned(name: str, path: Path, rounds: int) -> Iterator[Row]:
    environment, found, beside = IN_PROCESS[name], [], []
    version = environment.ready()
    for _ in range(rounds):
        command = [str(environment.python), str(WORKERS / "rows.py"), name, str(path), "1"]
        found.append(json.loads(answer_of(command, WORKER_S_MAX).splitlines()[-1]))
        beside.append(1e6 / one_row.measured(CORE[0], 1)[0][0])
    for learner in found[0]:
        values = [each[learner] for each in found]
        ratios = [value / own for value, own in zip(values, beside, strict=True)]
        yield Row(f"{name} {version}, {learner}", values, "rows/s", ratios, CORE[0])


def over_http(rounds: int, seconds: int) -> Table:
    """Feedback and predictions a second over HTTP, river behind FastAPI in turns with Onepass."""
    table = Table("Peers over HTTP", "one row a request; Onepass is durable (everysec); ratios are Onepass to the peer")
    _measured(table, "river-http", lambda _: _beside(rounds, seconds))
    return table


def _beside(rounds: int, seconds: int) -> Iterator[Row]:
    label, command = f"river {RIVER.ready()} behind FastAPI", [str(WORKERS / "river_server.py"), "PORT"]
    with tempfile.TemporaryDirectory() as folder, Service() as own, Process(command, python=RIVER.python) as peer:
        generator = Generator(Path(folder))
        own.create("m0", rows.model(rows.FIXED))
        for kind in ("feedback", "predict"):
            for connections in CONNECTIONS:
                asked, rates = Asked(kind, f"/models/m0/{kind}", connections), {own: [], peer: []}
                for number in range(rounds):
                    for side in (own, peer) if number % 2 == 0 else (peer, own):
                        rates[side].append(generator.run(side, asked, seconds).rate)
                ratios = [mine / other for mine, other in zip(rates[own], rates[peer], strict=True)]
                what = f"{kind}{at(connections)}"
                yield Row(f"{label}: {what}", rates[peer], "rows/s")
                yield Row(f"Onepass: {what}", rates[own], "rows/s", ratios, "the peer")


def main() -> None:
    """Print the tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PROMISES), help=",".join(PROMISES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1, help="that each program is measured in a round")
    given = parser.parse_args()
    if unknown := set(given.only) - set(PROMISES):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    report = Report()
    report.add(in_process([name for name in IN_PROCESS if name in given.only], given.rounds))
    if "river-http" in given.only:
        report.add(over_http(given.rounds, given.seconds))
    report.write(OUT, "peers", not_promised=PROMISES)


if __name__ == "__main__":
    main()
