"""What needs no load: a row in core, a log replayed and recovered, a start."""

from collections.abc import Callable
from statistics import median

from tests.benchmarks import one_row, recovery
from tests.benchmarks import start as service_start
from tests.benchmarks.bench.table import Row, Table
from tests.benchmarks.processes import ROOT

LEARN_US = {
    "rls": 15, "dfop fixed": 15, "dfop auto": 30, "dfop auto, classes": 35, "dynamic_odm": 22, "vigo": 20,
    "vigo, 100 classes": 35, "fesl_c": 20,
}  # fmt: skip
PREDICT_US = {"dfop auto": 9}
REPLAYED = (("dfop, fixed rate", 300_000), ("dfop auto", 150_000))
RECOVERY_S = 1.0
STARTS = 3
START_S, IDLE_MB = 2.0, 200


def core(rounds: int, say: Callable[[str], None]) -> list[Table]:
    """One row of ten columns through the state machine, by algorithm."""
    note = "CPU time of core.model.apply with one row, of one row of a block of 1000, and of a prediction"
    table = Table("One row in core", note)
    with one_row.Checkout(ROOT) as here:
        for case in one_row.CASES:
            alone, block, asked = zip(*(here.measure(case) for _ in range(rounds)), strict=True)
            more = f"in a block {median(block):.2f} us, predicted {median(asked):.1f} us"
            table.rows.append(Row(case, alone, "us", target=LEARN_US.get(case), at_most=True, more=more))
            if case in PREDICT_US:
                table.rows.append(Row(f"{case}, predicted", asked, "us", target=PREDICT_US[case], at_most=True))
    say("core: done")
    return [table]


def replay(rounds: int, say: Callable[[str], None]) -> list[Table]:
    """A log of single rows becomes a model."""
    table = Table("Replay and recovery", "a log of entries of one row of ten columns, with an id each")
    side, entries = recovery.Side(ROOT), recovery.ENTRIES
    for name, target in REPLAYED:
        taken = [min(side.measure("replies", name, True, entries)["seconds"]) for _ in range(rounds)]
        rates = [entries / seconds for seconds in taken]
        table.rows.append(Row(f"replay, {name}", rates, "rows/s", target=target, more="CPU time"))
    taken = [min(side.measure("recovery", recovery.STORED, True, entries)["seconds"]) for _ in range(rounds)]
    table.rows.append(Row(f"recovery of {entries:,} entries", taken, "s", target=RECOVERY_S, at_most=True))
    say("replay and recovery: done")
    return [table]


def start(_: int, say: Callable[[str], None]) -> list[Table]:
    """Starts by ``make run`` of what is installed, until the service is ready; what it holds then."""
    service_start.second(ROOT, [])  # whatever make still had to do is done
    found = [service_start.second(ROOT, []) for _turn in range(STARTS)]
    say("starts: done")
    table = Table(
        "Start", "make run where everything is there, until /readyz says 200; for a first one: make bench-start"
    )
    more = f"CPU {median(phase.cpu_s for phase, _, _ in found):.2f} s"
    walls, idle, used = ([*column] for column in zip(*((one.wall_s, a[0], b[0]) for one, a, b in found), strict=True))
    table.rows = [
        Row("later start", walls, "s", target=START_S, at_most=True, more=more),
        Row("memory of the idle service", idle, "MB", target=IDLE_MB, at_most=True),
        Row("memory with a model", used, "MB"),
    ]
    return [table]
