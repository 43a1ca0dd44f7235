"""What many models cost: ``python -m tests.benchmarks.models [--models N]``.

N models with d = 10 are created by PUT and fed one row each through HTTP, under the default memory budget. Then the
service is stopped and started again, and models are loaded by GET, 16 at a time. Where the budget made models leave
memory, a second service with a larger one tells what an idle model takes. Every answer is looked at: each model must
say that it has learned one row.

RSS is the service's; the difference is to the service before the first model, kernels compiled and one model fed.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import monotonic, perf_counter
from typing import Any

import redis

from tests.benchmarks import rows
from tests.benchmarks.load import Job, Tally
from tests.benchmarks.processes import Load, Service

Params = dict[str, Any]
CONNECTIONS = 16
LOADED = 1000
SCRAPES = 9
MIB = 2**20


@dataclass(frozen=True)
class Stock:
    """What the models take at one moment."""

    rss: int
    store: int
    loaded: int
    estimated: int
    evictions: int

    @classmethod
    def of(cls, service: Service) -> "Stock":
        """Ask the service, its store and the kernel."""
        with redis.Redis(unix_socket_path=str(service.socket)) as store:
            used = store.info("memory")["used_memory"]
        names = ("onepass_models_loaded", "onepass_models_bytes", "onepass_evictions_total")
        loaded, estimated, evictions = (int(service.counter(name)) for name in names)
        return cls(service.system.memory_info().rss, used, loaded, estimated, evictions)


def line(what: str, value: str, note: str = "") -> None:
    """One line of the table."""
    print(f"{what:34}{value:>16}  {note}".rstrip(), flush=True)


def to_each(load: Load, service: Service, kind: str, names: Sequence[str], params: Params | None = None) -> Tally:
    """One request to each model; all must be answered as they should."""
    tally = load.run(Job(service.port, kind, connections=CONNECTIONS, models=tuple(names), params=params or {}))
    if tally.acknowledged != len(names):
        raise RuntimeError(f"{kind}: {tally.acknowledged} of {len(names)} answered")
    return tally


def fill(load: Load, service: Service, names: Sequence[str], params: Params) -> tuple[Stock, Stock]:
    """Create and feed the models; the stock before and after."""
    service.create("warm", rows.model(params))
    to_each(load, service, "feed", ["warm"])
    before = Stock.of(service)
    for kind, what in (("create", "created (PUT)"), ("feed", "fed one row each")):
        used = service.used()
        tally = to_each(load, service, kind, names, params)
        cpu_ms = 1000 * (service.used().service - used.service) / len(names)
        waits = f"p50 {tally.p50_ms:.1f} ms, p99 {tally.p99_ms:.1f} ms, CPU {cpu_ms:.2f} ms"
        line(what, f"{tally.rate:.0f} /s", f"{len(names)} in {tally.seconds:.1f} s, {waits}")
    return before, Stock.of(service)


def show_stock(before: Stock, after: Stock, models: int) -> None:
    """The lines of memory."""
    line("service RSS before", f"{before.rss / MIB:.0f} MiB")
    line("service RSS after", f"{after.rss / MIB:.0f} MiB", f"+ {(after.rss - before.rss) / MIB:.0f} MiB")
    line("models in memory", f"{after.loaded}", f"{after.evictions} evictions")
    each = (after.store - before.store) / models
    line("store used_memory", f"{after.store / MIB:.0f} MiB", f"{each:.0f} bytes a model")


def show_idle(before: Stock, after: Stock, budget: str) -> None:
    """What a model takes that is in memory and does nothing."""
    models = after.loaded - before.loaded
    note = f"estimated by the service: {(after.estimated - before.estimated) / models / 1024:.1f} KiB; {budget}"
    line("memory per idle model", f"{(after.rss - before.rss) / models / 1024:.1f} KiB", note)


def idle_elsewhere(load: Load, names: Sequence[str], params: Params) -> None:
    """The same on a service whose budget holds all of them."""
    budget_mb = 64 + len(names) // 5
    print(f"\nonce more with a budget of {budget_mb} MiB")
    with Service(memory_budget_mb=str(budget_mb)) as service:
        before, after = fill(load, service, names, params)
        if after.evictions:
            raise RuntimeError(f"{after.evictions} evictions in spite of the larger budget")
        show_stock(before, after, len(names))
        show_idle(before, after, "all in memory")


def reload(load: Load, service: Service, names: Sequence[str]) -> None:
    """Stop, start, and load some models from the store."""
    line("service stopped", f"{service.stop():.2f} s", "writes a snapshot of each model that moved")
    line("service started", f"{service.start():.2f} s", "the store reads its file")
    some = random.Random(0).sample(names, min(LOADED, len(names)))
    tally = to_each(load, service, "show", some)
    line(f"{len(some)} models loaded (GET)", f"{tally.seconds:.2f} s", _pace(tally))
    tally = to_each(load, service, "show", some)
    line("the same again, from memory", f"{tally.seconds:.2f} s", _pace(tally))
    scrapes = []
    for _ in range(SCRAPES):
        begun = perf_counter()
        service.call("GET", "/metrics")
        scrapes.append(perf_counter() - begun)
    line("GET /metrics", f"{1000 * median(scrapes):.1f} ms", f"{len(some)} models in memory")
    if service.counter("onepass_loads_total") < len(some):
        raise RuntimeError("some models were in memory before they were asked for")


def _pace(tally: Tally) -> str:
    return f"{tally.rate:.0f} /s, p50 {tally.p50_ms:.1f} ms, p99 {tally.p99_ms:.1f} ms"


def main() -> int:
    """Print the table; an answer that is not as it should be ends it with an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--budget-mb", type=int, help="a smaller budget than the default one, to see models leave")
    parser.add_argument("--once", action="store_true", help="no second service where models have left memory")
    parser.add_argument("--forgetting-rate", type=float, help="of the models; else the algorithm's default")
    options = parser.parse_args()
    params = {} if options.forgetting_rate is None else {"forgetting_rate": options.forgetting_rate}
    names = [f"model-{number:06d}" for number in range(options.models)]
    settings = {} if options.budget_mb is None else {"memory_budget_mb": str(options.budget_mb)}
    budget = "default memory budget" if options.budget_mb is None else f"memory budget {options.budget_mb} MiB"
    begun = monotonic()
    with Load() as load:
        print(f"{len(names)} models, d = {rows.DIMENSION}, {budget}")
        with Service(**settings) as service:
            before, after = fill(load, service, names, params)
            show_stock(before, after, len(names))
            if not after.evictions:
                show_idle(before, after, "all in memory")
            to_each(load, service, "show", names)
            line("verified (GET each)", f"{len(names)}", "rows == 1")
            reload(load, service, names)
        if after.evictions and not options.once:
            idle_elsewhere(load, names, params)
    print(f"{monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
