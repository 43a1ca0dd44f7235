"""What needs no load: a row in core, a log replayed and recovered, a start."""

import time
from collections.abc import Callable
from statistics import median

from tests.benchmarks import one_row, recovery
from tests.benchmarks.bench.table import Row, Table
from tests.benchmarks.processes import ROOT, Service

LEARN_US = {
    "rls": 15, "dfop fixed": 15, "dfop auto": 30, "dfop auto, classes": 35, "dynamic_odm": 22, "vigo": 20,
    "vigo, 100 classes": 35, "fesl_c": 20,
}  # fmt: skip
PREDICT_US = {"dfop auto": 9}
REPLAYED = (("dfop, fixed rate", 300_000), ("dfop auto", 150_000))
RECOVERY_S = 1.0
STARTS, AT_REST_S = 3, 1.0
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
    """Starts of the service with a store of its own, until /readyz says 200; what it holds at rest."""
    seconds, idle = [], []
    for _turn in range(STARTS + 1):  # the first one fills caches
        service = Service()
        seconds.append(service.start())
        time.sleep(AT_REST_S)
        idle.append(service.system.memory_info().rss / 2**20)
        service.stop()
        service.remove()
    say("starts: done")
    table = Table("Start", "onepass serve where everything is installed and compiled, until /readyz says 200")
    table.rows = [
        Row("later start", seconds[1:], "s", target=START_S, at_most=True),
        Row("memory of the idle service", idle[1:], "MiB", target=IDLE_MB, at_most=True),
    ]
    return [table]
