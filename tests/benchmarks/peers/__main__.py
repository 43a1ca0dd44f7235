"""Onepass beside other programs: ``python -m tests.benchmarks.peers [--only NAME,...]``.

Each peer is installed into an environment of its own below tests/benchmarks/out/peers, when it is first asked for (some
1.5 GB and three minutes for all); one that cannot be had here is reported and left out. Rows are the same: ten numbers,
two labels. In process, every row is predicted, then learned; the learners are not the same, and no accuracy is
compared. Over HTTP, every program is asked by the same load, in turns with Onepass. It takes two minutes with the three
rounds of the short form, once all is installed. Written are tests/benchmarks/out/peers.json and peers.svg.

Below each peer stands what it does not promise. Onepass over HTTP has committed a row to its store before it answers.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import one_row, rows
from tests.benchmarks.bench import chart
from tests.benchmarks.bench.__main__ import OUT, machine, say
from tests.benchmarks.bench.generator import Asked, Generator
from tests.benchmarks.bench.table import Row, Table
from tests.benchmarks.peers.environments import WORKERS, Environment, Unavailable
from tests.benchmarks.processes import ROOT, Process, Service

RIVER = Environment("river", ("river", "fastapi", "uvicorn[standard]"), "river")
CAPYMOA = Environment("capymoa", ("capymoa",), "capymoa", "java")
WABBIT = Environment("vowpalwabbit", ("vowpalwabbit",), "vowpalwabbit")
MLSERVER = Environment("mlserver", ("mlserver", "mlserver-sklearn"), "mlserver")
IN_PROCESS = {"river": (RIVER, "river_rows.py"), "capymoa": (CAPYMOA, "capymoa_rows.py"), "vw": (WABBIT, "vw_rows.py")}
SERVERS = {"river-http": (RIVER, "river_server.py"), "mlserver": (MLSERVER, "mlserver_server.py")}
NAMES = (*IN_PROCESS, *SERVERS)
PROMISES = {
    "river": "durability, rows learned once, drift tests without being wired, one state on many machines",
    "capymoa": "durability, rows learned once, drift tests without being wired, a change of features",
    "vw": "durability before it is told to save, rows learned once, drift tests; names of features are hashed",
    "river-http": "durability (a restart loses all), rows learned once on a retry, drift tests, several processes",
    "mlserver": "learning, and so neither ids nor drift tests nor a change of features: it serves fixed models",
}
CONNECTIONS = (1, 64)
PARAMS = {"forgetting_rate": 0.01}
CORE = ("dfop fixed, classes", "dfop auto, classes")
ROWS = 5000


class Server(NamedTuple):
    """A program that answers over HTTP: its name, itself, and what it is asked for each kind of work."""

    name: str
    process: Process
    kinds: dict[str, tuple[str, str]]


class Peer(Process):
    """A server in the environment of a peer."""

    def __init__(self, environment: Environment, worker: str, folder: str) -> None:
        super().__init__([str(WORKERS / worker), "PORT", folder])
        self._python = str(environment.python)


# ------------------------------------------------------------------------------------------------ in process


def in_process(names: list[str], rounds: int) -> Table:
    """Rows a second that are predicted and learned one by one, without a network; each peer in turns with Onepass."""
    note = "one row predicted, then learned; rows per second of CPU time; ratios are the peer's to ours beside it"
    table = Table("Peers in process", note)
    with one_row.Checkout(ROOT) as here, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text("[" + ",".join(body.decode() for body in rows.single(ROWS, 1)) + "]")
        for case in CORE:
            alone, block, _ = zip(*(here.measure(case) for _ in range(rounds)), strict=True)
            table.rows.append(Row(f"Onepass, {case}", [1e6 / each for each in alone], "rows/s"))
            table.rows.append(Row(f"Onepass, {case}, blocks", [1e6 / each for each in block], "rows/s"))
        for name in names:
            _measured(table, name, lambda own: _rows_of(own, path, rounds, here))
    return table


def _measured(table: Table, name: str, measure: Callable[[str], Iterator[Row]]) -> None:
    """Add what a peer does, and what it does not promise; or that it is not to be had."""
    try:
        table.rows += measure(name)
        table.remarks.append(f"{name} does not promise: {PROMISES[name]}")
    except Unavailable as error:
        table.missing.append(f"{name}: {error}")
    else:
        say(f"{name}: done")


def _rows_of(name: str, path: Path, rounds: int, here: one_row.Checkout) -> Iterator[Row]:
    environment, worker = IN_PROCESS[name]
    version = environment.ready()
    found: list[dict[str, float]] = []
    beside: list[float] = []
    for _ in range(rounds):
        found.append(json.loads(environment.run(worker, str(path), "1").splitlines()[-1]))
        beside.append(1e6 / here.measure(CORE[0])[0])
    for learner in found[0]:
        values = [each[learner] for each in found]
        ratios = [value / own for value, own in zip(values, beside, strict=True)]
        yield Row(f"{name} {version}, {learner}", values, "rows/s", ratios, CORE[0])


# ------------------------------------------------------------------------------------------------ over HTTP


def over_http(names: list[str], rounds: int, seconds: int) -> Table:
    """Feedback and predictions a second over HTTP, each peer in turns with Onepass."""
    table = Table("Peers over HTTP", "one row a request; Onepass is durable (everysec); ratios are Onepass to the peer")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        generator = stack.enter_context(Generator(Path(folder)))
        service = stack.enter_context(Service())
        service.create("m0", rows.model(PARAMS))
        kinds = {kind: (kind, f"/models/m0/{kind}") for kind in ("feedback", "predict")}
        own = Server("Onepass", service, kinds)
        for name in names:
            _measured(table, name, lambda peer: _beside(own, peer, generator, rounds, seconds))
    return table


def _beside(own: Server, name: str, generator: Generator, rounds: int, seconds: int) -> Iterator[Row]:
    environment, worker = SERVERS[name]
    version = environment.ready()
    with tempfile.TemporaryDirectory() as folder, Peer(environment, worker, folder) as process:
        kinds = {"predict": ("infer", "/v2/models/m0/infer")} if name == "mlserver" else own.kinds
        peer = Server(f"{name} {version}", process, kinds)
        _wait(process, kinds["predict"][1])
        for kind in kinds:
            for connections in CONNECTIONS:
                yield from _compared(own, peer, kind, connections, generator, rounds, seconds)


def _compared(
    own: Server, peer: Server, kind: str, connections: int, generator: Generator, rounds: int, seconds: int
) -> Iterator[Row]:
    rates: dict[str, list[float]] = {own.name: [], peer.name: []}
    for number in range(rounds):
        for server in (own, peer) if number % 2 == 0 else (peer, own):
            asked = Asked(*server.kinds[kind], connections)
            rates[server.name].append(generator.run(server.process, asked, seconds).rate)
    at = f"{kind}, {connections} connection{'s' if connections > 1 else ''}"
    ratios = [mine / other for mine, other in zip(rates[own.name], rates[peer.name], strict=True)]
    yield Row(f"{peer.name}: {at}", rates[peer.name], "rows/s")
    yield Row(f"Onepass: {at}", rates[own.name], "rows/s", ratios, peer.name)


def _wait(process: Process, path: str) -> None:
    """Until the peer's model answers.

    Raises:
        Unavailable: it does not.
    """
    body = json.loads(rows.infer(1, 1)[0] if "/v2/" in path else rows.asked(1, 1)[0])
    for _ in range(150):
        if process.call("POST", path, body)[0] == 200:
            return
        time.sleep(0.2)
    raise Unavailable("its model does not answer")


def main() -> int:
    """Print the tables, write JSON and chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(NAMES), help=",".join(NAMES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1, help="that each program is measured in a round")
    given = parser.parse_args()
    if unknown := set(given.only) - set(NAMES):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    ground, begun = machine(), time.monotonic()
    tables = [
        in_process([name for name in IN_PROCESS if name in given.only], given.rounds),
        over_http([name for name in SERVERS if name in given.only], given.rounds, given.seconds),
    ]
    for table in tables:
        table.show()
    OUT.mkdir(parents=True, exist_ok=True)
    ground["seconds"] = round(time.monotonic() - begun)
    whole = {"machine": ground, "tables": [table.to_json() for table in tables], "not promised": PROMISES}
    (OUT / "peers.json").write_text(json.dumps(whole, indent=1) + "\n")
    caption = "{at}: {cores} cores, load {load_before} before, taken in {seconds} s".format(**ground)
    (OUT / "peers.svg").write_text(chart.svg(tables, caption))
    print(f"\n{caption}\n{OUT / 'peers.json'}\n{OUT / 'peers.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
