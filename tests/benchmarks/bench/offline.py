"""What needs no load: a row in core, a log replayed and recovered, a start."""

import importlib
import importlib.util
from collections.abc import Callable
from statistics import median
from typing import Any

from tests.benchmarks import one_row
from tests.benchmarks.bench.table import Row, Table
from tests.benchmarks.processes import ROOT, Service

LEARN_US = {
    "rls": 15, "dfop fixed": 15, "dfop auto": 30, "dfop auto, classes": 35, "dynamic_odm": 22, "vigo": 20,
    "vigo, 100 classes": 35, "fesl_c": 20,
}  # fmt: skip
PREDICT_US = {"dfop auto": 9}
REPLAYED = (("dfop, fixed rate", 300_000), ("dfop auto", 150_000))
RECOVERED = "dfop, fixed rate"
RECOVERY_S = 1.0
STARTS = 3
START_S, IDLE_MB = 2.0, 200


def core(rounds: int, say: Callable[[str], None]) -> list[Table]:
    """One row of ten columns through the state machine, by algorithm."""
    note = "CPU time of Machine.apply with one row, of one row of a block of 1000, and of a prediction"
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


def recovery(rounds: int, say: Callable[[str], None]) -> list[Table]:
    """A log of single rows becomes a model."""
    table = Table("Replay and recovery", "a log of entries of one row of ten columns, with an id each")
    if importlib.util.find_spec("tests.benchmarks.recovery") is None:
        table.missing.append("tests/benchmarks/recovery.py is not there")
        return [table]
    module: Any = importlib.import_module("tests.benchmarks.recovery")
    side, entries = module.Side(ROOT), module.ENTRIES
    for name, target in REPLAYED:
        taken = [min(side.measure("replies", name, True, entries)["seconds"]) for _ in range(rounds)]
        rates = [entries / seconds for seconds in taken]
        table.rows.append(Row(f"replay, {name}", rates, "rows/s", target=target, more="CPU time"))
    taken = [min(side.measure("recovery", RECOVERED, True, entries)["seconds"]) for _ in range(rounds)]
    table.rows.append(Row(f"recovery of {entries:,} entries", taken, "s", target=RECOVERY_S, at_most=True))
    say("replay and recovery: done")
    return [table]


def start(_: int, say: Callable[[str], None]) -> list[Table]:
    """Starts of an installed service, until it is ready; what it holds then."""
    seconds: list[float] = []
    memory: list[float] = []
    for _turn in range(STARTS):
        service = Service()
        seconds.append(service.start())
        memory.append(sum(own.memory_info().rss for own in service.own_processes()) / 2**20)
        service.stop()
        service.remove()
    say("starts: done")
    table = Table("Start", "a service that has run before, with a store of its own, until /readyz says 200")
    table.rows = [
        Row("second start", seconds, "s", target=START_S, at_most=True),
        Row("memory of the idle service", memory, "MB", target=IDLE_MB, at_most=True),
    ]
    return [table]
