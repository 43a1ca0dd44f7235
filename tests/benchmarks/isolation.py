"""What a single row of one model waits for while another model is sent something heavy.

    python -m tests.benchmarks.isolation [SCENARIO ...] [--checkout DIRECTORY]

Every scenario starts ``onepass serve`` with a private store and the model "other", a regression by ``rls`` with one
feature, to which ``probe`` sends a feedback and a predict every 10 ms from a process of its own; other models are sent
the heavy work. A line of the table is measured from shortly before the work begins until a second after its last
answer; the first one is the service at rest. ``own lag`` is how late the measuring process itself woke up: so much of a
wait is not the service's. ``peak`` is the most memory that the service has held meanwhile, in MiB. ``--checkout``
measures the code of another checkout, which has a .venv of its own.

Exits with 1 where a row waited 250 ms or longer, was not answered 200, or the heavy work had another answer than it
should have had. Needs Linux (peaks are read from /proc).
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from tests.benchmarks.harness import heavy
from tests.benchmarks.harness.heavy import Ask, ask
from tests.benchmarks.harness.probe import MODEL, Waits
from tests.benchmarks.harness.processes import ROOT, Service
from tests.benchmarks.harness.rows import to_json

WORST_MS_MAX, IDLE_S, BEFORE_S, AFTER_S = 250.0, 2.0, 0.3, 1.0
DONE, REFUSED = ("200", "201", "204"), ("400", "413", "422")
BUSY = (*REFUSED, "503")
WIDE, HUGE, SWITCHED, LISTED = 1_500, 2_700, 1_000, 600
"""Columns: of 18 MB of state, of 58 MB, of a change of features; and models of a list."""
HEADER = f"{'ms':34}{'p50':>8}{'p99':>9}{'worst':>9}{'own lag':>9}{'peak':>8}{'s':>8}  {'rows':16}  heavy"


class Stage:
    """A service with the model "other", and the process that measures it; misses are added to ``missed``."""

    def __init__(self, checkout: Path, missed: list[str], **settings: str) -> None:
        self.checkout, self.missed = checkout, missed
        self.service = Service(checkout, api_keys="", **settings)

    def __enter__(self) -> Self:
        self.service.start()
        self.service.create(MODEL, heavy.model(["x1"]))
        self.service.ask("POST", f"/models/{MODEL}/feedback", {"features": {"x1": 0.5}, "label": 1.0})
        self._measure()
        return self

    def __exit__(self, *_: object) -> None:
        self._probe.kill()
        self.service.kill()  # what it would write in the end is of no use
        self.service.remove()

    def _measure(self) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.harness.probe", str(self.service.port)]
        self._probe = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.beside("at rest", lambda: time.sleep(IDLE_S) or [])

    def restart(self) -> None:
        """Stop the service and start it again; "other" is loaded before it is measured."""
        self._probe.kill()
        self.service.stop()
        self.service.start()
        self.service.ask("GET", f"/models/{MODEL}")
        self._measure()

    def send(self, *requests: Ask) -> list[str]:
        """Send requests, all at once; their statuses."""
        with ThreadPoolExecutor(len(requests)) as threads:
            return [status for status, _ in threads.map(lambda each: ask(self.service.port, each), requests)]

    def beside(self, what: str, work: Ask | Callable[[], list[str]], expected: Sequence[str] = DONE) -> None:
        """Measure while a request is answered, or work is done that returns the statuses of its answers."""
        self._say("start")
        for process in self.service.own_processes():
            with suppress(OSError):
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # forget the highest memory so far
        time.sleep(BEFORE_S)
        begun = time.monotonic()
        answers = self.send(work) if isinstance(work, Ask) else work()
        seconds = time.monotonic() - begun
        time.sleep(AFTER_S)
        self._say("stop")
        waits = Waits(*json.loads(self._probe.stdout.readline()))
        rows, told = (
            " ".join(f"{status}x{count}" for status, count in sorted(counts.items()))
            for counts in (waits.statuses, Counter(answers))
        )
        times = f"{waits.p50_ms:8.1f}{waits.p99_ms:9.1f}{waits.worst_ms:9.1f}{waits.lag_ms:9.1f}"
        print(f"{what:34}{times}{_peak_mib(self.service):8.0f}{seconds:8.1f}  {rows:16}  {told}", flush=True)
        if waits.worst_ms >= WORST_MS_MAX:
            self.missed.append(f"{what}: worst {waits.worst_ms:.0f} ms (own lag {waits.lag_ms:.0f})")
        if set(waits.statuses) != {"200"}:
            self.missed.append(f"{what}: answers {rows}")
        if not set(answers) <= set(expected):
            self.missed.append(f"{what}: heavy answers {told}")

    def _say(self, word: str) -> None:
        self._probe.stdin.write(word + "\n")
        self._probe.stdin.flush()


def _peak_mib(service: Service) -> float:
    """Sum of the highest resident memory of the service's processes."""
    total_kb = 0
    for process in service.own_processes():
        with suppress(OSError, psutil.Error):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            total_kb += next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return total_kb / 1024


# ---------------------------------------------------------------- scenarios


