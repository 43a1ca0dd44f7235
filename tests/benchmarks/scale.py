"""Several services behind HAProxy: ``python -m tests.benchmarks.scale [--rounds N] [--seconds S]``.

A hundred models at 64 connections, single rows with ids, through HAProxy with deploy/haproxy.cfg: one service, two and
four that models are hashed to, and two that take requests in turn, each layout with a store of its own. In every round
each is measured once; printed are medians over the rounds, and of the ratios to one service in the same round. Then one
of two services is killed under load, and started again: how many rows are lost, which models the other one loads, and
the 99th percentile second by second.

Exits with 1 where a target is missed: CPU per row of two hashed services 1.15 times that of one, of four 1.25; no row
lost or learned twice; a 99th percentile that is back within 5 s. Needs HAProxy (apt install haproxy).
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from tests.benchmarks.harness import load, rows
from tests.benchmarks.harness.processes import ROOT, Process, Service, free_port

MODELS = 100
ASKED = load.Asked("feedback", "/models/m%d/feedback", 64, MODELS, ids=True)
CPU_MAX = {"two hashed": 1.15, "four hashed": 1.25}
CHECKED_S, BACK_S, SECONDS_MAX = 2.5, 5.0, 300.0
"""Until the balancer knows who is ready; until the latency is to be back; the longest load around a change."""
SERVERS = re.compile(r"\.else\n(    server .*?)\.endif", re.DOTALL)


class Layout(NamedTuple):
    """How many services, and how requests find them."""

    name: str
    services: int
    balance: str = "hash var(txn.model)"


ONE, TWO, FOUR = Layout("one", 1), Layout("two hashed", 2), Layout("four hashed", 4)
IN_TURN = Layout("two in turn", 2, "roundrobin")


class Figures(NamedTuple):
    """Of one round: rows a second, CPU microseconds per row of services, store and balancer, rows per pipeline."""

    rate: float
    cpu_us: float
    store_us: float
    balancer_us: float
    per_tick: float


class Site(Process):
    """Services of one layout behind their balancer; a service that is asked for a model itself would follow it."""

    def __init__(self, layout: Layout, services: list[Service], balancer: "subprocess.Popen[bytes]", port: int) -> None:
        super().__init__([])
        self.layout, self.services, self.port, self.headers = layout, services, port, services[0].headers
        self.system, self.found = psutil.Process(balancer.pid), list[Figures]()

    def cpu_s(self) -> tuple[float, float, float]:
        """So far: of all services, of the store, of the balancer."""
        service, store = map(sum, zip(*(each.used() for each in self.services), strict=True))
        return service, store, self.used().service

    def learned(self) -> int:
        """Rows that the models say they have learned."""
        return sum(int(self.ask("GET", f"/models/m{number}")["rows"]) for number in range(MODELS))

    def ticks(self) -> float:
        """Pipelines to the store so far."""
        return sum(service.counter("onepass_ticks_total") for service in self.services)

    def measure(self, seconds: float) -> None:
        """One round."""
        before, ticks = self.cpu_s(), self.ticks()
        heard = load.end(load.begin(self, ASKED, seconds))
        count, after = heard.acknowledged, self.cpu_s()
        us = (1e6 * (now - old) / count for now, old in zip(after, before, strict=True))
        self.found.append(Figures(count / heard.seconds, *us, count / (self.ticks() - ticks)))
        if heard.again:
            print(f"{self.layout.name}: tries that were repeated: {heard.again}", flush=True)


def configuration(layout: Layout, port: int, ports: Sequence[int]) -> str:
    """deploy/haproxy.cfg with other servers."""
    text = (ROOT / "deploy" / "haproxy.cfg").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    servers = "".join(f"    server s{at} 127.0.0.1:{own}\n" for at, own in enumerate(ports))
    text = SERVERS.sub(lambda _: f".else\n{servers}.endif", text)
    return text.replace("balance hash var(txn.model)", f"balance {layout.balance}")


@contextmanager
def site(layout: Layout, haproxy: str) -> Iterator[Site]:
    """Start the services of a layout, their balancer, and its models."""
    with ExitStack() as stack:
        first = stack.enter_context(Service(ids_max="10000000"))
        url = f"unix://{first.socket}"
        services = [first, *(stack.enter_context(Service(redis_url=url)) for _ in range(layout.services - 1))]
        port, config = free_port(), Path(stack.enter_context(tempfile.TemporaryDirectory())) / "haproxy.cfg"
        config.write_text(configuration(layout, port, [service.port for service in services]))
        balancer = subprocess.Popen([haproxy, "-db", "-q", "-f", str(config)])
        stack.callback(balancer.wait)
        stack.callback(balancer.terminate)
        time.sleep(CHECKED_S)  # it takes every service for ready until it has looked
        found = Site(layout, services, balancer, port)
        for number in range(MODELS):
            found.ask("PUT", f"/models/m{number}", rows.model(rows.FIXED))
        yield found


def compare(sites: Sequence[Site], rounds: int, seconds: float) -> bool:
    """Measure every layout in every round; whether the targets are met."""
    for number in range(rounds + 1):
        for each in sites if number % 2 else reversed(sites):
            each.measure(seconds)
            if number == 0:  # to warm up
                each.found.clear()
    heads = ("rows/s", "ratio", "CPU us/row", "ratio", "store us/row", "balancer", "rows/pipeline")
    print(f"\n{'':12}" + "".join(f"{head:>14}" for head in heads))
    fine = True
    for each in sites:
        rate, cpu, store, balancer, per_tick = (median(column) for column in zip(*each.found, strict=True))
        pairs = list(zip(each.found, sites[0].found, strict=True))
        faster, dearer = (median(own[at] / one[at] for own, one in pairs) for at in (0, 1))
        missed = dearer > CPU_MAX.get(each.layout.name, float("inf"))
        fine = fine and not missed
        cells = f"{rate:14.0f}{faster:14.2f}{cpu:14.0f}{dearer:14.2f}{store:14.0f}{balancer:14.0f}{per_tick:14.1f}"
        print(f"{each.layout.name:12}{cells}{'   MISSED' if missed else ''}", flush=True)
    return fine


def change(found: Site, what: str, seconds: float) -> bool:
    """Kill one service under load, or start it again; whether nothing is lost and the latency comes back."""
    other, second = found.services
    rows_before, at = found.learned(), seconds / 3
    running = load.begin(found, ASKED, SECONDS_MAX)
    time.sleep(at)
    loads = other.counter("onepass_loads_total")
    if what == "killed":
        second.kill()
    else:
        at += second.start(second.port)
    time.sleep(2 * seconds / 3)
    running.terminate()
    heard = load.end(running)
    loaded = (second if what == "started" else other).counter("onepass_loads_total") - loads * (what == "killed")
    lost = rows_before + heard.acknowledged - found.learned()
    print(f"\none of two is {what} at {at:.0f} s: {heard.acknowledged} rows acknowledged, {lost} lost or twice")
    print(f"  tries repeated: {heard.again}; models that have moved: {loaded:.0f}")
    return back_s(heard.latencies, at) <= BACK_S and lost == 0


def back_s(latencies: Sequence[tuple[float, float]], at: float) -> float:
    """Print the 99th percentiles by second; seconds until they were last more than three times the usual one."""
    seconds: dict[int, list[float]] = {}
    for sent, took in latencies:
        seconds.setdefault(int(sent), []).append(1000 * took)
    slow = {second: sorted(took)[int(0.99 * len(took))] for second, took in sorted(seconds.items())}
    print("  p99 by second, ms: " + " ".join(f"{value:.0f}" for value in slow.values()), flush=True)
    usual = median(value for when, value in slow.items() if when < max(1, int(at)))
    return max((when + 1 - at for when, value in slow.items() if value > 3 * usual and when >= int(at)), default=0.0)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each layout in each round")
    parser.add_argument("--parts", nargs="+", default=["cpu", "changes"], choices=["cpu", "changes"])
    given = parser.parse_args()
    haproxy = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
    if haproxy is None:
        raise SystemExit("haproxy is not installed (Debian and Ubuntu: apt install haproxy)")
    fine = True
    if "cpu" in given.parts:
        with ExitStack() as stack:
            sites = [stack.enter_context(site(layout, haproxy)) for layout in (ONE, TWO, FOUR, IN_TURN)]
            fine = compare(sites, given.rounds, given.seconds)
    if "changes" in given.parts:
        with site(TWO, haproxy) as found:
            found.measure(given.seconds)
            changed = [change(found, what, 5 * given.seconds) for what in ("killed", "started")]
            fine = fine and all(changed)
    print("every target is met" if fine else "a target is missed")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
