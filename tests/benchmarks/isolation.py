"""What a single row of one model waits for while another model is sent something heavy.

    python -m tests.benchmarks.isolation [SCENARIO ...] [--checkout DIRECTORY]

Every scenario starts ``onepass serve`` with a private store and two models: "other", a regression by ``rls`` with one
feature, to which ``probe`` sends a feedback and a predict every 10 ms from a process of its own; and one that is sent
the heavy work. A line of the table is measured from shortly before the work begins until a second after its last
answer. The first line of each service is the service at rest. ``own lag`` is how late the measuring process itself woke
up: where the machine is busy with other things, so much of the wait is not the service's. ``peak`` is the most
memory that the service and its worker processes have held meanwhile. ``--checkout`` measures the code of another
checkout, which has to have its own .venv.

Exits with 1 where a row waited 250 ms or longer, was not answered 200, or the heavy work had another answer than it
should have had. Needs Linux (peaks are read from /proc).
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.benchmarks import heavy
from tests.benchmarks.heavy import MIB, Ask, ask
from tests.benchmarks.processes import ROOT
from tests.benchmarks.stage import HEADER, WORST_MS_MAX, Bench, Stage

REFUSED = ("400", "413", "422")
BUSY = (*REFUSED, "503")
WIDE = 1_500
HUGE = 2_700
"""Columns of a model whose state takes 58 MB."""
SWITCHED = 1_000


def predict(bench: Bench) -> None:
    """A batch prediction of 8 MB holds a model while a row of it is learned."""
    with bench.stage() as stage:
        stage.service.create("wide", heavy.wide(WIDE))
        row = Ask("POST", "/models/wide/feedback", heavy.wide_row(WIDE))
        stage.done(row, row, row)
        table = Ask("POST", "/models/wide/predict/batch", heavy.wide_npy(650, WIDE), heavy.NPY)

        def work() -> list[str]:
            with ThreadPoolExecutor(1) as thread:
                predicted = thread.submit(stage.ask, table)
                time.sleep(0.3)
                return stage.ask(row) + predicted.result()

        stage.beside(".npy predict and one feedback", work)


def state(bench: Bench) -> None:
    """A state of 58 MB: snapshot, export, import, restore, cold load."""
    with bench.service() as service:
        with bench.on(service) as stage:
            _large_state(stage)
        service.stop()
        service.start()
        with bench.on(service) as stage:
            stage.beside("cold load of 58 MB", lambda: stage.ask(Ask("GET", "/models/huge/metrics")))


def _large_state(stage: Stage) -> None:
    stage.service.create("huge", heavy.wide(HUGE))
    stage.done(Ask("POST", "/models/huge/feedback", heavy.wide_row(HUGE)))
    stage.beside("snapshot of 58 MB", lambda: stage.ask(Ask("POST", "/models/huge/snapshots")))
    exported: list[bytes] = []

    def export() -> list[str]:
        status, body = ask(stage.service.port, Ask("GET", "/models/huge/state"))
        exported.append(body)
        return [status]

    stage.beside("export of 58 MB", export)
    imported = Ask("PUT", "/models/huge/state", exported[0], heavy.STATE)
    stage.beside("import of 58 MB", lambda: stage.ask(imported))
    for snapshot in json.loads(stage.done(Ask("GET", "/models/huge/snapshots")))["snapshots"][-1:]:
        back = Ask("POST", "/models/huge/restore", json.dumps({"version": snapshot["version"]}).encode())
        stage.beside("restore of 58 MB", lambda sent=back: stage.ask(sent))


def tables(bench: Bench) -> None:
    """Tables of nearly 8 MiB, as JSON with a colon in every row and as CSV."""
    with bench.stage() as stage:
        stage.service.create("colon", heavy.colon_model())
        stage.service.create("plain", heavy.model(heavy.COLUMNS))
        for route, labelled, query in (("predict", False, ""), ("feedback", True, "?label=label")):
            colons = Ask("POST", f"/models/colon/{route}/batch", heavy.colon_table(labelled))
            stage.beside(f"JSON {route}, {len(colons.body) / MIB:.0f} MiB", lambda sent=colons: stage.ask(sent))
            lines = Ask("POST", f"/models/plain/{route}/batch{query}", heavy.csv_table(labelled), heavy.CSV)
            stage.beside(f"CSV {route}, {len(lines.body) / MIB:.0f} MiB", lambda sent=lines: stage.ask(sent))


def tables_together(bench: Bench) -> None:
    """Sixteen tables of nearly 8 MiB at once: JSON, NDJSON, CSV and .npy."""
    with bench.stage() as stage:
        stage.service.create("colon", heavy.colon_model())
        stage.service.create("plain", heavy.model(heavy.COLUMNS))
        sent = [
            Ask("POST", "/models/colon/predict/batch", heavy.colon_table(False)),
            Ask("POST", "/models/plain/predict/batch", heavy.lines_by_name(), heavy.LINES),
            Ask("POST", "/models/plain/predict/batch", heavy.csv_table(False), heavy.CSV),
            Ask("POST", "/models/plain/predict/batch", heavy.wide_npy(52_000, len(heavy.COLUMNS)), heavy.NPY),
        ]
        stage.beside("sixteen tables", lambda: stage.ask(*(4 * sent)))


def refused(bench: Bench) -> None:
    """Bodies of 8 MB that are refused, each alone."""
    for what, request in heavy.refused().items():
        with bench.stage() as stage:
            _to_refuse(stage)
            stage.beside(what, lambda sent=request: stage.ask(sent), REFUSED)


def refused_together(bench: Bench) -> None:
    """Eight of them at once."""
    with bench.stage() as stage:
        _to_refuse(stage)
        stage.beside("eight refused bodies", lambda: stage.ask(*(2 * list(heavy.refused().values()))), BUSY)


def _to_refuse(stage: Stage) -> None:
    stage.service.create("wide", heavy.model(heavy.COLUMNS))
    stage.service.create("sparse", heavy.sparse_model())


def ids(bench: Bench) -> None:
    """Batches of 10 000 rows with ids, each sent twice."""
    with bench.stage() as stage:
        stage.service.create("plain", heavy.model(heavy.COLUMNS))
        path = "/models/plain/feedback/batch"
        batches = [Ask("POST", path, heavy.with_ids(10_000, 10_000 * number)) for number in range(5)]

        def work() -> list[str]:
            return [status for batch in batches for status in stage.ask(batch) + stage.ask(batch)]

        stage.beside("10 000 rows with ids, repeated", work)


def follower(bench: Bench) -> None:
    """A service that only reads while another one learns 600 000 rows with ids; then a snapshot on the reader."""
    with bench.stage() as learning, bench.stage(redis_url=f"unix://{learning.service.socket}") as reading:
        learning.service.create("plain", heavy.model(heavy.COLUMNS[:2]))
        reading.done(Ask("GET", "/models/plain"))
        path = "/models/plain/feedback/batch"

        def work() -> list[str]:
            batches = (heavy.with_ids(2_000, 2_000 * number, 2) for number in range(300))
            return [ask(learning.service.port, Ask("POST", path, body))[0] for body in batches]

        reading.beside("600 000 rows learned elsewhere", work)
        reading.beside("snapshot by the reader", lambda: reading.ask(Ask("POST", "/models/plain/snapshots")))


def listing(bench: Bench) -> None:
    """A list of 600 models, of which memory holds a few."""
    with bench.service(memory_budget_mb="16") as service:
        body = heavy.with_ids(300, 0)
        for name in (f"m{number:03d}" for number in range(600)):
            service.create(name, {**heavy.model(heavy.COLUMNS), "algorithm": "dfop"})
            if ask(service.port, Ask("POST", f"/models/{name}/feedback/batch", body))[0] != "200":
                raise RuntimeError(f"{name} could not be taught")
        service.stop()
        service.start()
        with bench.on(service) as stage:
            stage.beside("list of 600 models", lambda: stage.ask(Ask("GET", "/models?limit=1000")))
        loads, evictions = (service.counter(f"onepass_{what}_total") for what in ("loads", "evictions"))
        print(f"models loaded {loads:.0f}, evicted {evictions:.0f}")


def reads(bench: Bench) -> None:
    """Weights and features of a model of 1 500 columns."""
    with bench.stage() as stage:
        stage.service.create("wide", heavy.wide(WIDE))
        stage.done(Ask("POST", "/models/wide/feedback", heavy.wide_row(WIDE)))
        for what in ("weights", "features"):
            request = Ask("GET", f"/models/wide/{what}")
            stage.beside(
                f"{what} of 1 500 columns, 20 times",
                lambda sent=request: [status for _ in range(20) for status in stage.ask(sent)],
            )


def life(bench: Bench) -> None:
    """A model of 2 700 columns from its creation to its deletion, single rows in between."""
    with bench.stage() as stage:
        whole = Ask("PUT", "/models/huge", json.dumps(heavy.wide(HUGE)).encode())
        row = heavy.wide_row(HUGE)
        steps = {
            "create": whole,
            "one feedback": Ask("POST", "/models/huge/feedback", row),
            "one predict": Ask("POST", "/models/huge/predict", heavy.unlabelled(row)),
            "one predict with explanation": Ask("POST", "/models/huge/predict", heavy.unlabelled(row, explain=True)),
            "show": Ask("GET", "/models/huge"),
            "reset": Ask("POST", "/models/huge/reset"),
            "feedback after it": Ask("POST", "/models/huge/feedback", row),
        }
        for what, request in steps.items():
            stage.beside(what, lambda sent=request: stage.ask(sent))
        stage.beside("delete", lambda: stage.ask(Ask("DELETE", "/models/huge")), ("204",))
        stage.service.create("free", {"algorithm": "rls", "task": "regression"})
        stage.beside("first row of a model", lambda: stage.ask(Ask("POST", "/models/free/feedback", row)))


def switch(bench: Bench) -> None:
    """A change of features of 1 000 columns: begin, 600 rows of the overlap, complete."""
    with bench.stage() as stage:
        stage.service.create("wide", heavy.wide(SWITCHED))
        new = [f"new{column}" for column in range(SWITCHED)]
        begin = json.dumps({"action": "begin", "features": new, "mapping": "linear"}).encode()
        stage.beside("begin", lambda: stage.ask(Ask("POST", "/models/wide/features/switch", begin)))
        rows = Ask("POST", "/models/wide/features/overlap", heavy.overlap(new, 600))
        stage.beside(f"overlap, {len(rows.body) / MIB:.0f} MiB", lambda: stage.ask(rows))
        complete = Ask("POST", "/models/wide/features/switch", b'{"action":"complete"}')
        stage.beside("complete", lambda: stage.ask(complete))


def unfinished(bench: Bench) -> None:
    """Forty bodies of 8 MB whose last bytes never come."""
    with bench.stage() as stage:
        stage.service.create("plain", heavy.model(heavy.COLUMNS))
        table = Ask("POST", "/models/plain/predict/batch", heavy.colon_table(False))
        requests = heavy.Unfinished(stage.service.port, 40, table)
        stage.beside("forty unfinished bodies", lambda: requests.send(10.0), ("open", "408", "503"))
        requests.close()


def pipelined(bench: Bench) -> None:
    """A client that sends 200 000 requests on one connection without reading; four such clients."""
    with bench.stage() as stage:
        for clients in (1, 4):
            what = f"{clients} x 200 000 pipelined requests"
            stage.beside(what, lambda clients=clients: heavy.pipelined(stage.service.port, clients), ("sent", "cut"))


def announced(bench: Bench) -> None:
    """Forty bodies of 8 MiB are announced and do not come, while a client at another address sends tables."""
    with bench.stage() as stage:
        stage.service.create("plain", heavy.model(heavy.COLUMNS))
        table = Ask("POST", "/models/plain/feedback/batch", heavy.with_ids(2_000, 0))
        begun = heavy.head("POST", "/models/plain/predict/batch", heavy.JSON, 8 * MIB) + b"{"
        stage.beside("forty announced bodies", lambda: heavy.announced(stage.service.port, 40, begun, table))


SCENARIOS: dict[str, Callable[[Bench], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        predict, state, tables, tables_together, refused, refused_together, ids, follower, listing, reads, life,
        switch, unfinished, pipelined, announced,
    )
}  # fmt: skip


def run(bench: Bench, name: str) -> list[str]:
    """One scenario; what was missed in it."""
    print(f"\n{name}: {(SCENARIOS[name].__doc__ or '').partition('.')[0]}\n{HEADER}", flush=True)
    bench.rows.clear()
    missed = []
    try:
        SCENARIOS[name](bench)
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        missed = [f"could not be carried out: {error!r}"]
    missed += [miss for found in bench.rows for miss in found.misses]
    print("ok" if not missed else "\n".join(f"MISSED  {miss}" for miss in missed), flush=True)
    return missed


def main() -> int:
    """Print a table for each scenario; 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"all, or some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose code to measure (this one)")
    given: Any = parser.parse_args()
    if unknown := set(given.scenarios) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    bench = Bench(given.checkout.resolve())
    missed = {name: run(bench, name) for name in given.scenarios or SCENARIOS}
    held = sum(not misses for misses in missed.values())
    print(f"\n{held} of {len(missed)} scenarios held: worst below {WORST_MS_MAX:g} ms, answers 200")
    return 0 if held == len(missed) else 1


if __name__ == "__main__":
    sys.exit(main())