def wide(stage: Stage, name: str, columns: int) -> Ask:
    """A model of so many columns; a feedback to it."""
    stage.service.create(name, heavy.model(heavy.names(columns)))
    return Ask("POST", f"/models/{name}/feedback", to_json({**heavy.row(columns), "label": 1.0}))


def plain(stage: Stage) -> None:
    """The models "plain", of twenty columns, "colon" and "sparse"."""
    for name, body in (("plain", heavy.model([*heavy.COLUMNS])), ("colon", heavy.COLONS), ("sparse", heavy.SPARSE)):
        stage.service.create(name, body)


def predict(stage: Stage) -> None:
    """A batch prediction of 8 MB holds a model while a row of it is learned."""
    row = wide(stage, "wide", WIDE)
    stage.send(row)
    table = Ask("POST", "/models/wide/predict/batch", heavy.npy(650, WIDE), heavy.NPY)

    def work() -> list[str]:
        with ThreadPoolExecutor(1) as thread:
            predicted = thread.submit(stage.send, table)
            time.sleep(0.3)
            return stage.send(row) + predicted.result()

    stage.beside(".npy predict and one feedback", work)


def state(stage: Stage) -> None:
    """A state of 58 MB: snapshot, export, import, restore, cold load."""
    stage.send(wide(stage, "huge", HUGE))
    stage.beside("snapshot of 58 MB", Ask("POST", "/models/huge/snapshots"))
    exported: list[bytes] = []

    def export() -> list[str]:
        status, body = ask(stage.service.port, Ask("GET", "/models/huge/state"))
        exported.append(body)
        return [status]

    stage.beside("export of 58 MB", export)
    stage.beside("import of 58 MB", Ask("PUT", "/models/huge/state", exported[0], "application/octet-stream"))
    version = stage.service.ask("GET", "/models/huge/snapshots")["snapshots"][-1]["version"]
    stage.beside("restore of 58 MB", Ask("POST", "/models/huge/restore", to_json({"version": version})))
    stage.restart()
    stage.beside("cold load of 58 MB", Ask("GET", "/models/huge/metrics"))


def tables(stage: Stage) -> None:
    """Tables of nearly 8 MiB, as JSON with a colon in every row and as CSV."""
    plain(stage)
    for route, labelled, query in (("predict", False, ""), ("feedback", True, "?label=label")):
        stage.beside(f"JSON {route}", Ask("POST", f"/models/colon/{route}/batch", heavy.colon_table(labelled)))
        path = f"/models/plain/{route}/batch{query}"
        stage.beside(f"CSV {route}", Ask("POST", path, heavy.csv_table(labelled), heavy.CSV))


def tables_together(stage: Stage) -> None:
    """Sixteen tables of nearly 8 MiB at once: JSON, NDJSON, CSV and .npy."""
    plain(stage)
    path = "/models/plain/predict/batch"
    sent = [
        Ask("POST", "/models/colon/predict/batch", heavy.colon_table(labelled=False)),
        Ask("POST", path, heavy.lines_by_name(), "application/x-ndjson"),
        Ask("POST", path, heavy.csv_table(labelled=False), heavy.CSV),
        Ask("POST", path, heavy.npy(52_000, len(heavy.COLUMNS)), heavy.NPY),
    ]
    stage.beside("sixteen tables", lambda: stage.send(*(4 * sent)))


def refused(stage: Stage) -> None:
    """Bodies of 8 MB that are refused, each alone, then eight at once."""
    plain(stage)
    requests = heavy.refused()
    for what, request in requests.items():
        stage.beside(what, request, REFUSED)
    stage.beside("eight refused bodies", lambda: stage.send(*(2 * [*requests.values()])), BUSY)


def ids(stage: Stage) -> None:
    """Batches of 10 000 rows with ids, each sent twice."""
    plain(stage)
    path = "/models/plain/feedback/batch"
    batches = [Ask("POST", path, heavy.with_ids(10_000, 10_000 * number)) for number in range(5) for _ in range(2)]
    stage.beside("10 000 rows with ids, repeated", lambda: [stage.send(batch)[0] for batch in batches])


def follower(learning: Stage) -> None:
    """A service that only reads while another one learns 600 000 rows with ids; then a snapshot on the reader."""
    learning.service.create("plain", heavy.model(heavy.COLUMNS[:2]))
    path, missed = "/models/plain/feedback/batch", learning.missed

    def work() -> list[str]:
        batches = (heavy.with_ids(2_000, 2_000 * number, 2) for number in range(300))
        return [learning.send(Ask("POST", path, body))[0] for body in batches]

    with Stage(learning.checkout, missed, redis_url=f"unix://{learning.service.socket}") as reading:
        reading.service.ask("GET", "/models/plain")
        reading.beside("600 000 rows learned elsewhere", work)
        reading.beside("snapshot by the reader", Ask("POST", "/models/plain/snapshots"))


def listing(stage: Stage) -> None:
    """A list of 600 models, of which memory holds a few."""
    body = heavy.with_ids(300, 0)
    for name in (f"m{number:03d}" for number in range(LISTED)):
        stage.service.create(name, {**heavy.model([*heavy.COLUMNS]), "algorithm": "dfop"})
        stage.service.ask("POST", f"/models/{name}/feedback/batch", body)
    stage.restart()
    stage.beside(f"list of {LISTED} models", Ask("GET", "/models?limit=1000"))


