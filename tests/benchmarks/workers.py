"""One worker and two: ``python -m tests.benchmarks.workers [--rounds N]``.

Throughput of single rows at 16 connections, all to one hot model and spread over 100, with one worker and with two, in
turn within each round; the ratios are of the medians. The load generator is a process of its own, but it shares the
machine's cores with the workers and the store, as does everything else that runs there: with two cores it takes about
half of one, and the ratios are the worse for it.

Then the time to load a model over the length of its log (from the first version on: no snapshot helps), and how far a
service that is sent nothing lags behind one that learns: the time from an acknowledgement at the one until the other,
asked every half a millisecond and never for freshness, has that version.
"""

import argparse
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from tests.benchmarks import rows
from tests.benchmarks.load import Job
from tests.benchmarks.processes import Load, Service

MODELS = tuple(f"m{number}" for number in range(100))
CONNECTIONS = 16
SECONDS = 2.0
HOT_MIN, SPREAD_MIN = 1.0, 1.5
LOGS = (1_000, 10_000, 50_000)
LAGS = 400


def _cpu_s(service: Service) -> float:
    """CPU seconds of the workers and their parent, without the store."""
    own = [service.system, *service.system.children(recursive=True)]
    times = [each.cpu_times() for each in own if each.name() not in {"redis-server", "valkey-server"}]
    return sum(time.user + time.system for time in times)


def _feed(load: Load, service: Service, spread: bool, seconds: float) -> float:
    job = Job(
        service.port, "feedback", "/models/hot/feedback", CONNECTIONS, seconds, 0.3, spread=MODELS if spread else ()
    )
    return load.run(job).rate


def throughput(load: Load, rounds: int) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """Rows a second and CPU microseconds a row, by kind and number of workers."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    with Service(workers="1") as one, Service(workers="2") as two:
        for service in (one, two):
            for name in ("hot", *MODELS):
                service.create(name, rows.model({}))
            for spread in (False, True):
                _feed(load, service, spread, 0.5)  # every worker has loaded every model then
        for number in range(rounds):
            for spread in (False, True):
                for workers, service in ((1, one), (2, two)):
                    before = _cpu_s(service)
                    rate = _feed(load, service, spread, SECONDS)
                    cpu_us = 1e6 * (_cpu_s(service) - before) / (rate * (SECONDS + 0.3))
                    found["spread" if spread else "hot", workers].append((rate, cpu_us))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


def recovery(load: Load) -> Iterator[tuple[int, int, float]]:
    """Entries, rows and seconds until a model that is in no memory answers."""
    with Service(snapshot_min_kb="1000000", snapshots_kept="1") as service:
        service.create("hot", rows.model({}))
        for entries in LOGS:
            while (shown := _shown(service))["version"] < entries:
                _feed(load, service, False, 1.0)
            service._process.kill()  # a stop would write a snapshot
            service._process.wait()
            time.sleep(0.5)
            service.start()
            begun = time.monotonic()
            shown = _shown(service)
            yield shown["version"], shown["rows"], time.monotonic() - begun


def _shown(service: Service) -> dict[str, int]:
    return json.loads(service.call("GET", "/models/hot")[1])


def lags(load: Load) -> list[float]:
    """Milliseconds that the follower was behind, one per acknowledgement looked at, while others learn as well."""
    with Service() as first:
        url = f"unix://{first.socket}"
        with Service(redis_url=url) as learning, Service(redis_url=url) as following:
            learning.create("hot", rows.model({}))
            _shown(following)
            noise = threading.Thread(target=_feed, args=(load, learning, False, LAGS * 0.03))
            noise.start()
            found = []
            body = json.loads(rows.single(1, 5)[0])
            while len(found) < LAGS and noise.is_alive():
                status, answer = learning.call("POST", "/models/hot/feedback", body)
                begun = time.monotonic()
                assert status == 200
                version = json.loads(answer)["version"]
                while _shown(following)["version"] < version:
                    time.sleep(0.0005)
                found.append(1000 * (time.monotonic() - begun))
            noise.join()
            return sorted(found)


def main() -> int:
    """Print the tables; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    missed = []
    with Load() as load:
        found = throughput(load, options.rounds)
        print(f"{'single rows, 16 connections':30}{'1 worker':>12}{'2 workers':>12}{'ratio':>8}  lowest to highest")
        for kind, least in (("hot", HOT_MIN), ("spread", SPREAD_MIN)):
            one, two = ([rate for rate, _ in found[kind, workers]] for workers in (1, 2))
            ratios = sorted(b / a for a, b in zip(one, two, strict=True))
            ratio = median(ratios)
            print(f"{kind:30}{median(one):12.0f}{median(two):12.0f}{ratio:8.2f}  {ratios[0]:.2f} to {ratios[-1]:.2f}")
            one, two = ([cpu for _, cpu in found[kind, workers]] for workers in (1, 2))
            print(f"{'  CPU us a row, no store':30}{median(one):12.0f}{median(two):12.0f}")
            if ratio < least:
                missed.append(f"{kind}: {ratio:.2f}, target {least}")
        print(f"\n{'recovery, entries':>20}{'rows':>10}{'seconds':>10}")
        for entries, learned, seconds in recovery(load):
            print(f"{entries:20}{learned:10}{seconds:10.2f}")
        behind = lags(load)
        shares = (0.5, 0.9, 0.99)
        print("\nfollower behind, ms: " + ", ".join(f"p{s * 100:g} {behind[int(len(behind) * s)]:.1f}" for s in shares))
    for miss in missed:
        print(f"MISSED  {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