def reads(stage: Stage) -> None:
    """Weights and features of a model of 1 500 columns."""
    stage.send(wide(stage, "wide", WIDE))
    for what in ("weights", "features"):
        request = Ask("GET", f"/models/wide/{what}")
        stage.beside(f"{what}, 20 times", lambda sent=request: [stage.send(sent)[0] for _ in range(20)])


def life(stage: Stage) -> None:
    """A model of 2 700 columns from its creation to its deletion, single rows in between."""
    row, path = heavy.row(HUGE), "/models/huge"
    learned, explained = to_json({**row, "label": 1.0}), to_json({**row, "explain": True})
    for what, request in {
        "create": Ask("PUT", path, to_json(heavy.model(heavy.names(HUGE)))),
        "one feedback": Ask("POST", f"{path}/feedback", learned),
        "one predict": Ask("POST", f"{path}/predict", to_json(row)),
        "one predict with explanation": Ask("POST", f"{path}/predict", explained),
        "show": Ask("GET", path),
        "reset": Ask("POST", f"{path}/reset"),
        "feedback after it": Ask("POST", f"{path}/feedback", learned),
        "delete": Ask("DELETE", path),
        "create one without features": Ask("PUT", path, b'{"algorithm":"rls","task":"regression"}'),
        "first row of it": Ask("POST", f"{path}/feedback", learned),
    }.items():
        stage.beside(what, request)


def many_at_once(stage: Stage) -> None:
    """Models that are created all at once: 100 of 500 columns, 300 of 10, and 30 of 2 000 that are refused."""
    for count, columns, expected in ((100, 500, DONE), (300, 10, DONE), (30, 2_000, REFUSED)):
        body = to_json({**heavy.model(heavy.names(columns)), "algorithm": "dfop"})
        puts = [Ask("PUT", f"/models/m{columns}-{number}", body) for number in range(count)]
        stage.beside(f"{count} of {columns} columns", lambda puts=puts: stage.send(*puts), expected)


def switch(stage: Stage) -> None:
    """A change of features of 1 000 columns: begin, 600 rows of the overlap, complete."""
    wide(stage, "wide", SWITCHED)
    path, new = "/models/wide/features", heavy.names(SWITCHED, "new")
    begin = to_json({"action": "begin", "features": new, "mapping": "linear"})
    stage.beside("begin", Ask("POST", f"{path}/switch", begin))
    stage.beside("overlap", Ask("POST", f"{path}/overlap", heavy.overlap(new, 600)))
    stage.beside("complete", Ask("POST", f"{path}/switch", b'{"action":"complete"}'))


def unfinished(stage: Stage) -> None:
    """Forty bodies of 8 MB whose last bytes never come."""
    plain(stage)
    table, port = Ask("POST", "/models/plain/predict/batch", heavy.colon_table(labelled=False)), stage.service.port
    sent = heavy.unfinished(table)
    stage.beside("forty unfinished bodies", lambda: heavy.clients(port, 40, sent, 10.0), ("open", "cut", "408", "503"))


def pipelined(stage: Stage) -> None:
    """A client that sends 200 000 requests on one connection without reading; four such clients."""
    flood, port = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200_000, stage.service.port
    for count in (1, 4):
        what = f"{count} x 200 000 pipelined requests"
        stage.beside(what, lambda count=count: heavy.clients(port, count, flood), ("200", "cut"))


def announced(stage: Stage) -> None:
    """Forty bodies of 8 MiB are announced and do not come, while a client at another address sends tables."""
    plain(stage)
    table, port = Ask("POST", "/models/plain/feedback/batch", heavy.with_ids(2_000, 0)), stage.service.port
    stage.beside("forty announced", lambda: heavy.announced(port, 40, "/models/plain/predict/batch", table))


EVERY = (predict, state, tables, tables_together, refused, ids, follower, listing, reads, life, many_at_once, switch)
SCENARIOS = {each.__name__.replace("_", "-"): each for each in (*EVERY, unfinished, pipelined, announced)}
SETTINGS = {"listing": {"memory_budget_mb": "16"}}


def run(name: str, checkout: Path) -> list[str]:
    """One scenario; what was missed in it."""
    print(f"\n{name}: {(SCENARIOS[name].__doc__ or '').partition('.')[0]}\n{HEADER}", flush=True)
    missed: list[str] = []
    try:
        with Stage(checkout, missed, **SETTINGS.get(name, {})) as stage:
            SCENARIOS[name](stage)
    except (RuntimeError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        missed.append(f"could not be carried out: {error!r}")
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
    missed = {name: run(name, given.checkout.resolve()) for name in given.scenarios or SCENARIOS}
    held = sum(not misses for misses in missed.values())
    print(f"\n{held} of {len(missed)} scenarios held: worst below {WORST_MS_MAX:g} ms, answers as they should be")
    return 0 if held == len(missed) else 1


if __name__ == "__main__":
    sys.exit(main())
